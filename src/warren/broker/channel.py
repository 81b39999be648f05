"""A channel: where methods arrive, content is put together, and soft errors become channel.close.

It only dispatches and keeps the channel's state. What a method does is in the file of its verb: publish.py,
consume.py, settle.py, declare_exchange.py, declare_queue.py, transaction.py.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.amqp import methods, replies
from warren.amqp.constants import BASIC_ACK, BASIC_PUBLISH, BODY_HARD_MAX, CHANNEL_CLOSE, CHANNEL_CLOSE_OK
from warren.amqp.frames import needs_reframing, rechannel, reframe
from warren.amqp.reader import CutOff
from warren.broker import consume, declare_exchange, declare_queue, settle
from warren.broker.confirm import Confirms
from warren.broker.consumer import Consumer
from warren.broker.credit import Credit
from warren.broker.message import Entry, Message
from warren.broker.metrics import ChannelCounters
from warren.broker.publish import publish
from warren.broker.reply_to import close_reply_queue
from warren.broker.terms import erlang_octets
from warren.broker.transaction import Transaction
from warren.broker.unacked import Unacked
from warren.errors import (
    NO_METHOD,
    AccessRefused,
    ChannelError,
    CommandInvalid,
    FrameError,
    NotFound,
    NotImplementedByBroker,
    PreconditionFailed,
    SoftError,
    UnexpectedFrame,
)

if TYPE_CHECKING:
    from warren.broker.connection import Connection
    from warren.broker.queue import Queue
    from warren.broker.vhost import VHost

_INFO: Final = 20


def decoded(method_id: i64, data: bytes, start: i64, end: i64) -> methods.Method:
    try:
        return methods.decode_method(method_id, data, start, end)
    except CutOff:
        raise FrameError(f"cannot decode {erlang_octets(data[start:end])}") from None


class Content:
    """A publish whose header and body are still on their way."""

    def __init__(self, arguments: bytes, arrival: i64) -> None:
        self.arguments = arguments
        # When its first frame was read.
        self.arrival: i64 = arrival
        self.has_header = False
        self.body_size: i64 = 0
        self.received: i64 = 0
        # All that has come. Joining many MB when the last frame is here would keep everybody waiting; this does not
        # even copy them.
        self.whole = BytesIO()
        self.body_frames: i64 = 0


class Channel:
    def __init__(self, connection: Connection, number: i64) -> None:
        vhost = connection.vhost
        assert vhost is not None
        self.connection = connection
        self.number: i64 = number
        self.vhost: VHost = vhost
        self.user = connection.user
        # After a channel error: everything but close and close-ok is ignored.
        self.is_closed = False
        self.content: Content | None = None
        self.unacked = Unacked()
        # basic.qos: for consumers that start from now on, each; and for the whole channel. 0 = no limit.
        self.consumer_prefetch: i64 = 0
        self.prefetch: i64 = 0
        self.consumers: dict[str, Consumer] = {}
        self.confirms: Confirms | None = None
        self.transaction: Transaction | None = None
        self.credit = Credit(self)
        # What an empty queue name stands for.
        self.last_queue = ""
        self.reply_address = ""
        self.reply_consumer: Consumer | None = None
        self.counters = ChannelCounters()
        # When the first frame of the publish that is being handled was read, if not in the same read as the rest.
        self.arrival: i64 = -1

    # -- methods in ------------------------------------------------------------------------------------------------

    def receive_publish(self, arguments: bytes, content: bytes, body_size: i64) -> None:
        if self.transaction is not None and self.transaction.committing:
            self._refuse_during_commit()
        try:
            publish(self, arguments, content, body_size)
        except SoftError as error:
            self.fail(error, BASIC_PUBLISH)

    def receive_ack(self, tag: i64, multiple: bool) -> None:
        if self.is_closed:
            return
        if self.content is not None:
            self._refuse_instead_of_content(self.content)
        if self.transaction is not None and self.transaction.committing:
            self._refuse_during_commit()
        try:
            settle.settle(self, tag, multiple, settle.ACK)
        except SoftError as error:
            self.fail(error, BASIC_ACK)

    def receive_method(self, method_id: i64, data: bytes, start: i64, end: i64) -> None:
        if self.is_closed:
            self._receive_while_closed(method_id)
            return
        if self.content is not None:
            self._refuse_instead_of_content(self.content)
        if method_id == BASIC_PUBLISH:
            self.begin_content(data[start:end])
            return
        method = decoded(method_id, data, start, end)
        if self.transaction is not None and self.transaction.committing and method_id != CHANNEL_CLOSE:
            self._refuse_during_commit()
        self.connection.node.events.actor = self.user
        try:
            interceptor = self.connection.node.interceptors.get(method.name)
            if interceptor is not None:
                self._fill_in_names(method)
                method = interceptor.intercept(self, method)
            self._handle(method)
        except SoftError as error:
            self.fail(error, method_id)

    def _fill_in_names(self, method: methods.Method) -> None:
        """Interceptors see the queue that is meant, not the empty name that stands for it."""
        if isinstance(method, (methods.QueueBind, methods.QueueUnbind)):
            if method.queue == "" and method.routing_key == "":
                method.routing_key = self.queue_name("")
            method.queue = self.queue_name(method.queue)
        elif isinstance(method, (methods.BasicGet, methods.BasicConsume, methods.QueuePurge, methods.QueueDelete)):
            method.queue = self.queue_name(method.queue)

    def _receive_while_closed(self, method_id: i64) -> None:
        if method_id == CHANNEL_CLOSE:
            self.connection.send(replies.channel_close_ok(self.number))
        elif method_id == CHANNEL_CLOSE_OK:
            self.connection.forget_channel(self)

    def _refuse_during_commit(self) -> None:
        raise ChannelError("unexpected command while processing 'tx.commit'")

    def _handle(self, method: methods.Method) -> None:
        class_id = method.id >> 16
        if class_id == 60:
            self._handle_basic(method)
        elif class_id == 50:
            self._handle_queue(method)
        elif class_id == 40:
            self._handle_exchange(method)
        else:
            self._handle_channel(method)

    def _handle_basic(self, method: methods.Method) -> None:
        if isinstance(method, methods.BasicAck):
            settle.settle(self, settle.signed(method.delivery_tag), method.multiple, settle.ACK)
        elif isinstance(method, methods.BasicNack):
            outcome = settle.REQUEUE if method.requeue else settle.REJECT
            settle.settle(self, settle.signed(method.delivery_tag), method.multiple, outcome)
        elif isinstance(method, methods.BasicReject):
            outcome = settle.REQUEUE if method.requeue else settle.REJECT
            settle.settle(self, settle.signed(method.delivery_tag), False, outcome)
        elif isinstance(method, methods.BasicGet):
            consume.get(self, method)
        elif isinstance(method, methods.BasicConsume):
            consume.consume(self, method)
        elif isinstance(method, methods.BasicCancel):
            consume.cancel(self, method)
        elif isinstance(method, methods.BasicQos):
            consume.qos(self, method)
        elif isinstance(method, methods.BasicRecover):
            self._recover(method.requeue)
            self.connection.send(replies.recover_ok(self.number))
        elif isinstance(method, methods.BasicRecoverAsync):
            self._recover(method.requeue)
        else:
            self._refuse_unknown()

    def _recover(self, requeue: bool) -> None:
        if not requeue:
            raise NotImplementedByBroker("requeue=false")
        settle.recover(self)

    def _handle_queue(self, method: methods.Method) -> None:
        if isinstance(method, methods.QueueDeclare):
            declare_queue.declare(self, method)
        elif isinstance(method, methods.QueueBind):
            declare_queue.bind(self, method)
        elif isinstance(method, methods.QueueUnbind):
            declare_queue.unbind(self, method)
        elif isinstance(method, methods.QueuePurge):
            declare_queue.purge(self, method)
        elif isinstance(method, methods.QueueDelete):
            declare_queue.delete(self, method)
        else:
            self._refuse_unknown()

    def _handle_exchange(self, method: methods.Method) -> None:
        if isinstance(method, methods.ExchangeDeclare):
            declare_exchange.declare(self, method)
        elif isinstance(method, methods.ExchangeDelete):
            declare_exchange.delete(self, method)
        elif isinstance(method, methods.ExchangeBind):
            declare_exchange.bind(self, method)
        elif isinstance(method, methods.ExchangeUnbind):
            declare_exchange.unbind(self, method)
        else:
            self._refuse_unknown()

    def _handle_channel(self, method: methods.Method) -> None:
        send = self.connection.send
        if isinstance(method, methods.ChannelClose):
            self.close()
            send(replies.channel_close_ok(self.number))
            self.connection.forget_channel(self)
        elif isinstance(method, methods.ChannelOpen):
            raise ChannelError("second 'channel.open' seen")
        elif isinstance(method, methods.ChannelFlow):
            if not method.active:
                raise NotImplementedByBroker("active=false")
            send(replies.flow_ok(self.number, True))
        elif isinstance(method, methods.AccessRequest):
            send(replies.access_request_ok(self.number))
        elif isinstance(method, methods.ConfirmSelect):
            self._confirm_select(method.no_wait)
        else:
            self._handle_transaction(method)

    def _confirm_select(self, no_wait: bool) -> None:
        if self.transaction is not None:
            raise PreconditionFailed("cannot switch from tx to confirm mode")
        if self.confirms is None:
            self.confirms = Confirms(self)
        if not no_wait:
            self.connection.send(replies.confirm_select_ok(self.number))

    def _handle_transaction(self, method: methods.Method) -> None:
        if isinstance(method, methods.TxSelect):
            if self.confirms is not None:
                raise PreconditionFailed("cannot switch from confirm to tx mode")
            if self.transaction is None:
                self.transaction = Transaction(self)
            self.connection.send(replies.tx_select_ok(self.number))
            return
        if not isinstance(method, (methods.TxCommit, methods.TxRollback)):
            self._refuse_unknown()
        if self.transaction is None:
            raise PreconditionFailed("channel is not transactional")
        if isinstance(method, methods.TxCommit):
            self.transaction.commit()
        else:
            self.transaction.rollback()

    def _refuse_unknown(self) -> None:
        raise CommandInvalid("unimplemented method")

    # -- content in ------------------------------------------------------------------------------------------------

    def begin_content(self, arguments: bytes) -> None:
        if self.content is not None:
            self._refuse_instead_of_content(self.content)
        self.content = Content(arguments, self.connection.node.host.arrival())

    def _refuse_instead_of_content(self, content: Content) -> None:
        if content.has_header:
            raise UnexpectedFrame("expected content body, got non content body frame instead", BASIC_PUBLISH)
        raise UnexpectedFrame(
            "expected content header for class 60, got non content header frame instead", BASIC_PUBLISH
        )

    def content_header(self, frame: bytes) -> None:
        content = self.content
        if content is None:
            raise UnexpectedFrame("expected method frame, got non method frame instead", NO_METHOD)
        if content.has_header:
            self._refuse_instead_of_content(content)
        if len(frame) < 22:
            raise FrameError("content header frame is too short", BASIC_PUBLISH)
        class_id = (frame[7] << 8) | frame[8]
        if frame[9] != 0 or frame[10] != 0:
            # A weight makes it no content header in RabbitMQ's eyes.
            self._refuse_instead_of_content(content)
        if class_id != 60:
            raise UnexpectedFrame(
                f"expected content header for class 60, got one for class {class_id} instead", BASIC_PUBLISH
            )
        content.body_size = read_i64_be(frame, 11)
        if content.body_size < 0 or content.body_size > BODY_HARD_MAX:
            size = int(content.body_size) & 0xFFFFFFFFFFFFFFFF
            raise FrameError(f"content body size {size} exceeds maximum allowed size {BODY_HARD_MAX}", BASIC_PUBLISH)
        content.has_header = True
        content.whole.write(frame)
        if content.body_size == 0:
            self._content_complete(content)

    def content_body(self, frame: bytes) -> None:
        content = self.content
        if content is None:
            raise UnexpectedFrame("expected method frame, got non method frame instead", NO_METHOD)
        if not content.has_header:
            self._refuse_instead_of_content(content)
        size: i64 = len(frame) - 8
        content.received += size
        if content.received > content.body_size:
            raise FrameError("content body frame exceeds remaining content size", BASIC_PUBLISH)
        # A body that will be refused is read to its end, but not kept.
        if content.body_size <= self.connection.node.settings.max_message_size and size > 0:
            content.whole.write(frame)
            content.body_frames += 1
        if content.received == content.body_size:
            self._content_complete(content)

    def _content_complete(self, content: Content) -> None:
        self.content = None
        whole = content.whole.getvalue()
        if content.body_frames * 4096 > content.body_size + 8192:
            # Crumbs: frame it anew, so that a message never costs much more than its size.
            whole = reframe(whole, self.number, self.connection.frame_max)
        self.arrival = content.arrival
        self.receive_publish(content.arguments, whole, content.body_size)
        self.arrival = -1

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
        self.connection.node.await_sync(self, seqno)

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
        if needs_reframing(message.content, frame_max):
            return reframe(message.content, self.number, frame_max)
        if message.channel != self.number:
            return rechannel(message.content, self.number)
        return message.content

    # -- names -----------------------------------------------------------------------------------------------------

    def queue_name(self, name: str) -> str:
        """An empty name stands for the queue declared last on this channel."""
        if name:
            return name
        if not self.last_queue:
            raise NotFound("no previously declared queue")
        return self.last_queue

    def check(self, kind: str, name: str, action: str) -> None:
        self.connection.node.access.check(self.user, self.vhost.name, kind, name, action)

    # -- ends ------------------------------------------------------------------------------------------------------

    def fail(self, error: SoftError, method_id: i64 = 0) -> None:
        """The one translator of soft errors."""
        if self.is_closed:
            return
        self.connection.node.host.log(
            _INFO, f"channel {self.number} of {self.connection.name} closed: {error.code} {error.reply_text}"
        )
        self.close()
        self.connection.send(
            replies.channel_close(self.number, error.code, error.reply_text, error.method_id or method_id)
        )

    def close(self) -> None:
        """Give back all that is unacked, stop consuming, forget what was not committed."""
        if self.is_closed:
            return
        self.is_closed = True
        self.connection.node.counters.channel_closed(self.counters)
        self.connection.node.events.channel("closed", self)
        self.content = None
        close_reply_queue(self)
        self.stop_consuming()
        held: list[Entry] = [] if self.transaction is None else self.transaction.abandon()
        held += self.unacked.take_all()
        settle.requeue(held)

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
        self.credit.release(queue)

    def cancel_by_broker(self, consumer: Consumer) -> None:
        """The consumer's queue is gone, or no longer its to read: say so to clients that want to hear it."""
        self.consumers.pop(consumer.tag, None)
        consumer.queue.remove_consumer(consumer)
        if self.connection.can("consumer_cancel_notify"):
            self.connection.send(replies.cancel(self.number, consumer.tag))

    def cancel_unreadable(self) -> None:
        """A new secret may come with fewer rights."""
        for consumer in list(self.consumers.values()):
            try:
                self.check("queue", consumer.queue.name, "read")
            except AccessRefused:
                self.cancel_by_broker(consumer)
