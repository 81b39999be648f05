"""What the server sends, as whole frames.

Acks, nacks and answers to basic.get go out by the million and are cut by hand; the rest is written by its method.
"""

from __future__ import annotations

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64, u8

from warren.amqp import methods
from warren.amqp.constants import BASIC_ACK, BASIC_GET_OK, BASIC_NACK, FRAME_END, FRAME_METHOD
from warren.amqp.frames import begin_frame
from warren.amqp.methods import Method
from warren.amqp.numbers import encode_text, write_u32
from warren.amqp.writer import ArgumentWriter
from warren.errors import SyntaxRefused


def frame(channel: i64, method: Method) -> bytes:
    writer = ArgumentWriter()
    writer.begin_frame(channel, method.id)
    method.encode(writer)
    return writer.end_frame()


def close(code: i64, text: str, method_id: i64 = 0) -> bytes:
    return frame(0, methods.ConnectionClose(code, text, (method_id >> 16) & 0xFFFF, method_id & 0xFFFF))


def channel_close(channel: i64, code: i64, text: str, method_id: i64) -> bytes:
    return frame(channel, methods.ChannelClose(code, text, (method_id >> 16) & 0xFFFF, method_id & 0xFFFF))


def count_of(messages: i64) -> i64:
    # A queue may hold more than the 32 bits of the reply can say.
    return messages if messages < 0xFFFFFFFF else 0xFFFFFFFF


def get_ok(channel: i64, delivery_tag: i64, redelivered: bool, exchange: str, routing_key: str, messages: i64) -> bytes:
    source = _short(exchange)
    key = _short(routing_key)
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 19 + len(source) + len(key))
    write_u32(writer, BASIC_GET_OK)
    write_i64_be(writer, delivery_tag)
    writer.append(redelivered)
    writer.append(len(source))
    writer.write(source)
    writer.append(len(key))
    writer.write(key)
    write_u32(writer, count_of(messages))
    writer.append(FRAME_END)
    return writer.getvalue()


def ack(channel: i64, delivery_tag: i64, multiple: bool) -> bytes:
    return _settling(channel, BASIC_ACK, delivery_tag, 1 if multiple else 0)


def nack(channel: i64, delivery_tag: i64, multiple: bool) -> bytes:
    # RabbitMQ leaves requeue at the spec's default in a nack to a publisher: true, and without meaning.
    return _settling(channel, BASIC_NACK, delivery_tag, 3 if multiple else 2)


def _settling(channel: i64, method_id: i64, delivery_tag: i64, bits: u8) -> bytes:
    writer = BytesWriter()
    begin_frame(writer, FRAME_METHOD, channel, 13)
    write_u32(writer, method_id)
    write_i64_be(writer, delivery_tag)
    writer.append(bits)
    writer.append(FRAME_END)
    return writer.getvalue()


def _short(text: str) -> bytes:
    encoded = encode_text(text)
    if len(encoded) > 255:
        raise SyntaxRefused(f"a short string cannot hold {len(encoded)} bytes")
    return encoded
