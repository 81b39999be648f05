"""A small, fast AMQP client on a blocking socket, with Warren's own codec. Foreign proof is in the pika variant."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from typing import Final

from warren.amqp import methods
from warren.amqp.fields import Table, table_of
from warren.amqp.frames import content_frames
from warren.amqp.methods import Method
from warren.amqp.properties import Properties, encode_properties
from warren.client.session import FRAME_MAX, Credentials, Received, Session, frame_of

PATIENCE: Final = 30.0
_CAPABILITIES: Final[dict[str, object]] = {
    "publisher_confirms": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
}


class Gone(Exception):
    """The broker is not there any more: what most of these tests wait for."""


class Closed(Gone):
    """The broker closed the channel or the connection, and said why."""


def identity_of(event: Received) -> str:
    return event.properties.message_id or ""


def publish_frames(exchange: str, key: str, identity: str, body: bytes, mandatory: bool = False) -> bytes:
    properties = encode_properties(Properties(delivery_mode=2, message_id=identity))
    publish = methods.BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    return frame_of(publish) + content_frames(1, properties, body, FRAME_MAX)


class Client:
    """One connection with channel 1 open."""

    def __init__(self, port: int, name: str = "", host: str = "127.0.0.1", patience: float = PATIENCE) -> None:
        self.port = port
        self._patience = patience
        self.name = name
        self.events: deque[Received] = deque()
        self.blocked = False
        # How many publishes tests have made on the channel.
        self.published = 0
        credentials = Credentials("guest", "guest", product="warren fault tests", capabilities=_CAPABILITIES)
        self._session = Session(credentials)
        try:
            self.socket = socket.create_connection((host, port), timeout=patience)
        except OSError as error:
            raise Gone(str(error)) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> None:
        self.send(self._session.greet())
        while not self._session.is_open:
            if not self.receive(self._patience):
                raise AssertionError(f"no answer within {self._patience} s")
            while self.events:
                self.send(self._session.answer(self.events.popleft()))

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def ask(self, method: Method, answer: type[Method]) -> Method:
        self.send(frame_of(method))
        return self.wait_for(answer).method

    def wait_for(self, kind: type[Method], patience: float = 0) -> Received:
        """The next event of this kind; others stay in `events`."""
        patience = patience or self._patience
        deadline = time.monotonic() + patience
        passed: deque[Received] = deque()
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
        self._session.feed(data)
        while (received := self._session.take()) is not None:
            self._take(received)
        return True

    def _take(self, received: Received) -> None:
        method = received.method
        if isinstance(method, (methods.ChannelClose, methods.ConnectionClose)):
            raise Closed(f"{method.reply_code} {method.reply_text}")
        if isinstance(method, methods.ConnectionBlocked):
            self.blocked = True
        elif isinstance(method, methods.ConnectionUnblocked):
            self.blocked = False
        self.events.append(received)

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
