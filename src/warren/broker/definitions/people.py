"""Users and their permissions in a definitions file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warren.broker import administer, hashing
from warren.broker.access import TAGS_MAX, USER_LIMITS, User
from warren.broker.definitions.document import Item
from warren.broker.definitions.section import Names, Section
from warren.broker.pattern import Pattern
from warren.broker.pattern_syntax import PatternError
from warren.broker.policies import ValidationFailed

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
        name = item.name("name")
        if not name:
            raise item.error("name", "is empty")
        if len(item.words("tags")) > TAGS_MAX:
            raise item.error("tags", f"more than {TAGS_MAX} tags")
        if item.fields.get("password") is not None:
            self._check_password(item)
        else:
            refusal = hashing.refusal_of(_algorithm(item), item.text_or("password_hash", ""))
            if refusal:
                key = "hashing_algorithm" if refusal.startswith("unknown") else "password_hash"
                raise item.error(key, refusal)
        _limits(item)
        names.users.add(name)
        return True

    def _check_password(self, item: Item) -> None:
        if item.fields.get("password_hash") is not None:
            raise item.error("password", "stands beside a password_hash; only one of them may be given")
        if not item.text("password"):
            raise item.error("password", "is empty")
        if self._hasher is None:
            raise item.error("password", "only a password_hash can be imported here")

    def apply(self, item: Item, node: Node) -> None:
        name = item.text("name")
        algorithm, password_hash = _algorithm(item), item.text_or("password_hash", "")
        if self._hasher is not None and item.fields.get("password") is not None:
            algorithm, password_hash = self._hasher.hash(item.text("password"))
        before = node.access.find(name)
        limits = before.limits if before is not None and item.fields.get("limits") is None else _limits(item)
        administer.put_user(node, User(name, password_hash, algorithm, item.words("tags"), limits))

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        return [administer.user_definition(node.access.users[name]) for name in sorted(node.access.users)]


class Permissions(Section):
    def __init__(self) -> None:
        super().__init__("permissions", "permission")

    def check(self, item: Item, names: Names) -> bool:
        names.user(item)
        names.vhost(item)
        for action in ("configure", "write", "read"):
            _check_pattern(item, action)
        return True

    def apply(self, item: Item, node: Node) -> None:
        administer.set_permission(
            node, item.text("user"), item.text("vhost"), item.text("configure"), item.text("write"), item.text("read")
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for user, place in sorted(node.access.permissions):
            if vhost is None or place == vhost:
                permission = node.access.permissions[(user, place)]
                exported.append(
                    {
                        "user": user,
                        "vhost": place,
                        "configure": permission.configure,
                        "write": permission.write,
                        "read": permission.read,
                    }
                )
        return exported


class TopicPermissions(Section):
    def __init__(self) -> None:
        super().__init__("topic_permissions", "topic_permission")

    def check(self, item: Item, names: Names) -> bool:
        names.user(item)
        names.vhost(item)
        item.name("exchange")
        for action in ("write", "read"):
            _check_pattern(item, action)
        return True

    def apply(self, item: Item, node: Node) -> None:
        administer.set_topic_permission(
            node, item.text("user"), item.text("vhost"), item.text("exchange"), item.text("write"), item.text("read")
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for user, place, exchange in sorted(node.access.topic_permissions):
            if vhost is None or place == vhost:
                permission = node.access.topic_permissions[(user, place, exchange)]
                exported.append(
                    {
                        "user": user,
                        "vhost": place,
                        "exchange": exchange,
                        "write": permission.write,
                        "read": permission.read,
                    }
                )
        return exported


def _check_pattern(item: Item, key: str) -> None:
    try:
        Pattern(item.text(key))
    except PatternError as error:
        raise item.error(key, str(error)) from None


def _algorithm(item: Item) -> str:
    return item.text_or("hashing_algorithm", hashing.SHA256)


def _limits(item: Item) -> dict[str, int]:
    try:
        return administer.checked_limits(item.object("limits"), USER_LIMITS, "user-limits")
    except ValidationFailed as error:
        raise item.error("limits", "; ".join(error.refusals)) from None
