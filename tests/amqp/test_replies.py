"""Replies: each is the one frame that its method would be."""

from __future__ import annotations

import struct

import pytest

from warren.amqp import methods, replies
from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.fields import Field
from warren.amqp.methods import Method, decode_method
from warren.errors import SyntaxRefused

NAME = "näme"


def unframed(frame: bytes) -> tuple[int, Method]:
    kind, channel, size, method_id = struct.unpack(">BHII", frame[:11])
    assert kind == 1
    assert len(frame) == size + 8
    assert frame[-1] == 0xCE
    return channel, decode_method(method_id, frame, 11, len(frame) - 1)


CONNECTION = [
    (
        replies.connection_start({"product": Field("S", "RabbitMQ")}, "PLAIN AMQPLAIN"),
        methods.ConnectionStart(0, 9, {"product": Field("S", "RabbitMQ")}, b"PLAIN AMQPLAIN", b"en_US"),
    ),
    (replies.secure(b"\x00challenge"), methods.ConnectionSecure(b"\x00challenge")),
    (replies.tune(2047, 131072, 60), methods.ConnectionTune(2047, 131072, 60)),
    (replies.open_ok(), methods.ConnectionOpenOk("")),
    (
        replies.close(530, "NOT_ALLOWED - vhost x not found", 10 << 16 | 40),
        methods.ConnectionClose(530, "NOT_ALLOWED - vhost x not found", 10, 40),
    ),
    (replies.close(320, "bye"), methods.ConnectionClose(320, "bye", 0, 0)),
    (replies.close_ok(), methods.ConnectionCloseOk()),
    (replies.blocked("low on memory"), methods.ConnectionBlocked("low on memory")),
    (replies.unblocked(), methods.ConnectionUnblocked()),
    (replies.update_secret_ok(), methods.ConnectionUpdateSecretOk()),
]

CHANNEL = [
    (replies.channel_open_ok(3), methods.ChannelOpenOk(b"")),
    (replies.flow_ok(3, True), methods.ChannelFlowOk(True)),
    (replies.flow_ok(3, False), methods.ChannelFlowOk(False)),
    (replies.channel_close(3, 404, "gone", BASIC_PUBLISH), methods.ChannelClose(404, "gone", 60, 40)),
    (replies.channel_close_ok(3), methods.ChannelCloseOk()),
    (replies.access_request_ok(3), methods.AccessRequestOk(1)),
    (replies.exchange_declare_ok(3), methods.ExchangeDeclareOk()),
    (replies.exchange_delete_ok(3), methods.ExchangeDeleteOk()),
    (replies.exchange_bind_ok(3), methods.ExchangeBindOk()),
    (replies.exchange_unbind_ok(3), methods.ExchangeUnbindOk()),
    (replies.queue_declare_ok(3, NAME, 4294967295, 2), methods.QueueDeclareOk(NAME, 4294967295, 2)),
    (replies.queue_bind_ok(3), methods.QueueBindOk()),
    (replies.queue_purge_ok(3, 5), methods.QueuePurgeOk(5)),
    (replies.queue_delete_ok(3, 5), methods.QueueDeleteOk(5)),
    (replies.queue_unbind_ok(3), methods.QueueUnbindOk()),
    (replies.basic_qos_ok(3), methods.BasicQosOk()),
    (replies.consume_ok(3, NAME), methods.BasicConsumeOk(NAME)),
    (replies.cancel(3, NAME), methods.BasicCancel(NAME, True)),
    (replies.cancel_ok(3, NAME), methods.BasicCancelOk(NAME)),
    (replies.return_(3, 312, "NO_ROUTE", NAME, "key"), methods.BasicReturn(312, "NO_ROUTE", NAME, "key")),
    (replies.deliver(3, NAME, 1 << 40, True, NAME, "key"), methods.BasicDeliver(NAME, 1 << 40, True, NAME, "key")),
    (replies.deliver(3, "", 1, False, "", ""), methods.BasicDeliver("", 1, False, "", "")),
    (
        replies.deliver(3, "c" * 255, 1, False, "e" * 255, "k" * 255),
        methods.BasicDeliver("c" * 255, 1, False, "e" * 255, "k" * 255),
    ),
    (replies.get_ok(3, 9, True, NAME, "key", 7), methods.BasicGetOk(9, True, NAME, "key", 7)),
    (replies.get_ok(3, 9, False, "", "", 0), methods.BasicGetOk(9, False, "", "", 0)),
    (replies.get_empty(3), methods.BasicGetEmpty("")),
    (replies.recover_ok(3), methods.BasicRecoverOk()),
    (replies.ack(3, 1, False), methods.BasicAck(1, False)),
    (replies.ack(3, (1 << 63) - 1, True), methods.BasicAck((1 << 63) - 1, True)),
    (replies.nack(3, 1, False), methods.BasicNack(1, False, True)),
    (replies.nack(3, 2, True), methods.BasicNack(2, True, True)),
    (replies.confirm_select_ok(3), methods.ConfirmSelectOk()),
    (replies.tx_select_ok(3), methods.TxSelectOk()),
    (replies.tx_commit_ok(3), methods.TxCommitOk()),
    (replies.tx_rollback_ok(3), methods.TxRollbackOk()),
]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Method) else "frame"


@pytest.mark.parametrize(("frame", "method"), CONNECTION, ids=name_of)
def test_what_concerns_the_connection_goes_out_on_channel_zero(frame: bytes, method: Method) -> None:
    assert unframed(frame) == (0, method)


@pytest.mark.parametrize(("frame", "method"), CHANNEL, ids=name_of)
def test_a_reply_is_the_frame_of_its_method(frame: bytes, method: Method) -> None:
    assert unframed(frame) == (3, method)


def test_the_highest_channel_number_fits() -> None:
    assert unframed(replies.ack(65535, 1, False))[0] == 65535
    assert unframed(replies.channel_open_ok(65535))[0] == 65535


def test_counts_beyond_32_bits_are_the_largest_that_can_be_said() -> None:
    assert unframed(replies.queue_declare_ok(1, "q", 1 << 33, 0))[1] == methods.QueueDeclareOk("q", 0xFFFFFFFF, 0)
    assert unframed(replies.get_ok(1, 1, False, "", "", 1 << 33))[1] == methods.BasicGetOk(1, False, "", "", 0xFFFFFFFF)


def test_a_name_longer_than_a_short_string_is_refused() -> None:
    with pytest.raises(SyntaxRefused):
        replies.consume_ok(1, "x" * 256)
    with pytest.raises(SyntaxRefused):
        replies.deliver(1, "x" * 256, 1, False, "", "")
    with pytest.raises(SyntaxRefused):
        replies.get_ok(1, 1, False, "x" * 256, "", 0)
