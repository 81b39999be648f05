"""A channel: its state, the answers to its publishers, and how a soft error becomes channel.close.

dispatch.py hands it what clients send; what a method does is in the file of its verb.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp import replies
from warren.amqp.frames import needs_reframing, rechannel, reframe
from warren.amqp.methods import BasicCancel
from warren.broker.message import Message
from warren.broker.metrics import ChannelCounters
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.entry import Entry
from warren.broker.queue.held import Return
from warren.broker.queue.outlet import LARGE, RUNNING
from warren.broker.queue.recipient import Recipient
from warren.broker.session.answers import AwaitingAnswer, Transaction
from warren.broker.session.confirm import Confirms
from warren.broker.session.credit import Credit
from warren.broker.world import INFO
from warren.errors import AccessRefused, NotFound, SoftError

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.session.connection import Connection
    from warren.broker.vhost.vhost import VHost


class Content:
    """A publish whose header and body are still on their way."""

    def __init__(self, arguments: bytes, arrival: i64) -> None:
        self.arguments = arguments
        # When its first frame was read.
        self.arrival: i64 = arrival
        self.has_header = False
        self.body_size: i64 = 0
        self.received: i64 = 0
        # Of these, what counts as held.
        self.kept: i64 = 0
        # All that has come. Joining many MB when the last frame is here would keep everybody waiting; this does not
        # even copy them.
        self.whole = BytesIO()
        self.body_frames: i64 = 0


class Channel(Recipient):
    def __init__(self, connection: Connection, number: i64) -> None:
        super().__init__(connection, number)
        vhost = connection.vhost
        assert vhost is not None
        self.connection = connection
        self.vhost: VHost = vhost
        self.content: Content | None = None
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        # None until a queue owes it some.
        self.credit: Credit | None = None
        # What an empty queue name stands for.
        self.last_queue = ""
        self.reply_address = ""
        self.reply_consumer: Consumer | None = None
        self.counters = ChannelCounters()
        # Tags up to here are being settled; 0 = none.
        self.settled_to: i64 = 0
        # When the first frame of the publish that is being handled was read, if not in the same read as the rest.
        self.arrival: i64 = -1
        # What was allowed last, as of which generation: who fetches one message after the other asks the same again.
        self._checked_kind = ""
        self._checked_name = ""
        self._checked_action = ""
        self._checked_as_of: i64 = -1

    def spend(self, queue: Queue, size: i64) -> None:
        """A queue takes a message and cannot grant its credit back at once."""
        if self.credit is None:
            self.credit = Credit(self)
        self.credit.spend(queue, size)

    # -- answers to publishers -------------------------------------------------------------------------------------

    def next_seqno(self) -> i64:
        """0 unless somebody waits for an answer."""
        if self.confirms is not None:
            return self.confirms.next_seqno()
        if self.transaction is not None:
            return self.transaction.next_seqno()
        return 0

    def confirmed(self, seqno: i64) -> None:
        self.counters.confirmed += 1
        if self.confirms is not None:
            self.confirms.ack(seqno)
        elif self.transaction is not None:
            self.transaction.confirmed(seqno)

    def refused(self, seqno: i64) -> None:
        if self.confirms is not None:
            self.confirms.nack(seqno)
        elif self.transaction is not None:
            self.transaction.refused(seqno)

    def await_sync(self, seqno: i64, queues: list[Queue]) -> None:
        """The answer waits until the store has synced what it holds now."""
        if self.confirms is not None:
            self.confirms.wait(seqno, queues)
        elif self.transaction is not None:
            self.transaction.pending[seqno] = queues
        node = self.connection.node
        node.await_position(AwaitingAnswer(node.store.position, self, seqno))

    def sync_reached(self, seqno: i64) -> None:
        if self.is_closed:
            return
        if self.confirms is not None:
            if self.confirms.settle_waiting(seqno):
                self.counters.confirmed += 1
        elif self.transaction is not None:
            try:
                self.transaction.sync_reached(seqno)
            except SoftError as error:
                self.fail(error)

    def framed(self, message: Message) -> bytes:
        """The content of a message in frames for this channel."""
        frame_max = self.connection.frame_max
        if self.connection.identity < 0 and len(message.content) >= LARGE:
            # One within the broker takes it as it is.
            return message.content
        if needs_reframing(message.content, frame_max):
            return reframe(message.content, self.number, frame_max)
        if message.channel != self.number:
            return rechannel(message.content, self.number)
        return message.content

    # -- what clients send ----------------------------------------------------------------------------------------

    def take_content(self) -> Content | None:
        """The one that was on its way, if there was one: it is finished, or never will be."""
        content, self.content = self.content, None
        if content is not None:
            self.connection.count_unfinished(-content.kept)
        return content

    # -- names -----------------------------------------------------------------------------------------------------

    def queue_name(self, name: str) -> str:
        """An empty name stands for the queue declared last on this channel."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def check(self, kind: str, name: str, action: str) -> None:
        access = self.connection.node.access
        if (
            self._checked_as_of == access.generation
            and name == self._checked_name
            and action == self._checked_action
            and kind == self._checked_kind
        ):
            return
        access.check(self.user, self.vhost.name, kind, name, action)
        self._checked_kind, self._checked_name, self._checked_action = kind, name, action
        self._checked_as_of = access.generation

    # -- ends ------------------------------------------------------------------------------------------------------

    def fail(self, error: SoftError, method_id: i64 = 0) -> None:
        """The one translator of soft errors."""
        if self.is_closed:
            return
        self.connection.node.host.log(
            INFO, f"channel {self.number} of {self.connection.name} closed: {error.code} {error.reply_text}"
        )
        self.close()
        self.connection.send(
            replies.channel_close(self.number, error.code, error.reply_text, error.method_id or method_id)
        )

    def close(self, answer: bytes = b"") -> None:
        """Give back all that is unacked, stop consuming, forget what was not committed; then the answer."""
        if self.is_closed:
            return
        self.is_closed = True
        self.connection.node.counters.channel_closed(self.counters)
        self.connection.node.events.channel("closed", self)
        self.take_content()
        self.close_reply_queue()
        self.stop_consuming()
        also: list[Entry] = [] if self.transaction is None else self.transaction.abandon()
        # Nobody is left to be answered. A transaction may be in the middle of its commit.
        self.confirms = None
        connection = self.connection
        waiter = connection if connection.stage == RUNNING else None
        first, last = self.settled_to + 1, self.unacked.next - 1
        connection.node.errands.begin(
            Return(connection.node, self.unacked, first, last, also, connection, answer), waiter
        )

    def close_reply_queue(self) -> None:
        """Replies that come from now on find nobody."""
        if self.reply_consumer is not None:
            self.connection.node.reply_channels.pop(self.reply_address, None)
            self.reply_consumer = None

    def stop_consuming(self) -> None:
        """What is given back afterwards goes to others."""
        consumers = list(self.consumers.values())
        self.consumers.clear()
        for consumer in consumers:
            consumer.queue.remove_consumer(consumer)
            if consumer.queue.is_unused_auto_delete():
                self.vhost.delete_queue(consumer.queue)

    def drain_soon(self) -> None:
        """A place in the channel's shared prefetch is free: whichever of its consumers can take next may."""
        for consumer in self.consumers.values():
            self.connection.drain_soon(consumer.queue)

    def queue_failed(self, queue: Queue) -> None:
        """Its open confirms fail with it. What the client holds stays acknowledgeable, to no effect."""
        for entry in self.unacked.entries():
            if entry.queue is queue:
                entry.lost = True
        if self.confirms is not None:
            self.confirms.queue_failed(queue)
        if self.transaction is not None:
            self.transaction.queue_failed(queue)
        if self.credit is not None:
            self.credit.release(queue)

    def cancel_by_broker(self, consumer: Consumer) -> None:
        """The consumer's queue is gone, or no longer its to read: say so to clients that want to hear it."""
        self.consumers.pop(consumer.tag, None)
        consumer.queue.remove_consumer(consumer)
        if self.connection.can("consumer_cancel_notify"):
            # No answer is asked for.
            self.answer(BasicCancel(consumer.tag, True))

    def cancel_unreadable(self) -> None:
        """A new secret may come with fewer rights."""
        for consumer in list(self.consumers.values()):
            try:
                self.check("queue", consumer.queue.name, "read")
            except AccessRefused:
                self.cancel_by_broker(consumer)
