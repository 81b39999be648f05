"""A client of the broker without a socket: what the API does for a user goes the way of that user's own frames.

So permissions, equivalence, interceptors and error texts are those of a channel, and there is no second set of rules.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from warren.amqp import methods
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.node import Node
from warren.broker.vhost.vhost import VHost
from warren.broker.world import Wire
from warren.client.session import CHANNEL, Received, Refused, Session, frame_of, refusal
from warren.management.pieces import BYTES_PER_UNIT, Pace
from warren.management.refusals import Refusal

ANSWER_SECONDS: Final = 30.0
# Of a message that is published, at once.
_PIECE: Final = 262144


def refusal_to_http(refused: Refused) -> Refusal:
    """What the broker wrote is «NAME - explanation»."""
    explanation = refused.text.partition(" - ")[2]
    if refused.code == 403:
        return Refusal(401, "not_authorised", "Access refused.")
    if refused.code == 404:
        return Refusal(404, "not_found", explanation)
    return Refusal(400, "bad_request", explanation)


class _Wire(Wire):
    """Gives to the session what a socket would have sent."""

    def __init__(self) -> None:
        self._session = Session()
        self.received: deque[Received] = deque()
        self.arrived = asyncio.Event()

    def write(self, data: bytes) -> None:
        # A large content comes as it is, in a write of its own, and is not to be copied.
        received = self._session.take_whole(data)
        if received is None:
            self._session.feed(data)
            received = self._session.take()
        while received is not None:
            self.received.append(received)
            received = self._session.take()
        self.arrived.set()

    def close(self, farewell: bytes) -> None:
        self.write(farewell)


class DirectClient:
    """One channel of a user who has logged in otherwise. Use it in a `with` block."""

    def __init__(self, node: Node, user: str, vhost: VHost) -> None:
        self._node = node
        self._wire = _Wire()
        self._connection = node.connect_within(self._wire, user, vhost)
        self.call(methods.ChannelOpen())

    def __enter__(self) -> DirectClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.lost()

    def send(self, method: methods.Method, content: bytes = b"") -> None:
        self._connection.feed(frame_of(method) + content)

    def call(self, method: methods.Method) -> Received:
        """The answer to a method that has one."""
        self.send(method)
        self._connection.flush()
        answer = self._wire.received.popleft()
        raise_if_closed(answer.method)
        return answer

    async def ask(self, method: methods.Method) -> methods.Method:
        """The same for what may take more than a turn."""
        self.send(method)
        self._connection.flush()
        answer = await self._next()
        raise_if_closed(answer)
        return answer

    async def publish(self, exchange: str, routing_key: str, properties: Properties, body: bytes, pace: Pace) -> bool:
        """In pieces, as from a socket. True when it was routed. Returns when the broker has taken the message on."""
        if self._node.alarmed:
            raise Refusal(503, "blocked", f"publishers are blocked: {self._node.alarm_text()}")
        self.call(methods.ConfirmSelect())
        frames = content_frames(CHANNEL, encode_properties(properties), body, self._connection.frame_max)
        await pace.spend(len(frames) // BYTES_PER_UNIT)
        self.send(methods.BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True))
        for at in range(0, len(frames), _PIECE):
            self._connection.feed(frames[at : at + _PIECE])
            await pace.spend(min(_PIECE, len(frames) - at) // BYTES_PER_UNIT)
        self._node.host.wake()
        is_routed = True
        while True:
            answer = await self._next()
            raise_if_closed(answer)
            if isinstance(answer, methods.BasicReturn):
                is_routed = False
            elif isinstance(answer, methods.BasicNack):
                raise Refusal(400, "rejected", "Unable to publish message. Check queue limits.")
            elif isinstance(answer, methods.BasicAck):
                return is_routed

    async def _next(self) -> methods.Method:
        while not self._wire.received:
            self._wire.arrived.clear()
            try:
                await asyncio.wait_for(self._wire.arrived.wait(), ANSWER_SECONDS)
            except TimeoutError:
                raise Refusal(503, "timeout", f"the message was not confirmed within {ANSWER_SECONDS:g} s") from None
        return self._wire.received.popleft().method


def raise_if_closed(method: methods.Method) -> None:
    if isinstance(method, (methods.ChannelClose, methods.ConnectionClose)):
        raise refusal(method)
