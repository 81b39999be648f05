"""Confirms against the promise itself: each number is answered once, and `multiple` covers nothing that is open."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.broker.harness import World, publish_frames
from warren.amqp import methods
from warren.amqp.properties import Properties

KEYS = ["durable", "transient", "full", "nowhere", "both", "everything"]


class ConfirmMachine(RuleBasedStateMachine):
    """What a number waits for is known when it is published; answers must come when that is there, not before."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.channel = self.world.channel()
        self.channel.declare("durable", durable=True)
        self.channel.declare("transient")
        self.channel.declare("full", durable=True, x_max_length=0, x_overflow="reject-publish")
        for key, queues in {
            "durable": ["durable"],
            "transient": ["transient"],
            "full": ["full"],
            "both": ["durable", "transient"],
            "everything": ["durable", "transient", "full"],
        }.items():
            for queue in queues:
                self.channel.bind(queue, "amq.direct", key)
        self.channel.confirm()
        self.world.store.holds = True
        self.published = 0
        # Numbers that must not be answered yet, with the position of the disk that they wait for.
        self.waiting: dict[int, int] = {}
        # Numbers whose answer is due, and which it is.
        self.due: dict[int, str] = {}
        self.answers: dict[int, str] = {}

    @rule(batch=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=6))
    def publish(self, batch: list[tuple[str, bool]]) -> None:
        data = b""
        for key, persistent in batch:
            properties = Properties(delivery_mode=2 if persistent else 1)
            data += publish_frames(1, "m", key, "amq.direct", properties=properties)
        position = int(self.world.store.position)
        for key, persistent in batch:
            self.published += 1
            if persistent and key in ("durable", "both", "everything"):
                position += 1
            if key in ("full", "everything"):
                self.due[self.published] = "nack"
            elif persistent and key in ("durable", "both") and position > self.world.store.synced:
                self.waiting[self.published] = position
            else:
                self.due[self.published] = "ack"
        self.channel.client.feed(data)
        self.collect()

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        store = self.world.store
        position = data.draw(st.integers(int(store.synced), int(store.position)))
        self.world.sync(position)
        for number, needed in list(self.waiting.items()):
            if needed <= position:
                del self.waiting[number]
                self.due[number] = "ack"
        self.collect()

    @rule()
    def fail(self) -> None:
        """The durable queue fails on somebody else's publish."""
        self.world.store.failing.add(("durable", "publish"))
        self.world.channel().publish("m", "durable")
        self.world.store.failing.clear()
        for number in self.waiting:
            self.due[number] = "nack"
        self.waiting.clear()
        self.collect()

    @rule()
    def consume_all(self) -> None:
        """What becomes of messages in the queue changes no answer."""
        other = self.world.channel()
        for queue in ("durable", "transient"):
            # An answer would wait for the disk.
            other.send(methods.QueuePurge(queue=queue, no_wait=True))

    def collect(self) -> None:
        """Take in all answers. A `multiple` speaks for every number up to it that is not answered yet."""
        for kind, number, multiple in self.channel.confirms():
            covered = [n for n in range(1, number + 1) if n not in self.answers] if multiple else [number]
            assert covered, "an answer that answers nothing"
            for one in covered:
                assert one not in self.answers, f"{one} answered twice"
                assert one not in self.waiting, f"{one} answered before its time"
                assert self.due.pop(one) == kind
                self.answers[one] = kind

    @invariant()
    def nothing_that_is_due_is_left_unanswered(self) -> None:
        assert getattr(self, "due", {}) == {}
        if hasattr(self, "answers"):
            assert len(self.answers) + len(self.waiting) == self.published


TestConfirmModel = ConfirmMachine.TestCase
TestConfirmModel.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
