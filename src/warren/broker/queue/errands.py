"""Errands: work without a bound, done a piece in each turn, so that everybody is served between two pieces.

What a piece costs is counted in units, each about a microsecond of the compiled broker: the core has no clock, and a
count is the same on every machine. All errands together have UNITS a turn; whoever used them up waits behind the rest.
"""

from __future__ import annotations

import traceback
from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.broker.queue.outlet import Outlet
from warren.broker.world import ERROR, Host
from warren.errors import InternalError

# A fifth of the 20 ms that nobody should wait longer than: readers and consumers have their share of a turn, too.
UNITS: Final[i64] = 4000


class Budget:
    """What is left of a turn."""

    def __init__(self) -> None:
        self.units: i64 = UNITS
        self.left: i64 = UNITS
        # The most that a turn has cost so far: its units, and what the last piece in it took more.
        self.most: i64 = 0

    def spend(self, units: i64) -> None:
        self.left -= units
        self.most = max(self.most, self.units - self.left)


@mypyc_attr(allow_interpreted_subclasses=True)
class Errand:
    def __init__(self) -> None:
        # The connection that asked for it.
        self.waiter: Outlet | None = None

    def step(self, budget: Budget) -> bool:
        """A piece of it, until the budget is spent. True when nothing is left to do."""
        raise NotImplementedError

    def failed(self) -> bool:
        """It raised: put back in order what is half done. True to give it up, because it would raise again in every
        turn; then a connection that waits for it is closed.
        """
        return True


class Rest(Errand):
    """Nothing but to wait for a turn in which something is left."""

    def step(self, budget: Budget) -> bool:
        return True


class Errands:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.waiting: deque[Errand] = deque()
        self.budget = Budget()

    def add(self, errand: Errand) -> None:
        self.waiting.append(errand)
        self._host.wake()

    def begin(self, errand: Errand, waiter: Outlet | None) -> None:
        """At once, with what is left of the turn. For what is left of it, whoever asked is not read on."""
        if self.budget.left > 0 and self.attempt(errand, self.budget):
            return
        if waiter is not None:
            errand.waiter = waiter
            waiter.await_errand()
        self.add(errand)

    def attempt(self, errand: Errand, budget: Budget) -> bool:
        """A piece of it now. If it raises, whoever asked for it is still there to be told."""
        try:
            return errand.step(budget)
        except Exception:
            errand.failed()
            raise

    def charge(self, units: i64, who: Outlet) -> None:
        """Work that could not be cut was done. Whoever asked for it is not read on in a turn that is used up."""
        self.budget.spend(units)
        if self.budget.left <= 0:
            self.begin(Rest(), who)

    def run(self) -> None:
        """This turn's share, in the order in which they wait."""
        budget = self.budget
        budget.left = budget.units
        count = len(self.waiting)
        while count > 0 and budget.left > 0:
            count -= 1
            errand = self.waiting.popleft()
            if not self._step(errand, budget):
                self.waiting.append(errand)
            elif errand.waiter is not None:
                errand.waiter.errand_done()
        if self.waiting:
            self._host.wake()

    def _step(self, errand: Errand, budget: Budget) -> bool:
        try:
            return errand.step(budget)
        except Exception:
            self._host.log(ERROR, f"work of more than one turn failed\n{traceback.format_exc()}")
            is_over = errand.failed()
            if is_over and errand.waiter is not None:
                # Who asked waits for an answer that will not come.
                errand.waiter.fail(InternalError("unexpected error"))
            return is_over
