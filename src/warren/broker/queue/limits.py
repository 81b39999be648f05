"""Max-length and max-length-bytes. They count ready messages and their bodies, never what consumers hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.broker.message import Message
from warren.broker.queue.deadletter import REASON_MAXLEN

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue


def is_full_for(queue: Queue, message: Message) -> bool:
    """Would this message be one too many? Asked before it is taken in, by the reject-publish modes."""
    options = queue.options
    backing = queue.backing
    if options.max_length >= 0 and backing.length + 1 > options.max_length:
        return True
    return options.max_bytes >= 0 and backing.body_bytes + message.body_size > options.max_bytes


def drop_excess(queue: Queue) -> bool:
    """drop-head: the oldest go until the limits hold, the newest among them if it alone is too big. True if any had
    to go."""
    options = queue.options
    if options.rejects_when_full:
        return False
    is_over = False
    backing = queue.backing
    max_length = options.max_length
    max_bytes = options.max_bytes
    while backing.length > 0 and (
        (max_length >= 0 and backing.length > max_length) or (max_bytes >= 0 and backing.body_bytes > max_bytes)
    ):
        entry = backing.fetch()
        if entry is None:
            return is_over
        is_over = True
        queue.remove(entry, REASON_MAXLEN)
    return is_over
