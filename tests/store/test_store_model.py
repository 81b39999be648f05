"""A queue on disk against a plain list: whatever is done to both, they hold the same messages in the same order, and
where that is counted they know how often each came back."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in
from warren.broker.queue.entry import Entry

# Only the second counts what comes back.
QUEUES = ("one", "two")
COUNTS: dict[str, Any] = {"queue_type": "quorum", "delivery_limit": -1}


class StoreMachine(RuleBasedStateMachine):
    """Everything is flushed and synced before a restart, so that the list need not know what a crash may take."""

    def __init__(self) -> None:
        super().__init__()
        self.world = StoredWorld(SimulatedDisk(), None, segment_bytes=700, units=2)
        self.count = 0
        # Bodies in the order of their publishing, and which of them are in a client's hands.
        self.model: dict[str, list[str]] = {}
        self.held: dict[str, list[Entry]] = {}
        self.returns: dict[str, int] = {}
        for name in QUEUES:
            self._declare(name)
            self.model[name] = []
            self.held[name] = []

    def _declare(self, name: str) -> None:
        self.world.declare(name, **(COUNTS if name == "two" else {}))

    def _ready(self, name: str) -> list[str]:
        held = {body_in(entry) for entry in self.held[name]}
        return [body for body in self.model[name] if body not in held]

    @rule(names=st.sets(st.sampled_from(QUEUES), min_size=1), size=st.sampled_from((1, 50, 400, 900)))
    def publish(self, names: set[str], size: int) -> None:
        self.count += 1
        body = f"m{self.count}:" + "x" * size
        self.world.publish(body, *sorted(names))
        for name in names:
            self.model[name].append(body)

    @rule(name=st.sampled_from(QUEUES))
    def get(self, name: str) -> None:
        ready = self._ready(name)
        entry = self.world.get(name)
        assert (None if entry is None else body_in(entry)) == (ready[0] if ready else None)
        if entry is not None:
            assert name == "one" or entry.returns == self.returns.get(body_in(entry), 0)
            self.held[name].append(entry)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in QUEUES if self.held[name]]))
        entry = self.held[name].pop(data.draw(st.integers(0, len(self.held[name]) - 1)))
        self.world.queue(name).ack(entry)
        self.model[name].remove(body_in(entry))

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in QUEUES if self.held[name]]))
        entry = self.held[name].pop(data.draw(st.integers(0, len(self.held[name]) - 1)))
        if name == "two":
            self.returns[body_in(entry)] = self.returns.get(body_in(entry), 0) + 1
        self.world.queue(name).requeue([entry])

    @rule(name=st.sampled_from(QUEUES))
    def purge(self, name: str) -> None:
        ready = self._ready(name)
        backing = self.world.queue(name).backing
        length = backing.length
        # In pieces, as a purge is.
        while backing.settle_to(1 << 62, 3) == 3:
            pass
        assert (length, backing.length) == (len(ready), 0)
        self.model[name] = [body for body in self.model[name] if body not in ready]

    @rule(name=st.sampled_from(QUEUES))
    def delete_and_declare(self, name: str) -> None:
        self.world.delete(name)
        self._declare(name)
        self.model[name] = []
        self.held[name] = []

    @rule(name=st.sampled_from(QUEUES))
    def fail(self, name: str) -> None:
        """The queue breaks down: it has again what it gave out."""
        self.world.queue(name).restart()
        self.held[name] = []

    @rule()
    def sync(self) -> None:
        self.world.sync()

    @rule()
    def roll(self) -> None:
        self.world.roll()

    @rule()
    def chore(self) -> None:
        self.world.chore()

    @rule(pick=st.integers(0, 100))
    def compact(self, pick: int) -> None:
        segments = self.world.compactable()
        if segments:
            self.world.compact(segments[pick % len(segments)])

    @rule()
    def restart(self) -> None:
        self.world.sync()
        self.world = self.world.restarted(self.world.disk.lose_all())
        self.held = {name: [] for name in QUEUES}

    @invariant()
    def counts_agree(self) -> None:
        for name in QUEUES:
            backing = self.world.queue(name).backing
            ready = self._ready(name)
            assert backing.length == len(ready)
            assert backing.body_bytes == sum(map(len, ready))

    def teardown(self) -> None:
        self.world.sync()
        again = self.world.restarted(self.world.disk.lose_all())
        found = {body_in(entry): entry.returns for entry in again.queue("two").browse(0, 1 << 30)}
        assert found == {body: self.returns.get(body, 0) for body in self.model["two"]}
        for name in QUEUES:
            assert self.world.drain(name) == self._ready(name)
            assert again.drain(name) == self.model[name]


StoreMachine.TestCase.settings = settings(
    max_examples=200, stateful_step_count=80, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAgainstAList = StoreMachine.TestCase
