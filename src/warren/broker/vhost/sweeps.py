"""What one request does to all that is in a virtual host: policies matched anew, queues that go with what they are in;
and, in session/expulsion.py, to all who are connected.

In pieces. Until the last is done `Realm.sweeping` says so, and requests that began one are not answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from warren.broker.exchanges.base import Destination, Exchange
from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.queue import Queue

if TYPE_CHECKING:
    from warren.broker.vhost.realm import Realm
    from warren.broker.vhost.vhost import VHost

# What it costs to delete a queue, to unbind it, and to match a name with no policy and with each.
_DELETE_UNITS: Final[i64] = 50
_BINDING_UNITS: Final[i64] = 10
_APPLY_UNITS: Final[i64] = 20
_MATCH_UNITS: Final[i64] = 2


class Sweep(Errand):
    def __init__(self, realm: Realm) -> None:
        super().__init__()
        self._realm = realm
        realm.sweeping += 1

    def step(self, budget: Budget) -> bool:
        if not self.sweep(budget):
            return False
        self._realm.sweeping -= 1
        return True

    def sweep(self, budget: Budget) -> bool:
        raise NotImplementedError

    def failed(self) -> bool:
        self._realm.sweeping -= 1
        return True


class PolicySweep(Sweep):
    """`changed` is the policy that was set, empty when one was deleted; without it nobody is told."""

    def __init__(self, vhost: VHost, changed: dict[str, object] | None) -> None:
        super().__init__(vhost.node)
        self.vhost = vhost
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


class Removal(Sweep):
    """First the bindings of a queue or an exchange, then itself: until then it is there, and a message goes where
    bindings are left. So none of them is found again after a crash, and none is another's of the same name.
    """

    def __init__(self, vhost: VHost, destination: Destination) -> None:
        super().__init__(vhost.node)
        self.vhost = vhost
        self.destination = destination

    def sweep(self, budget: Budget) -> bool:
        vhost = self.vhost
        count: i64 = 1
        while count > 0:
            if budget.left <= 0:
                return False
            count = vhost.strip(self.destination, budget.left // _BINDING_UNITS + 1)
            budget.spend(count * _BINDING_UNITS)
        budget.spend(_DELETE_UNITS)
        self.finish()
        return True

    def finish(self) -> None:
        destination = self.destination
        if isinstance(destination, Queue):
            self.vhost.queue_gone(destination)
        elif isinstance(destination, Exchange):
            self.vhost.exchange_gone(destination)


class QueueSweep(Sweep):
    """Delete these queues, then these exchanges."""

    def __init__(self, vhost: VHost, queues: list[Queue], exchanges: list[Exchange]) -> None:
        super().__init__(vhost.node)
        self.vhost = vhost
        self._left: list[Destination] = []
        self._removal: Removal | None = None
        self.add(queues, exchanges)

    def add(self, queues: list[Queue], exchanges: list[Exchange]) -> None:
        """When nothing is left of those before."""
        self._left = [*queues, *exchanges]
        self._left.reverse()

    def sweep(self, budget: Budget) -> bool:
        while budget.left > 0:
            if self._removal is not None:
                if not self._removal.step(budget):
                    return False
                self._removal = None
            if not self._left:
                return True
            self._removal = Removal(self.vhost, self._left.pop())
        return False

    def failed(self) -> bool:
        if self._removal is not None:
            self._removal.failed()
        return super().failed()
