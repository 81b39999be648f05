"""One queue from there to here, in batches: into Warren and onto its disk, then out of the source, then noted as done.

Killed at any point, the next run finds in the ledger which batch is in Warren already, knows its messages when they are
delivered again, and only acknowledges them. Of a stream it finds where to read on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Final

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.fields import Field
from warren.errors import WarrenError
from warren.migrate.ledger import Ledger, NotTaken, Standing
from warren.migrate.source import COUNT_HEADER, OldBroker, Taken

# Of a batch: enough that two syncs of the disk for each cost little, and few enough to be one turn of a broker.
BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 16 << 20
# Nobody says how long the messages of a stream are before some have been read.
FIRST_OF_STREAM: Final = 16


@dataclass(frozen=True)
class Checked:
    queue: str
    type: str
    # What was ready at the source at first, and what was moved: the same, unless somebody publishes there.
    counted: int
    moved: int
    # Ready at the source; in Warren, what should be ready and what is; and how many consumers may have taken some.
    left: int
    expected: int
    found: int
    consumers: int

    @property
    def is_right(self) -> bool:
        """Whether all that was counted is here, as far as one can tell while somebody consumes."""
        if self.left or self.moved != self.counted:
            return False
        if self.type == "stream":
            # Others may publish to it.
            return self.found >= self.expected
        return self.found == self.expected or self.consumers > 0


class Mover(ABC):
    """What all kinds of queues have in common: the ledger that says how far they have come."""

    def __init__(self, source: OldBroker, ledger: Ledger, queue: str) -> None:
        self.queue = queue
        self.waiting = source.count(queue).message_count
        self._source = source
        self._ledger = ledger
        noted = ledger.read(queue)
        self.is_resumed = noted is not None
        self.standing = self._begin() if noted is None else noted

    @abstractmethod
    def _begin(self) -> Standing:
        """How it stands before the first batch."""

    @abstractmethod
    def step(self) -> int:
        """Move a batch; how many came from the source, 0 when nothing is there."""

    @abstractmethod
    def check(self) -> Checked:
        """What is here and there, when it is over."""

    def finish(self) -> None:
        self._ledger.forget(self.queue)

    def _publish(self, fresh: list[Taken], standing: Standing, put_in: str) -> None:
        frame_max = self._ledger.frame_max
        try:
            self._note(standing, [each.publish_to(self.queue, frame_max, put_in) for each in fresh])
        except NotTaken:
            # It must not be said of them that they are here: rather some of them twice than one of them lost.
            self._note(self.standing, [])
            raise

    def _note(self, standing: Standing, messages: list[bytes]) -> None:
        self._ledger.commit(self.queue, messages, standing)
        self.standing = standing


class QueueMover(Mover):
    """Of a queue whose messages leave it."""

    def __init__(self, source: OldBroker, ledger: Ledger, queue: str, average_bytes: int) -> None:
        super().__init__(source, ledger, queue)
        self._most = batch_of(average_bytes)
        consumers = source.count(queue).consumer_count
        if consumers:
            raise WarrenError(
                f"queue '{queue}' has {consumers} consumers at the source, which would take what is moved: "
                "stop them first"
            )

    def _begin(self) -> Standing:
        return Standing(counted=self.waiting, before=self._ledger.count(self.queue).message_count)

    def step(self) -> int:
        ready = self._source.count(self.queue).message_count
        if not ready:
            return 0
        # All of what may come again must be in it, to be known.
        taken = self._source.take(self.queue, min(ready, max(self._most, len(self.standing.batch))))
        if not taken:
            return 0
        fresh = taken[self._count_known(taken, ready) :]
        if fresh:
            standing = replace(
                self.standing,
                moved=self.standing.moved + len(fresh),
                batch=[each.digest for each in taken],
                behind=self._source.count(self.queue).message_count,
            )
            self._publish(fresh, standing, COUNT_HEADER)
        self._source.ack(self.queue, taken[-1].tag)
        # Before the next batch is taken: messages that look alike could be taken for those of this one.
        self._note(replace(self.standing, batch=[], behind=0), [])
        return len(taken)

    def check(self) -> Checked:
        here, there = self._ledger.count(self.queue), self._source.count(self.queue)
        standing = self.standing
        expected = standing.before + standing.moved
        return Checked(
            self.queue,
            "queue",
            standing.counted,
            standing.moved,
            there.message_count,
            expected,
            here.message_count,
            here.consumer_count,
        )

    def _count_known(self, taken: list[Taken], ready: int) -> int:
        """How many of the first are those of the last batch, which came back because they were not acknowledged."""
        batch = self.standing.batch
        # Besides them, there were so many.
        most = min(len(batch), max(0, ready - self.standing.behind))
        known = at = 0
        for message in taken[:most]:
            if not message.is_redelivered or message.digest not in batch[at:]:
                break
            at = batch.index(message.digest, at) + 1
            known += 1
        return known


class StreamMover(Mover):
    """Of a stream: nothing leaves it, and the ledger says which offset is next."""

    def __init__(self, source: OldBroker, ledger: Ledger, queue: str) -> None:
        super().__init__(source, ledger, queue)
        # Until a batch says how long messages are.
        self._most = batch_of(BATCH_BYTES // FIRST_OF_STREAM)
        self._read_out_at = -1

    def _begin(self) -> Standing:
        return Standing(before=self._ledger.next_offset(self.queue))

    def step(self) -> int:
        # What a stream of RabbitMQ says of itself is seconds old: enough to leave one alone that has been read out.
        there = self._source.count(self.queue).message_count
        if there == self._read_out_at:
            return 0
        offset = self.standing.offset
        start = Field("l", offset) if offset else Field("S", "first")
        taken = self._source.take(self.queue, self._most, {STREAM_OFFSET: start})
        if not taken:
            self._read_out_at = there
            return 0
        last = taken[-1]
        moved = self.standing.moved + len(taken)
        self._publish(taken, replace(self.standing, moved=moved, offset=last.offset + 1), STREAM_OFFSET)
        self._source.ack(self.queue, last.tag)
        self._most = batch_of(sum(len(each.received.body) for each in taken) // len(taken))
        return len(taken)

    def check(self) -> Checked:
        """By offsets: retention may take messages here as it does there, at a time of its own."""
        standing = self.standing
        expected, found = standing.before + standing.moved, self._ledger.next_offset(self.queue)
        # It was read until nothing came; what is left of it there has been moved all the same.
        return Checked(self.queue, "stream", standing.moved, standing.moved, 0, expected, found, 0)

    def finish(self) -> None:
        """The note stays: the source still has it all, and another run must not bring it again."""
        self._note(Standing(before=self._ledger.next_offset(self.queue), offset=self.standing.offset), [])


def batch_of(average_bytes: int) -> int:
    return max(1, min(BATCH_MESSAGES, BATCH_BYTES // max(1, average_bytes)))
