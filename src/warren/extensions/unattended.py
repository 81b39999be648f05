"""A queue decorator that says in the log when nobody consumes from a queue any more. A policy says which queues.

In warren.toml: queue_decorators = ["warren.extensions.unattended:Unattended"]
A policy for queues with {"warn-unattended": true} then has them watched.
"""

from __future__ import annotations

import logging

from warren.extend import Flag, Kind, Queue, QueueDecorator

KEY = "warn-unattended"


class Unattended(QueueDecorator):
    """Tells of a queue that loses its last consumer, and of one that gets its first again."""

    def __init__(self) -> None:
        super().__init__()
        self._attended: set[Queue] = set()
        self._deserted: set[Queue] = set()

    def policy_keys(self) -> dict[str, Kind]:
        return {KEY: Flag()}

    def active_for(self, queue: Queue) -> bool:
        return queue.effective_policy.get(KEY) is True

    def startup(self, queue: Queue) -> None:
        self.consumer_state_changed(queue)

    def shutdown(self, queue: Queue) -> None:
        self._attended.discard(queue)
        self._deserted.discard(queue)

    def consumer_state_changed(self, queue: Queue) -> None:
        what = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        if queue.consumers.count and queue not in self._attended:
            self._attended.add(queue)
            if queue in self._deserted:
                self._deserted.discard(queue)
                queue.node.host.log(logging.INFO, f"{what} is consumed from again")
        elif not queue.consumers.count and queue in self._attended:
            self._attended.discard(queue)
            self._deserted.add(queue)
            waiting = int(queue.backing.length)
            queue.node.host.log(logging.WARNING, f"nobody consumes from {what} any more; {waiting} messages wait")
