"""Where a channel's frames become what they ask for: content is put together, methods go to the file of their verb.

publish.py, consume.py, settle.py, declare_exchange.py, declare_queue.py and transaction.py do the rest.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from warren.amqp import methods
from warren.amqp.constants import BASIC_PUBLISH, BODY_HARD_MAX, CHANNEL_CLOSE, CHANNEL_CLOSE_OK
from warren.amqp.frames import reframe
from warren.amqp.reader import CutOff
from warren.amqp.replies import frame
from warren.broker.consume import consume, settle
from warren.broker.declare import declare_exchange, declare_queue
from warren.broker.publish.publish import publish, target_of
from warren.broker.publish.transaction import ChannelTransaction
from warren.broker.session.channel import Channel, Content
from warren.broker.session.confirm import Confirms
from warren.broker.terms import erlang_octets
from warren.errors import (
    NO_METHOD,
    ChannelError,
    CommandInvalid,
    FrameError,
    NotImplementedByBroker,
    PreconditionFailed,
    SoftError,
    UnexpectedFrame,
)

# What a method costs, beside what is counted otherwise: those of basic, and the rest.
_BASIC_UNITS: Final[i64] = 4
_UNITS: Final[i64] = 20


def decoded(method_id: i64, data: bytes, start: i64, end: i64) -> methods.Method:
    try:
        return methods.decode_method(method_id, data, start, end)
    except CutOff:
        raise FrameError(f"cannot decode {erlang_octets(data[start:end])}") from None


# -- methods -----------------------------------------------------------------------------------------------------------


def receive_publish(channel: Channel, arguments: bytes, content: bytes, body_size: i64) -> None:
    if channel.transaction is not None and channel.transaction.committing:
        _refuse_during_commit()
    try:
        publish(channel, arguments, content, body_size)
    except SoftError as error:
        channel.fail(error, BASIC_PUBLISH)


def receive_settling(channel: Channel, method_id: i64, tag: i64, multiple: bool, outcome: i64) -> None:
    if channel.is_closed:
        return
    if channel.content is not None:
        _refuse_instead_of_content(channel.content)
    if channel.transaction is not None and channel.transaction.committing:
        _refuse_during_commit()
    try:
        settle.settle(channel, tag, multiple, outcome)
        if outcome != settle.ACK:
            # What it kills is part of its price, so many of them must not be one turn.
            channel.connection.node.errands.charge(_BASIC_UNITS, channel.connection)
    except SoftError as error:
        channel.fail(error, method_id)


def receive_method(channel: Channel, method_id: i64, data: bytes, start: i64, end: i64) -> None:
    if channel.is_closed:
        _receive_while_closed(channel, method_id)
        return
    if channel.content is not None:
        _refuse_instead_of_content(channel.content)
    if method_id == BASIC_PUBLISH:
        begin_content(channel, data[start:end])
        return
    method = decoded(method_id, data, start, end)
    if channel.transaction is not None and channel.transaction.committing and method_id != CHANNEL_CLOSE:
        _refuse_during_commit()
    channel.connection.node.events.actor = channel.user
    try:
        interceptors = channel.connection.node.interceptors
        if interceptors and method.name in interceptors:
            _fill_in_names(channel, method)
            method = interceptors[method.name].intercept(channel, method)
        _handle(channel, method)
        channel.connection.node.errands.charge(_BASIC_UNITS if method_id >> 16 == 60 else _UNITS, channel.connection)
    except SoftError as error:
        channel.fail(error, method_id)


def _fill_in_names(channel: Channel, method: methods.Method) -> None:
    """Interceptors see the queue that is meant, not the empty name that stands for it."""
    if isinstance(method, (methods.QueueBind, methods.QueueUnbind)):
        if method.queue == "" and method.routing_key == "":
            method.routing_key = channel.queue_name("")
        method.queue = channel.queue_name(method.queue)
    elif isinstance(method, (methods.BasicGet, methods.BasicConsume, methods.QueuePurge, methods.QueueDelete)):
        method.queue = channel.queue_name(method.queue)


def _receive_while_closed(channel: Channel, method_id: i64) -> None:
    if method_id == CHANNEL_CLOSE:
        channel.connection.send(frame(channel.number, methods.ChannelCloseOk()))
    elif method_id == CHANNEL_CLOSE_OK:
        channel.connection.forget_channel(channel)


def _refuse_during_commit() -> None:
    raise ChannelError("unexpected command while processing 'tx.commit'")


def _handle(channel: Channel, method: methods.Method) -> None:
    class_id = method.id >> 16
    if class_id == 60:
        _handle_basic(channel, method)
    elif class_id == 50 or class_id == 40:
        _handle_definition(channel, method)
    else:
        _handle_channel(channel, method)


def _handle_definition(channel: Channel, method: methods.Method) -> None:
    """Whoever hears that something is declared, bound or gone may rely on it, also when another has just done it."""
    node = channel.connection.node
    recorded, topology = node.recorded, node.topology
    _define(channel, method)
    if node.recorded != recorded:
        channel.connection.hold(node.recorded)
    elif isinstance(method, methods.QueueDeclare):
        queue = channel.vhost.queues.get(channel.last_queue)
        channel.connection.hold(0 if queue is None else queue.recorded)
    elif isinstance(method, methods.ExchangeDeclare):
        exchange = channel.vhost.exchanges.get(method.exchange)
        channel.connection.hold(0 if exchange is None else exchange.recorded)
    elif node.topology == topology:
        # It was so already, and nobody knows since when.
        channel.connection.hold(node.recorded)


def _handle_basic(channel: Channel, method: methods.Method) -> None:
    if isinstance(method, methods.BasicAck):
        settle.settle(channel, settle.signed(method.delivery_tag), method.multiple, settle.ACK)
    elif isinstance(method, methods.BasicNack):
        outcome = settle.REQUEUE if method.requeue else settle.REJECT
        settle.settle(channel, settle.signed(method.delivery_tag), method.multiple, outcome)
    elif isinstance(method, methods.BasicReject):
        outcome = settle.REQUEUE if method.requeue else settle.REJECT
        settle.settle(channel, settle.signed(method.delivery_tag), False, outcome)
    elif isinstance(method, methods.BasicGet):
        consume.get(channel, method)
    elif isinstance(method, methods.BasicConsume):
        consume.consume(channel, method)
    elif isinstance(method, methods.BasicCancel):
        consume.cancel(channel, method)
    elif isinstance(method, methods.BasicQos):
        consume.qos(channel, method)
    elif isinstance(method, methods.BasicRecover):
        _recover(channel, method.requeue, frame(channel.number, methods.BasicRecoverOk()))
    elif isinstance(method, methods.BasicRecoverAsync):
        _recover(channel, method.requeue, b"")
    else:
        _refuse_unknown()


def _recover(channel: Channel, requeue: bool, answer: bytes) -> None:
    if not requeue:
        raise NotImplementedByBroker("requeue=false")
    settle.recover(channel, answer)


def _define(channel: Channel, method: methods.Method) -> None:
    if isinstance(method, methods.QueueDeclare):
        declare_queue.declare(channel, method)
    elif isinstance(method, methods.QueueBind):
        declare_queue.bind(channel, method)
    elif isinstance(method, methods.QueueUnbind):
        declare_queue.unbind(channel, method)
    elif isinstance(method, methods.QueuePurge):
        declare_queue.purge(channel, method)
    elif isinstance(method, methods.QueueDelete):
        declare_queue.delete(channel, method)
    elif isinstance(method, methods.ExchangeDeclare):
        declare_exchange.declare(channel, method)
    elif isinstance(method, methods.ExchangeDelete):
        declare_exchange.delete(channel, method)
    elif isinstance(method, methods.ExchangeBind):
        declare_exchange.bind(channel, method)
    elif isinstance(method, methods.ExchangeUnbind):
        declare_exchange.unbind(channel, method)
    else:
        _refuse_unknown()


def _handle_channel(channel: Channel, method: methods.Method) -> None:
    if isinstance(method, methods.ChannelClose):
        channel.close(frame(channel.number, methods.ChannelCloseOk()))
        channel.connection.forget_channel(channel)
    elif isinstance(method, methods.ChannelOpen):
        raise ChannelError("second 'channel.open' seen")
    elif isinstance(method, methods.ChannelFlow):
        if not method.active:
            raise NotImplementedByBroker("active=false")
        channel.answer(methods.ChannelFlowOk(True))
    elif isinstance(method, methods.AccessRequest):
        channel.answer(methods.AccessRequestOk(1))
    elif isinstance(method, methods.ConfirmSelect):
        _confirm_select(channel, method.no_wait)
    else:
        _handle_transaction(channel, method)


def _confirm_select(channel: Channel, no_wait: bool) -> None:
    if channel.transaction is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms(channel)
    if not no_wait:
        channel.answer(methods.ConfirmSelectOk())


def _handle_transaction(channel: Channel, method: methods.Method) -> None:
    if isinstance(method, methods.TxSelect):
        if channel.confirms is not None:
            raise PreconditionFailed("cannot switch from confirm to tx mode")
        if channel.transaction is None:
            channel.transaction = ChannelTransaction(channel)
        channel.answer(methods.TxSelectOk())
        return
    if not isinstance(method, (methods.TxCommit, methods.TxRollback)):
        _refuse_unknown()
    if channel.transaction is None:
        raise PreconditionFailed("channel is not transactional")
    if isinstance(method, methods.TxCommit):
        channel.transaction.commit()
    else:
        channel.transaction.rollback()


def _refuse_unknown() -> None:
    raise CommandInvalid("unimplemented method")


# -- content -----------------------------------------------------------------------------------------------------------


def begin_content(channel: Channel, arguments: bytes) -> None:
    if channel.content is not None:
        _refuse_instead_of_content(channel.content)
    channel.content = Content(arguments, channel.connection.node.host.arrival())


def _refuse_instead_of_content(content: Content) -> None:
    if content.has_header:
        raise UnexpectedFrame("expected content body, got non content body frame instead", BASIC_PUBLISH)
    raise UnexpectedFrame("expected content header for class 60, got non content header frame instead", BASIC_PUBLISH)


def content_header(channel: Channel, frame: bytes) -> None:
    content = channel.content
    if content is None:
        raise UnexpectedFrame("expected method frame, got non method frame instead", NO_METHOD)
    if content.has_header:
        _refuse_instead_of_content(content)
    if len(frame) < 22:
        raise FrameError("content header frame is too short", BASIC_PUBLISH)
    class_id = (frame[7] << 8) | frame[8]
    if frame[9] != 0 or frame[10] != 0:
        # A weight makes it no content header in RabbitMQ's eyes.
        _refuse_instead_of_content(content)
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
        _content_complete(channel, content)
    else:
        _refuse_early(channel, content)


def content_body(channel: Channel, frame: bytes) -> None:
    content = channel.content
    if content is None:
        raise UnexpectedFrame("expected method frame, got non method frame instead", NO_METHOD)
    if not content.has_header:
        _refuse_instead_of_content(content)
    size: i64 = len(frame) - 8
    content.received += size
    if content.received > content.body_size:
        raise FrameError("content body frame exceeds remaining content size", BASIC_PUBLISH)
    # A body that will be refused is read to its end, but not kept.
    if content.body_size <= channel.connection.node.settings.max_message_size and size > 0:
        content.whole.write(frame)
        content.body_frames += 1
        if content.received < content.body_size:
            content.kept += size
            channel.connection.count_unfinished(size)
    if content.received == content.body_size:
        _content_complete(channel, content)


def _refuse_early(channel: Channel, content: Content) -> None:
    """What would be refused when it is complete need not be collected first."""
    node = channel.connection.node
    if node.intercepts_publish or node.is_watched or content.body_size > node.settings.max_message_size:
        return
    try:
        target_of(channel, content.arguments, None)
    except SoftError as error:
        channel.fail(error, BASIC_PUBLISH)


def _content_complete(channel: Channel, content: Content) -> None:
    channel.take_content()
    whole = content.whole.getvalue()
    if content.body_frames * 4096 > content.body_size + 8192:
        # Crumbs: frame it anew, so that a message never costs much more than its size.
        whole = reframe(whole, channel.number, channel.connection.frame_max)
    channel.arrival = content.arrival
    receive_publish(channel, content.arguments, whole, content.body_size)
    channel.arrival = -1
