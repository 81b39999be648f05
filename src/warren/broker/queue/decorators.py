"""Extension point: what a plug-in may hear of queues. Exchange decorators are in exchanges/base.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from warren.broker.rules.setting_kinds import Kind

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueDecorator:
    """Hears about the queues for which it is active. It must not publish from within."""

    def policy_keys(self) -> dict[str, Kind]:
        """Keys of its own that policies may hold, and what values they take. Asked once."""
        return {}

    def active_for(self, queue: Queue) -> bool:
        """Asked when the queue is made and when its `effective_policy` may have changed."""
        return True

    def startup(self, queue: Queue) -> None:
        """From now on it is active for this queue, which is new or has another policy."""

    def shutdown(self, queue: Queue) -> None:
        """No longer: the queue is gone or has another policy."""

    def policy_changed(self, queue: Queue) -> None:
        """The effective policy may have changed, and it stays active."""

    def consumer_state_changed(self, queue: Queue) -> None:
        """A consumer came or went, or an attempt to deliver has changed whether any of them can take more."""


def decorate_queue(queue: Queue, installed: list[QueueDecorator]) -> None:
    """Its policy may have changed, or it is new: those that are for it from now on are told, and so are the others."""
    before = queue.decorators
    if not before and not installed:
        return
    queue.decorators = [decorator for decorator in installed if decorator.active_for(queue)]
    for decorator in before:
        if decorator in queue.decorators:
            decorator.policy_changed(queue)
        else:
            decorator.shutdown(queue)
    for decorator in queue.decorators:
        if decorator not in before:
            decorator.startup(queue)
