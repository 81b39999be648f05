"""Users and their permissions in a definitions file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from warren.broker.operate import administer
from warren.broker.operate.definitions.section import Names, Section
from warren.broker.rules import hashing
from warren.broker.rules.access import TAGS_MAX, USER_LIMITS, User
from warren.broker.rules.document import Item
from warren.broker.rules.pattern import Pattern
from warren.broker.rules.pattern_syntax import PatternError
from warren.broker.rules.policies import ValidationFailed
from warren.broker.vhost.shapes import UserRead, permission_item, topic_permission_item, user_item

if TYPE_CHECKING:
    from warren.broker.node import Node


class Hasher(Protocol):
    """Salts come from the world: server/passwords.py."""

    def hash(self, password: str) -> tuple[str, str]: ...


class Users(Section):
    def __init__(self, hasher: Hasher | None) -> None:
        super().__init__("users", "user")
        self._hasher = hasher

    def check(self, item: Item, names: Names) -> bool:
        user = UserRead(item)
        if not user.name:
            raise item.error("name", "is empty")
        if len(user.tags) > TAGS_MAX:
            raise item.error("tags", f"more than {TAGS_MAX} tags")
        if user.password is not None:
            self._check_password(item, user)
        else:
            refusal = hashing.refusal_of(user.algorithm, user.password_hash)
            if refusal:
                key = "hashing_algorithm" if refusal.startswith("unknown") else "password_hash"
                raise item.error(key, refusal)
        _limits(item)
        names.users.add(user.name)
        return True

    def _check_password(self, item: Item, user: UserRead) -> None:
        if item.fields.get("password_hash") is not None:
            raise item.error("password", "stands beside a password_hash; only one of them may be given")
        if not user.password:
            raise item.error("password", "is empty")
        if self._hasher is None:
            raise item.error("password", "only a password_hash can be imported here")

    def apply(self, item: Item, node: Node) -> None:
        user = UserRead(item)
        if self._hasher is not None and user.password is not None:
            user.algorithm, user.password_hash = self._hasher.hash(user.password)
        before = node.access.users.get(user.name)
        limits = before.limits if before is not None and item.fields.get("limits") is None else _limits(item)
        administer.put_user(node, User(user.name, user.password_hash, user.algorithm, user.tags, limits))

    def export(self, node: Node, vhost: str | None) -> Iterable[dict[str, object]]:
        return [user_item(node.access.users[name]) for name in sorted(node.access.users)]


class Permissions(Section):
    def check(self, item: Item, names: Names) -> bool:
        return _check_rights(item, names, ("configure", "write", "read"))

    def apply(self, item: Item, node: Node) -> None:
        administer.set_permission(node, *item.texts("user", "vhost", "configure", "write", "read"))

    def export(self, node: Node, vhost: str | None) -> Iterable[dict[str, object]]:
        rights = node.access.permissions
        return [permission_item(key[0], key[1], rights[key]) for key in sorted(rights) if vhost in (None, key[1])]


class TopicPermissions(Section):
    def check(self, item: Item, names: Names) -> bool:
        item.name("exchange")
        return _check_rights(item, names, ("write", "read"))

    def apply(self, item: Item, node: Node) -> None:
        administer.set_topic_permission(node, *item.texts("user", "vhost", "exchange", "write", "read"))

    def export(self, node: Node, vhost: str | None) -> Iterable[dict[str, object]]:
        rights = node.access.topic_permissions
        return [topic_permission_item(key[0], key[1], rights[key]) for key in sorted(rights) if vhost in (None, key[1])]


def _check_rights(item: Item, names: Names, actions: tuple[str, ...]) -> bool:
    names.user(item)
    names.vhost(item)
    for action in actions:
        try:
            Pattern(item.text(action))
        except PatternError as error:
            raise item.error(action, str(error)) from None
    return True


def _limits(item: Item) -> dict[str, int]:
    try:
        return administer.checked_limits(item.object("limits"), USER_LIMITS, "user-limits")
    except ValidationFailed as error:
        raise item.error("limits", "; ".join(error.refusals)) from None
