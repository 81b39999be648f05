"""What the server sends, as whole frames: one function for each.

Acks, nacks and deliveries go out by the million and are cut by hand; the rest is written by its method.
"""

from __future__ import annotations

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.amqp import methods
from warren.amqp.constants import BASIC_ACK, BASIC_DELIVER, BASIC_GET_OK, BASIC_NACK, FRAME_END, FRAME_METHOD
from warren.amqp.fields import Table
from warren.amqp.frames import begin_frame, method_frame
from warren.amqp.methods import Method, encode_method
from warren.amqp.numbers import encode_text, write_u32
from warren.errors import SyntaxRefused


def frame(channel: i64, method: Method) -> bytes:
    return method_frame(channel, method.id, encode_method(method))


# --- connection ---------------------------------------------------------------------------------------------------


def connection_start(server_properties: Table, mechanisms: str, locales: str = "en_US") -> bytes:
    return frame(0, methods.ConnectionStart(0, 9, server_properties, mechanisms.encode(), locales.encode()))


def secure(challenge: bytes) -> bytes:
    return frame(0, methods.ConnectionSecure(challenge))


def tune(channel_max: i64, frame_max: i64, heartbeat: i64) -> bytes:
    return frame(0, methods.ConnectionTune(channel_max, frame_max, heartbeat))


def open_ok() -> bytes:
    return frame(0, methods.ConnectionOpenOk())


def close(code: i64, text: str, method_id: i64 = 0) -> bytes:
    return frame(0, methods.ConnectionClose(code, text, (method_id >> 16) & 0xFFFF, method_id & 0xFFFF))


def close_ok() -> bytes:
    return frame(0, methods.ConnectionCloseOk())


def blocked(reason: str) -> bytes:
    return frame(0, methods.ConnectionBlocked(reason))


def unblocked() -> bytes:
    return frame(0, methods.ConnectionUnblocked())


def update_secret_ok() -> bytes:
    return frame(0, methods.ConnectionUpdateSecretOk())


# --- channel and access -------------------------------------------------------------------------------------------


def channel_open_ok(channel: i64) -> bytes:
    return frame(channel, methods.ChannelOpenOk())


def flow_ok(channel: i64, active: bool) -> bytes:
    return frame(channel, methods.ChannelFlowOk(active))


def channel_close(channel: i64, code: i64, text: str, method_id: i64 = 0) -> bytes:
    return frame(channel, methods.ChannelClose(code, text, (method_id >> 16) & 0xFFFF, method_id & 0xFFFF))


def channel_close_ok(channel: i64) -> bytes:
    return frame(channel, methods.ChannelCloseOk())


def access_request_ok(channel: i64, ticket: i64 = 1) -> bytes:
    return frame(channel, methods.AccessRequestOk(ticket))


# --- exchange -----------------------------------------------------------------------------------------------------


def exchange_declare_ok(channel: i64) -> bytes:
    return frame(channel, methods.ExchangeDeclareOk())


def exchange_delete_ok(channel: i64) -> bytes:
    return frame(channel, methods.ExchangeDeleteOk())


def exchange_bind_ok(channel: i64) -> bytes:
    return frame(channel, methods.ExchangeBindOk())


def exchange_unbind_ok(channel: i64) -> bytes:
    return frame(channel, methods.ExchangeUnbindOk())


# --- queue --------------------------------------------------------------------------------------------------------


def queue_declare_ok(channel: i64, queue: str, messages: i64, consumers: i64) -> bytes:
    return frame(channel, methods.QueueDeclareOk(queue, _count(messages), _count(consumers)))


def queue_bind_ok(channel: i64) -> bytes:
    return frame(channel, methods.QueueBindOk())


def queue_purge_ok(channel: i64, messages: i64) -> bytes:
    return frame(channel, methods.QueuePurgeOk(_count(messages)))


def queue_delete_ok(channel: i64, messages: i64) -> bytes:
    return frame(channel, methods.QueueDeleteOk(_count(messages)))


def queue_unbind_ok(channel: i64) -> bytes:
    return frame(channel, methods.QueueUnbindOk())


