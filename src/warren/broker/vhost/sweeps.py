"""What one request does to all that is in a virtual host: policies matched anew, queues that go with what they are in.

In pieces. Until the last is done `Realm.sweeping` says so, and requests that began one are not answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.queue import Queue

if TYPE_CHECKING:
    from warren.broker.vhost.vhost import VHost

# What it costs to delete a queue, and to match a name with no policy and with each.
_DELETE_UNITS: Final[i64] = 50
_APPLY_UNITS: Final[i64] = 20
_MATCH_UNITS: Final[i64] = 2


class Sweep(Errand):
    def __init__(self, vhost: VHost) -> None:
        super().__init__()
        self.vhost = vhost
        vhost.node.sweeping += 1

    def step(self, budget: Budget) -> bool:
        if not self.sweep(budget):
            return False
        self.vhost.node.sweeping -= 1
        return True

    def sweep(self, budget: Budget) -> bool:
        raise NotImplementedError

    def failed(self) -> bool:
        self.vhost.node.sweeping -= 1
        return True


class PolicySweep(Sweep):
    """`changed` is the policy that was set, empty when one was deleted; without it nobody is told."""

    def __init__(self, vhost: VHost, changed: dict[str, object] | None) -> None:
        super().__init__(vhost)
        self._changed = changed
        self._exchanges = list(vhost.exchanges.values())
        self._queues = list(vhost.queues.values())
        self._at: i64 = 0

    def sweep(self, budget: Budget) -> bool:
        vhost = self.vhost
        cost = _APPLY_UNITS + _MATCH_UNITS * vhost.policies.count()
        exchanges: i64 = len(self._exchanges)
        while self._at < exchanges + len(self._queues) and budget.left > 0:
            if self._at < exchanges:
                vhost.apply_exchange_policy(self._exchanges[self._at])
            else:
                vhost.reapply_queue_policy(self._queues[self._at - exchanges], self._changed)
            self._at += 1
            budget.spend(cost)
        vhost.node.topology_changed()
        return self._at == exchanges + len(self._queues)


class QueueSweep(Sweep):
    """Delete these queues."""

    def __init__(self, vhost: VHost, queues: list[Queue]) -> None:
        super().__init__(vhost)
        self._queues = queues
        self._queues.reverse()

    def sweep(self, budget: Budget) -> bool:
        while self._queues and budget.left > 0:
            self.vhost.delete_queue(self._queues.pop())
            budget.spend(_DELETE_UNITS)
        return not self._queues
