"""Publisher confirms of one channel: each sequence number is acked or nacked exactly once, as few frames as possible.

A number stays in `unconfirmed` while a queue or the disk has not answered for its message. Answers collect during a
turn and leave in `flush`: everything below the first open number in one frame with `multiple`, the rest one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp import replies

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.channel import Channel


class Confirms:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.published: i64 = 0
        # By sequence number, ascending because publishes are: the queues that have the message.
        self.unconfirmed: dict[int, list[Queue]] = {}
        self._acks: list[int] = []
        self._nacks: list[int] = []

    def next_seqno(self) -> i64:
        self.published += 1
        return self.published

    def wait(self, seqno: i64, queues: list[Queue]) -> None:
        self.unconfirmed[seqno] = queues

    def ack(self, seqno: i64) -> None:
        self._acks.append(seqno)
        self._answer_soon()

    def nack(self, seqno: i64) -> None:
        self._nacks.append(seqno)
        self._answer_soon()

    def _answer_soon(self) -> None:
        if len(self._acks) + len(self._nacks) == 1:
            self.channel.connection.answer_soon(self)

    def settle_waiting(self, seqno: i64) -> bool:
        """The disk has it. False if its queue failed meanwhile, in which case it was nacked."""
        if self.unconfirmed.pop(seqno, None) is None:
            return False
        self.ack(seqno)
        return True

    def queue_failed(self, queue: Queue) -> None:
        for seqno in [seqno for seqno, queues in self.unconfirmed.items() if queue in queues]:
            del self.unconfirmed[seqno]
            self.nack(seqno)

    def flush(self) -> None:
        """Acks go before nacks, as RabbitMQ sends them."""
        acks, nacks = self._acks, self._nacks
        if not acks and not nacks:
            return
        self._acks = []
        if nacks:
            self._nacks = []
        if self.channel.is_closed:
            return
        if not nacks and not self.unconfirmed:
            # The common turn: nothing is open, so one frame speaks for all.
            last: i64 = 0
            for seqno in acks:
                if seqno > last:
                    last = seqno
            self.channel.connection.send(replies.ack(self.channel.number, last, len(acks) > 1))
            return
        self._send(acks, nacks, True)
        self._send(nacks, acks, False)

    def _send(self, seqnos: list[int], opposite: list[int], positive: bool) -> None:
        if not seqnos:
            return
        connection = self.channel.connection
        number = self.channel.number
        seqnos.sort()
        cutoff = self._cutoff(opposite) if len(seqnos) > 1 else 0
        covered = [seqno for seqno in seqnos if seqno < cutoff]
        if covered:
            last = covered[-1]
            connection.send(replies.ack(number, last, True) if positive else replies.nack(number, last, True))
        for seqno in seqnos[len(covered) :]:
            connection.send(replies.ack(number, seqno, False) if positive else replies.nack(number, seqno, False))

    def _cutoff(self, opposite: list[int]) -> int:
        """The first number that a `multiple` must not reach."""
        cutoff = next(iter(self.unconfirmed)) if self.unconfirmed else self.published + 1
        return min(cutoff, min(opposite)) if opposite else cutoff
