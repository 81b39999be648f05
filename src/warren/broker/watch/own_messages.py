"""Messages of the broker's own, events and copies of what is traced: in the order in which they were made.

Most are in their queues at once. One for very many queues goes in pieces, and what is made after it waits behind it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.exchanges.base import Exchange
from warren.broker.message import Message, Origin
from warren.broker.publish.republish import FanOut, queues_for
from warren.broker.queue.errands import Budget, Errand, Errands
from warren.broker.queue.outlet import Outlet

if TYPE_CHECKING:
    from warren.broker.vhost.vhost import VHost


class OwnMessages(Errand):
    def __init__(self, errands: Errands) -> None:
        super().__init__()
        self._errands = errands
        # Each with the connection that is not read on before it is everywhere.
        self._line: deque[tuple[FanOut, Outlet | None]] = deque()

    def publish(
        self, vhost: VHost, name: str, key: str, properties: Properties, body: bytes, cause: Outlet | None
    ) -> None:
        """To an exchange to which clients cannot publish. `cause` is the connection whose doing it tells of."""
        exchange = vhost.exchanges.get(name)
        if exchange is None or exchange.leads_nowhere():
            return
        # A key is a short string on the wire, and this one has a name of up to 255 bytes in it.
        while len(key.encode("utf-8", "surrogateescape")) > 255:
            key = key[:-1]
        size: i64 = len(body)
        content = content_frames(1, encode_properties(properties), body, vhost.node.settings.frame_max)
        message = Message(Origin(name, [key]), content, 1, size)
        message.persistent = properties.delivery_mode == 2
        self._send(vhost, exchange, message, cause)

    def _send(self, vhost: VHost, exchange: Exchange, message: Message, cause: Outlet | None) -> None:
        exchange.published_in += 1
        fan_out = FanOut(vhost.node.monitor, exchange, message, queues_for(vhost, exchange, message), None)
        if not self._line:
            if not fan_out.is_wide():
                fan_out.finish()
                return
            self._errands.add(self)
        self._line.append((fan_out, cause))
        if cause is not None:
            cause.await_errand()

    def step(self, budget: Budget) -> bool:
        while self._line and budget.left > 0:
            # Also one that nobody gets costs something.
            budget.spend(1)
            if self._line[0][0].step(budget):
                self._leave()
        return not self._line

    def failed(self) -> bool:
        # Those behind it are not to be lost with it.
        self._leave()
        return not self._line

    def _leave(self) -> None:
        cause = self._line.popleft()[1]
        if cause is not None:
            cause.errand_done()
