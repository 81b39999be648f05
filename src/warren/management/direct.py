"""A client of the broker without a socket: what the API does for a user goes the way of that user's own frames.

So permissions, equivalence, interceptors and error texts are those of a channel, and there is no second set of rules.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

from warren.amqp.constants import FRAME_METHOD
from warren.amqp.frames import content_frames, method_frame
from warren.amqp.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    Method,
    decode_method,
    encode_method,
)
from warren.amqp.properties import Properties, encode_properties
from warren.broker.node import Node
from warren.broker.vhost import VHost
from warren.management.refusals import Refusal

CHANNEL: Final = 1
ANSWER_SECONDS: Final = 30.0


class Closed(Exception):
    """The broker closed the channel or the connection: `text` is what it wrote, «NAME - explanation»."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.explanation = text.partition(" - ")[2]

    def refusal(self) -> Refusal:
        if self.code == 403:
            return Refusal(401, "not_authorised", "Access refused.")
        if self.code == 404:
            return Refusal(404, "not_found", self.explanation)
        return Refusal(400, "bad_request", self.explanation)


class Answer:
    """A method from the broker, with its content if it has one."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.content = b""


class _Wire:
    """Keeps what a socket would have sent."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.arrived = asyncio.Event()

    def write(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            end = at + size + 8
            if data[at] == FRAME_METHOD:
                method_id = int.from_bytes(data[at + 7 : at + 11], "big")
                self.answers.append(Answer(decode_method(method_id, data, at + 11, end - 1)))
            else:
                self.answers[-1].content += data[at:end]
            at = end
        self.arrived.set()

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, farewell: bytes) -> None:
        self.write(farewell)


class DirectClient:
    """One channel of a user who has logged in otherwise. Use it in a `with` block."""

    def __init__(self, node: Node, user: str, vhost: VHost) -> None:
        self._node = node
        self._wire = _Wire()
        self._connection = node.connect_within(self._wire, user, vhost)
        self.call(ChannelOpen())

    def __enter__(self) -> DirectClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.lost()

    def send(self, method: Method, content: bytes = b"") -> None:
        self._connection.feed(method_frame(CHANNEL, method.id, encode_method(method)) + content)

    def call(self, method: Method) -> Answer:
        """The answer to a method that has one."""
        self.send(method)
        self._connection.flush()
        answer = self._wire.answers.pop(0)
        raise_if_closed(answer.method)
        return answer

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes) -> bool:
        """True when it was routed. Returns when the broker has taken the message on."""
        self.call(ConfirmSelect())
        frames = content_frames(CHANNEL, encode_properties(properties), body, self._connection.frame_max)
        self.send(BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True), frames)
        self._node.host.wake()
        is_routed = True
        while True:
            answer = await self._next()
            raise_if_closed(answer)
            if isinstance(answer, BasicReturn):
                is_routed = False
            elif isinstance(answer, BasicNack):
                raise Refusal(400, "rejected", "Unable to publish message. Check queue limits.")
            elif isinstance(answer, BasicAck):
                return is_routed

    async def _next(self) -> Method:
        while not self._wire.answers:
            self._wire.arrived.clear()
            await asyncio.wait_for(self._wire.arrived.wait(), ANSWER_SECONDS)
        return self._wire.answers.pop(0).method


def raise_if_closed(method: Method) -> None:
    if isinstance(method, (ChannelClose, ConnectionClose)):
        raise Closed(method.reply_code, method.reply_text)