def _count(messages: i64) -> i64:
    # A queue may hold more than the 32 bits of the reply can say.
    return messages if messages < 0xFFFFFFFF else 0xFFFFFFFF


# --- basic --------------------------------------------------------------------------------------------------------


def basic_qos_ok(channel: i64) -> bytes:
    return frame(channel, methods.BasicQosOk())


def consume_ok(channel: i64, consumer_tag: str) -> bytes:
    return frame(channel, methods.BasicConsumeOk(consumer_tag))


def cancel(channel: i64, consumer_tag: str) -> bytes:
    """The broker's own: the queue is gone, or the right to read it. No answer is asked for."""
    return frame(channel, methods.BasicCancel(consumer_tag, True))


def cancel_ok(channel: i64, consumer_tag: str) -> bytes:
    return frame(channel, methods.BasicCancelOk(consumer_tag))


def return_(channel: i64, code: i64, text: str, exchange: str, routing_key: str) -> bytes:
    return frame(channel, methods.BasicReturn(code, text, exchange, routing_key))


def get_empty(channel: i64) -> bytes:
    return frame(channel, methods.BasicGetEmpty())


def recover_ok(channel: i64) -> bytes:
    return frame(channel, methods.BasicRecoverOk())


def deliver(
    channel: i64, consumer_tag: str, delivery_tag: i64, redelivered: bool, exchange: str, routing_key: str
) -> bytes:
    consumer = _short(consumer_tag)
    source = _short(exchange)
    key = _short(routing_key)
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 16 + len(consumer) + len(source) + len(key))
    write_u32(writer, BASIC_DELIVER)
    writer.append(len(consumer))
    writer.write(consumer)
    write_i64_be(writer, delivery_tag)
    writer.append(redelivered)
    _end_with_route(writer, source, key)
    writer.append(FRAME_END)
    return writer.getvalue()


def get_ok(channel: i64, delivery_tag: i64, redelivered: bool, exchange: str, routing_key: str, messages: i64) -> bytes:
    source = _short(exchange)
    key = _short(routing_key)
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 19 + len(source) + len(key))
    write_u32(writer, BASIC_GET_OK)
    write_i64_be(writer, delivery_tag)
    writer.append(redelivered)
    _end_with_route(writer, source, key)
    write_u32(writer, _count(messages))
    writer.append(FRAME_END)
    return writer.getvalue()


def ack(channel: i64, delivery_tag: i64, multiple: bool) -> bytes:
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 13)
    write_u32(writer, BASIC_ACK)
    write_i64_be(writer, delivery_tag)
    writer.append(multiple)
    writer.append(FRAME_END)
    return writer.getvalue()


def nack(channel: i64, delivery_tag: i64, multiple: bool) -> bytes:
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 13)
    write_u32(writer, BASIC_NACK)
    write_i64_be(writer, delivery_tag)
    # RabbitMQ leaves requeue at the spec's default in a nack to a publisher: true, and without meaning.
    writer.append(3 if multiple else 2)
    writer.append(FRAME_END)
    return writer.getvalue()


def _end_with_route(writer: BytesWriter, exchange: bytes, routing_key: bytes) -> None:
    writer.append(len(exchange))
    writer.write(exchange)
    writer.append(len(routing_key))
    writer.write(routing_key)


def _short(text: str) -> bytes:
    encoded = encode_text(text)
    if len(encoded) > 255:
        raise SyntaxRefused(f"a short string cannot hold {len(encoded)} bytes")
    return encoded


# --- confirm and tx -----------------------------------------------------------------------------------------------


def confirm_select_ok(channel: i64) -> bytes:
    return frame(channel, methods.ConfirmSelectOk())


def tx_select_ok(channel: i64) -> bytes:
    return frame(channel, methods.TxSelectOk())


def tx_commit_ok(channel: i64) -> bytes:
    return frame(channel, methods.TxCommitOk())


def tx_rollback_ok(channel: i64) -> bytes:
    return frame(channel, methods.TxRollbackOk())
