"""A publisher's way into a node: a real connection with a real channel in confirm mode, which nobody reads from.

A publish is judged, which is every check and the routing, and then delivered. Between the two stands the path, which
decides to which queues.
"""

from __future__ import annotations

from typing import Final

from warren.amqp import methods
from warren.amqp.methods import Method
from warren.broker.message import short
from warren.broker.node import Node
from warren.broker.publish.checks import size
from warren.broker.publish.publish import walk
from warren.broker.publish.routed import deliver_routed
from warren.broker.queue.queue import Queue
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import intercept_publish
from warren.broker.session.observer import Delivery, Observer
from warren.client.session import CHANNEL, Credentials, Refused, Session, frame_of
from warren.errors import HardError
from warren.spark.path.host import DeafWire

_NOTHING: Final = b"\x00\x00"


class Door:
    def __init__(self, node: Node, user: str, vhost: str, confirms: bool = True) -> None:
        """Raises Refused when the broker does not let this user into this vhost."""
        self.node = node
        self.wire = DeafWire()
        self.connection = node.connect(self.wire, "127.0.0.1", 0, "127.0.0.1", 0)
        self._log_in(user, vhost)
        if confirms:
            self.send(methods.ConfirmSelect(), CHANNEL)
        self.channel: Channel = self.connection.channels[CHANNEL]
        node.flush()
        self.wire.take()

    def _log_in(self, user: str, vhost: str) -> None:
        session = Session(Credentials(user, "", vhost))
        self.connection.feed(session.greet())
        while not session.is_open:
            self.node.flush()
            session.feed(self.wire.take())
            received = session.take()
            if received is None:
                raise Refused(403, f"ACCESS_REFUSED - user '{user}' was not let in")
            self.connection.feed(session.answer(received))
        # Each publish is judged by itself: no limit on connections counts this one.
        self.node.forget(self.connection)

    def send(self, method: Method, channel: int) -> None:
        self.connection.feed(frame_of(method, channel))

    def intercept(self, arguments: bytes, content: bytes, body_size: int) -> tuple[bytes, bytes, int]:
        """What the interceptor of basic.publish makes of one. Raises what it refuses it with."""
        size(self.channel, body_size)
        return intercept_publish(self.channel, arguments, content)

    def judge(self, arguments: bytes, content: bytes, body_size: int) -> Delivery:
        """Every check and the routing of one publish. Raises what the broker refuses it with."""
        return walk(self.channel, arguments, content, body_size)

    def deliver(self, delivery: Delivery, queues: list[Queue], observer: Observer | None) -> bool:
        """Into these queues, as one publish. False when the publisher would hear nack, or nothing."""
        acks = self.channel.counters.confirmed
        delivery.queues = queues
        delivery.observer = observer
        deliver_routed(self.channel, delivery)
        return self.channel.counters.confirmed != acks


class Doors:
    """One for every user and vhost, or why there is none; and one for those who want no confirms, which take time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[tuple[str, str, bool], Door | Refused] = {}

    def of(self, user: str, vhost: str, confirms: bool = True) -> Door | Refused:
        known = self._known.get((user, vhost, confirms))
        if known is None:
            try:
                known = Door(self._node, user, vhost, confirms)
                known.wire.hush()
            except Refused as refused:
                known = refused
            self._known[(user, vhost, confirms)] = known
        return known


def publish_arguments(exchange: str, routing_key: str, mandatory: bool) -> bytes:
    """Of basic.publish, as a client sends them."""
    return _NOTHING + short(exchange) + short(routing_key) + (b"\x01" if mandatory else b"\x00")


def scope_of(error: Exception) -> str:
    """What a live publisher would lose with it."""
    return "connection" if isinstance(error, HardError) else "channel"
