"""A small, fast AMQP client on a blocking socket, with Warren's own codec. Foreign proof is in the pika variant."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

from warren.amqp import methods
from warren.amqp.fields import Table, table_of
from warren.amqp.frames import content_frames, method_frame
from warren.amqp.methods import Method, decode_method
from warren.amqp.methods.base import encode_method
from warren.amqp.properties import Properties, decode_properties, encode_properties

FRAME_MAX: Final = 131072
PATIENCE: Final = 30.0
_HEADER: Final = b"AMQP\x00\x00\x09\x01"
_CAPABILITIES: Final = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
}
_WITH_CONTENT: Final = (methods.BasicDeliver, methods.BasicGetOk, methods.BasicReturn)


class Gone(Exception):
    """The broker is not there any more: what most of these tests wait for."""


class Closed(Gone):
    """The broker closed the channel or the connection, and said why."""


@dataclass(slots=True)
class Event:
    """A method from the broker, with its content where it has one."""

    method: Method
    properties: bytes = b""
    body: bytes = b""

    @property
    def identity(self) -> str:
        return decode_properties(self.properties, 0, len(self.properties)).message_id or ""


def frame(method: Method, channel: int = 1) -> bytes:
    return method_frame(channel, method.id, encode_method(method))


def publish_frames(exchange: str, key: str, identity: str, body: bytes, mandatory: bool = False) -> bytes:
    properties = encode_properties(Properties(delivery_mode=2, message_id=identity))
    publish = methods.BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return frame(publish) + content_frames(1, properties, body, FRAME_MAX)


class Client:
    """One connection with channel 1 open. Everything is sent at once: the handshake costs one round trip."""

    def __init__(self, port: int, name: str = "") -> None:
        self.port = port
        self.name = name
        self.events: deque[Event] = deque()
        self.blocked = False
        # How many publishes tests have made on the channel.
        self.published = 0
        self._buffer = b""
        self._partial: Event | None = None
        self._missing = 0
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except OSError as error:
            raise Gone(str(error)) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        client = table_of({"capabilities": _CAPABILITIES, "product": "warren fault tests"})
        self.send(
            _HEADER
            + frame(methods.ConnectionStartOk(client, "PLAIN", b"\0guest\0guest"), 0)
            + frame(methods.ConnectionTuneOk(2047, FRAME_MAX, 0), 0)
            + frame(methods.ConnectionOpen("/"), 0)
            + frame(methods.ChannelOpen())
        )
        self.wait_for(methods.ChannelOpenOk)
        self.events.clear()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def ask(self, method: Method, answer: type[Method]) -> Method:
        self.send(frame(method))
        return self.wait_for(answer).method

    def wait_for(self, kind: type[Method], patience: float = PATIENCE) -> Event:
        """The next event of this kind; others stay in `events`."""
        deadline = time.monotonic() + patience
        passed: deque[Event] = deque()
        while True:
            while self.events:
                event = self.events.popleft()
                if isinstance(event.method, kind):
                    self.events.extendleft(reversed(passed))
                    return event
                passed.append(event)
            if not self.receive(deadline - time.monotonic()):
                raise AssertionError(f"no {kind.__name__} within {patience} s")

    def receive(self, seconds: float) -> bool:
        """Read what there is, waiting for it at most so long; False when nothing came. Fills `events`."""
        try:
            if not select.select([self.socket], [], [], max(seconds, 0))[0]:
                return False
            data = self.socket.recv(1 << 20)
        except OSError as error:
            raise Gone(str(error)) from error
        if not data:
            raise Gone("end of stream")
        self._take(self._buffer + data if self._buffer else data)
        return True

    def _take(self, data: bytes) -> None:
        at, total = 0, len(data)
        while total - at >= 8:
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            end = at + size + 8
            if end > total:
                break
            assert data[end - 1] == 0xCE, "frame without end"
            self._take_frame(data[at], data, at + 7, end - 1)
            at = end
        self._buffer = data[at:]

    def _take_frame(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind == 1:
            self._take_method(decode_method(int.from_bytes(data[start : start + 4], "big"), data, start + 4, end))
        elif kind == 2:
            assert self._partial is not None
            self._missing = int.from_bytes(data[start + 4 : start + 12], "big")
            self._partial.properties = data[start + 12 : end]
        elif kind == 3:
            assert self._partial is not None
            self._partial.body += data[start:end]
            self._missing -= end - start
        if kind in (2, 3) and self._missing == 0 and self._partial is not None:
            self.events.append(self._partial)
            self._partial = None

    def _take_method(self, method: Method) -> None:
        if isinstance(method, (methods.ChannelClose, methods.ConnectionClose)):
            raise Closed(f"{method.reply_code} {method.reply_text}")
        if isinstance(method, methods.ConnectionBlocked):
            self.blocked = True
        elif isinstance(method, methods.ConnectionUnblocked):
            self.blocked = False
        event = Event(method)
        if isinstance(method, _WITH_CONTENT):
            self._partial = event
        else:
            self.events.append(event)

    # What tests ask for most.

    def declare(self, queue: str, arguments: dict[str, object] | None = None, passive: bool = False) -> int:
        """How many messages are ready in it."""
        table: Table = table_of(arguments or {})
        answer = self.ask(
            methods.QueueDeclare(queue=queue, durable=True, passive=passive, arguments=table), methods.QueueDeclareOk
        )
        assert isinstance(answer, methods.QueueDeclareOk)
        return answer.message_count

    def declare_exchange(self, name: str, kind: str) -> None:
        self.ask(methods.ExchangeDeclare(exchange=name, type=kind, durable=True), methods.ExchangeDeclareOk)

    def bind(self, queue: str, exchange: str, key: str = "") -> None:
        self.ask(methods.QueueBind(queue=queue, exchange=exchange, routing_key=key), methods.QueueBindOk)

    def delete(self, queue: str) -> None:
        self.ask(methods.QueueDelete(queue=queue), methods.QueueDeleteOk)

    def confirm_select(self) -> None:
        self.ask(methods.ConfirmSelect(), methods.ConfirmSelectOk)

    def qos(self, count: int) -> None:
        self.ask(methods.BasicQos(prefetch_count=count), methods.BasicQosOk)

    def consume(self, queue: str) -> None:
        """The consumer's tag is the queue's name."""
        self.ask(methods.BasicConsume(queue=queue, consumer_tag=queue), methods.BasicConsumeOk)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
