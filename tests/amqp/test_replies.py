"""Replies: each is the one frame that its method would be."""

from __future__ import annotations

import struct

import pytest

from warren.amqp import methods, replies
from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.methods import Method, decode_method
from warren.errors import SyntaxRefused

NAME = "näme"


def unframed(frame: bytes) -> tuple[int, Method]:
    kind, channel, size, method_id = struct.unpack(">BHII", frame[:11])
    assert kind == 1
    assert len(frame) == size + 8
    assert frame[-1] == 0xCE
    return channel, decode_method(method_id, frame, 11, len(frame) - 1)


REPLIES = [
    (
        replies.close(530, "NOT_ALLOWED - vhost x not found", 10 << 16 | 40),
        0,
        methods.ConnectionClose(530, "NOT_ALLOWED - vhost x not found", 10, 40),
    ),
    (replies.close(320, "bye"), 0, methods.ConnectionClose(320, "bye", 0, 0)),
    (replies.frame(0, methods.ConnectionTune(2047, 131072, 60)), 0, methods.ConnectionTune(2047, 131072, 60)),
    (replies.frame(3, methods.BasicConsumeOk(NAME)), 3, methods.BasicConsumeOk(NAME)),
    (replies.channel_close(3, 404, "gone", BASIC_PUBLISH), 3, methods.ChannelClose(404, "gone", 60, 40)),
    (replies.get_ok(3, 9, True, NAME, "key", 7), 3, methods.BasicGetOk(9, True, NAME, "key", 7)),
    (replies.get_ok(3, 9, False, "", "", 0), 3, methods.BasicGetOk(9, False, "", "", 0)),
    (replies.ack(3, 1, False), 3, methods.BasicAck(1, False)),
    (replies.ack(3, (1 << 63) - 1, True), 3, methods.BasicAck((1 << 63) - 1, True)),
    (replies.nack(3, 1, False), 3, methods.BasicNack(1, False, True)),
    (replies.nack(3, 2, True), 3, methods.BasicNack(2, True, True)),
]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Method) else "_"


def test_a_method_frame_is_id_and_arguments_between_frame_bytes() -> None:
    long = bytes(0x10203)
    head = b"\x01\xab\xcd\x00\x01\x02\x0b\x00\x0a\x00\x14\x00\x01\x02\x03"
    assert replies.frame(0xABCD, methods.ConnectionSecure(long)) == head + long + b"\xce"


@pytest.mark.parametrize(("frame", "channel", "method"), REPLIES, ids=name_of)
def test_a_reply_is_the_frame_of_its_method(frame: bytes, channel: int, method: Method) -> None:
    assert unframed(frame) == (channel, method)


def test_the_highest_channel_number_fits() -> None:
    assert unframed(replies.ack(65535, 1, False))[0] == 65535
    assert unframed(replies.frame(65535, methods.ChannelOpenOk()))[0] == 65535


def test_counts_beyond_32_bits_are_the_largest_that_can_be_said() -> None:
    assert replies.count_of(1 << 33) == 0xFFFFFFFF
    assert unframed(replies.get_ok(1, 1, False, "", "", 1 << 33))[1] == methods.BasicGetOk(1, False, "", "", 0xFFFFFFFF)


def test_a_name_longer_than_a_short_string_is_refused() -> None:
    with pytest.raises(SyntaxRefused):
        replies.frame(1, methods.BasicConsumeOk("x" * 256))
    with pytest.raises(SyntaxRefused):
        replies.get_ok(1, 1, False, "x" * 256, "", 0)
