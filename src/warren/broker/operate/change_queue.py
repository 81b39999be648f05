"""Changing the arguments of a queue in place: at once where that is safe, and the reasons where it is not.

A declaration over AMQP still refuses other arguments, as clients expect; this is what operators ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warren.amqp.fields import Field, Table
from warren.broker.rules.arguments import check_queue_arguments, check_stream_arguments, queue_type
from warren.broker.rules.queue_settings import ARGUMENTS

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.vhost.vhost import VHost


class Difference:
    """One argument; None where it is not set. `obstacle` is empty when it may change."""

    def __init__(self, argument: str, current: Field | None, wanted: Field | None, obstacle: str) -> None:
        self.argument = argument
        self.current = current
        self.wanted = wanted
        self.obstacle = obstacle


def differences(queue: Queue, wanted: Table) -> list[Difference]:
    found: list[Difference] = []
    for key in sorted({*queue.arguments, *wanted}):
        now, then = queue.arguments.get(key), wanted.get(key)
        if key == "x-queue-type" and queue_type(wanted) == queue.type:
            continue
        if now is None or then is None or now.value != then.value:
            obstacle = ARGUMENTS[key].fixed if key in ARGUMENTS else ""
            found.append(Difference(key, now, then, obstacle))
    return found


def change(vhost: VHost, queue: Queue, wanted: Table) -> list[Difference]:
    """What is different. Nothing changes if anything stands against it; AmqpError if a value cannot be."""
    check_queue_arguments(wanted, queue.type, queue.name, queue.vhost)
    check_stream_arguments(wanted, queue.name, queue.vhost, vhost.node.store.can_archive)
    found = differences(queue, wanted)
    if not found or any(difference.obstacle for difference in found):
        return found
    queue.arguments = wanted
    vhost.arguments_changed(queue)
    return found
