"""One queue from there to here, in batches: into Warren and onto its disk, then out of the source, then noted as done.

Killed at any point, the next run finds in the ledger which batch is in Warren already, knows its messages when they are
delivered again, and only acknowledges them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from warren.errors import WarrenError
from warren.migrate.ledger import Ledger, NotTaken, Standing
from warren.migrate.source import OldBroker, Taken

# Of a batch: enough that two syncs of the disk for each cost little, and few enough to be one turn of a broker.
BATCH_MESSAGES: Final = 1000
BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True)
class Checked:
    queue: str
    # What was ready at the source at first, and what was moved: the same, unless somebody publishes there.
    counted: int
    moved: int
    # Ready at the source; in Warren, what should be ready and what is; and how many consumers may have taken some.
    left: int
    expected: int
    found: int
    consumers: int


class Mover:
    def __init__(self, source: OldBroker, ledger: Ledger, queue: str, average_bytes: int) -> None:
        self.queue = queue
        self._source = source
        self._ledger = ledger
        self._most = max(1, min(BATCH_MESSAGES, BATCH_BYTES // max(1, average_bytes)))
        noted = ledger.read(queue)
        self.is_resumed = noted is not None
        there = source.count(queue)
        fresh = Standing(counted=there.message_count, before=ledger.count(queue).message_count)
        self.standing = fresh if noted is None else noted
        self.waiting = there.message_count
        if there.consumer_count:
            raise WarrenError(
                f"queue '{queue}' has {there.consumer_count} consumers at the source, which would take what is moved: "
                "stop them first"
            )

    def step(self) -> int:
        """Move a batch; how many came from the source, 0 when nothing is there."""
        ready = self._source.count(self.queue).message_count
        if not ready:
            return 0
        # All of what may come again must be in it, to be known.
        taken = self._source.take(self.queue, min(ready, max(self._most, len(self.standing.batch))))
        if not taken:
            return 0
        fresh = taken[self._count_known(taken, ready) :]
        if fresh:
            self._publish(taken, fresh)
        self._source.ack(self.queue, taken[-1].tag)
        # Before the next batch is taken: messages that look alike could be taken for those of this one.
        self._note(replace(self.standing, batch=[], behind=0), [])
        return len(taken)

    def check(self) -> Checked:
        """What is here and there, when it is over."""
        here, there = self._ledger.count(self.queue), self._source.count(self.queue)
        standing = self.standing
        expected = standing.before + standing.moved
        return Checked(
            self.queue,
            standing.counted,
            standing.moved,
            there.message_count,
            expected,
            here.message_count,
            here.consumer_count,
        )

    def forget(self) -> None:
        self._ledger.forget(self.queue)

    def _publish(self, taken: list[Taken], fresh: list[Taken]) -> None:
        frame_max = self._ledger.frame_max
        standing = replace(
            self.standing,
            moved=self.standing.moved + len(fresh),
            batch=[each.digest for each in taken],
            behind=self._source.count(self.queue).message_count,
        )
        try:
            self._note(standing, [each.publish_to(self.queue, frame_max) for each in fresh])
        except NotTaken:
            # It must not be said of them that they are here: rather some of them twice than one of them lost.
            self._note(self.standing, [])
            raise

    def _note(self, standing: Standing, messages: list[bytes]) -> None:
        self._ledger.commit(self.queue, messages, standing)
        self.standing = standing

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
