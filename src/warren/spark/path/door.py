"""A publisher's way into a node: a real connection with a real channel in confirm mode, which nobody reads from.

A publish is judged, which is every check and the routing, and then delivered. Between the two stands the path, which
decides to which queues.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from warren.amqp import methods
from warren.amqp.constants import FRAME_METHOD, PROTOCOL_HEADER
from warren.amqp.fields import Field, table_of
from warren.amqp.frames import method_frame
from warren.amqp.methods import Method, decode_method, encode_method
from warren.broker.channel import Channel
from warren.broker.message import short
from warren.broker.node import Node
from warren.broker.observer import Delivery, Observer
from warren.broker.outlet import RUNNING
from warren.broker.publish import deliver_to_queues, known_delivery, walk
from warren.broker.queue import Queue
from warren.errors import HardError, WarrenError
from warren.spark.path.host import DeafWire

CHANNEL: Final = 1
_CAPABILITIES: Final = {"authentication_failure_close": True, "basic.nack": True, "publisher_confirms": True}
_NOTHING: Final = b"\x00\x00"


class Refused(WarrenError):
    """What the broker said instead of letting a publisher in."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Door:
    def __init__(self, node: Node, user: str, vhost: str) -> None:
        """Raises Refused when the broker does not let this user into this vhost."""
        self.node = node
        self.wire = DeafWire()
        self.connection = node.connect(self.wire, "127.0.0.1", 0, "127.0.0.1", 0)
        self._log_in(user, vhost)
        self.send(methods.ChannelOpen(), CHANNEL)
        self.send(methods.ConfirmSelect(), CHANNEL)
        self.channel: Channel = self.connection.channels[CHANNEL]
        node.flush()
        self.wire.take()

    def _log_in(self, user: str, vhost: str) -> None:
        capabilities = {"capabilities": Field("F", table_of(dict(_CAPABILITIES)))}
        settings = self.node.settings
        self.connection.feed(PROTOCOL_HEADER)
        self.send(methods.ConnectionStartOk(capabilities, "PLAIN", f"\0{user}\0".encode()))
        self.send(methods.ConnectionTuneOk(settings.channel_max, settings.frame_max, 0))
        self.send(methods.ConnectionOpen(vhost))
        self.node.flush()
        if self.connection.stage == RUNNING:
            # Each publish is judged by itself: no limit on connections counts this one.
            self.node.forget(self.connection)
            return
        for method in methods_in(self.wire.take()):
            if isinstance(method, methods.ConnectionClose):
                raise Refused(method.reply_code, method.reply_text)
        raise Refused(403, f"ACCESS_REFUSED - user '{user}' was not let in")

    def send(self, method: Method, channel: int = 0) -> None:
        self.connection.feed(method_frame(channel, method.id, encode_method(method)))

    def judge(self, arguments: bytes, content: bytes, body_size: int) -> Delivery:
        """Every check and the routing of one publish. Raises what the broker refuses it with."""
        known = known_delivery(self.channel, arguments, content, body_size)
        return walk(self.channel, arguments, content, body_size) if known is None else known

    def deliver(self, delivery: Delivery, queues: list[Queue], observer: Observer | None) -> bool:
        """Into these queues, as one publish. False when the publisher would hear nack."""
        acks = self.channel.counters.confirmed
        delivery.queues = queues
        delivery.observer = observer
        deliver_to_queues(self.channel, delivery)
        return self.channel.counters.confirmed != acks


def publish_arguments(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Of basic.publish, as a client sends them."""
    return _NOTHING + short(exchange) + short(routing_key) + (b"\x01" if mandatory else b"\x00")


def methods_in(data: bytes) -> Iterator[Method]:
    """Those that the broker wrote, without their contents."""
    at = 0
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        if kind == FRAME_METHOD:
            (method_id,) = struct.unpack_from(">I", data, at + 7)
            yield decode_method(method_id, data, at + 11, at + 7 + size)
        at += size + 8


def scope_of(error: Exception) -> str:
    """What a live publisher would lose with it."""
    return "connection" if isinstance(error, HardError) else "channel"
