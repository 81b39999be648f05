"""Definitions as another node changes them: of all that is declared, what one who only reads streams goes by.

People, their rights and limits, virtual hosts and streams. Taken one after another, as they were recorded there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.broker.operate import administer
from warren.broker.operate.definitions import restore
from warren.broker.rules.queue_settings import STREAM

if TYPE_CHECKING:
    from warren.broker.node import Node

_KINDS: Final = ("vhost", "vhost_limit", "user", "permission")
_QUEUE: Final = "queue"


def take(node: Node, kind: str, key: tuple[str, ...], value: dict[str, object] | None) -> list[str]:
    """It is so now, or is no more. Gives what cannot be understood, a line for each.

    A virtual host does not go: that takes turns, in which one of the same name may come. Whoever hears of it begins
    with a node that never had it.
    """
    if kind == _QUEUE:
        return _take_queue(node, key, value)
    if kind not in _KINDS:
        return []
    if value is not None:
        return restore(node, [(kind, key, value)])
    if kind == "user":
        administer.delete_user(node, key[0])
    elif kind == "permission":
        administer.clear_permission(node, key[0], key[1])
    elif kind == "vhost_limit" and key[0] in node.vhosts:
        administer.set_vhost_limits(node, key[0], {})
    return []


def _take_queue(node: Node, key: tuple[str, ...], value: dict[str, object] | None) -> list[str]:
    vhost = node.vhosts.get(key[0])
    queue = None if vhost is None else vhost.queues.get(key[1])
    if vhost is not None and queue is not None and (value is None or value.get("incarnation") != queue.incarnation):
        vhost.delete_queue(queue)
    if value is None or value.get("type") != STREAM:
        return []
    return restore(node, [(_QUEUE, key, value)])
