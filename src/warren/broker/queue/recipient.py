"""A channel as queues and consumers know it: what it holds, how much it may be handed, and the way to its client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.methods import Method
from warren.amqp.replies import frame
from warren.broker.queue.outlet import Outlet
from warren.broker.queue.unacked import Unacked
from warren.errors import SoftError

if TYPE_CHECKING:
    from warren.broker.queue.consumer import Consumer


class Recipient:
    def __init__(self, outlet: Outlet, number: i64) -> None:
        self.outlet = outlet
        self.number: i64 = number
        self.user = outlet.user
        # After a channel error: everything but close and close-ok is ignored.
        self.is_closed = False
        self.unacked = Unacked()
        # basic.qos: for consumers that start from now on, each; and for the whole channel. 0 = no limit.
        self.consumer_prefetch: i64 = 0
        self.prefetch: i64 = 0
        self.consumers: dict[str, Consumer] = {}

    def answer(self, method: Method) -> None:
        """Work may take several turns: on a channel that has closed meanwhile, nobody expects to hear of it."""
        if not self.is_closed:
            self.outlet.send(frame(self.number, method))

    def cancel_by_broker(self, consumer: Consumer) -> None:
        """The consumer's queue is gone, or no longer its to read."""
        raise NotImplementedError

    def fail(self, error: SoftError, method_id: i64 = 0) -> None:
        """The client did something wrong: the channel closes."""
        raise NotImplementedError
