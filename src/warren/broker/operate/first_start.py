"""What a broker has before anybody declared anything: the default vhost, and the default user, who may do all there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.operate import administer
from warren.broker.operate.definitions import Hasher
from warren.broker.rules.access import User

if TYPE_CHECKING:
    from warren.broker.node import Node


def make_defaults(node: Node, hasher: Hasher) -> None:
    settings = node.settings
    node.add_vhost(settings.default_vhost, "Default virtual host")
    if not settings.default_user:
        return
    algorithm, password_hash = hasher.hash(settings.default_password)
    administer.put_user(node, User(settings.default_user, password_hash, algorithm, ["administrator"]))
    administer.set_permission(node, settings.default_user, settings.default_vhost, ".*", ".*", ".*")
