"""What the core tells of what happens in it. Nobody listens here; events.py makes messages of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from warren.broker.exchanges.base import Binding, Exchange
    from warren.broker.queue.consumer import Consumer
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.recipient import Recipient

# Who does what nobody asked for.
INTERNAL: Final = "rmq-internal"


class EventListener:
    """Verbs are created, deleted and closed."""

    def __init__(self) -> None:
        # Whose doing it is what happens now: the user of the channel or of the API's call that has its turn.
        self.actor = INTERNAL
        # From where: the address of whoever makes a call of the API.
        self.place = ""

    def emit(self, key: str, facts: dict[str, object]) -> None:
        """Something happened."""

    def done(self, key: str, facts: dict[str, object]) -> None:
        """Somebody changed something."""

    def queue(self, verb: str, queue: Queue) -> None:
        pass

    def queue_policy(self, queue: Queue, policy: dict[str, object]) -> None:
        """`policy` is the one that was set; empty when one was cleared."""

    def exchange(self, verb: str, exchange: Exchange) -> None:
        pass

    def binding(self, verb: str, vhost: str, binding: Binding) -> None:
        pass

    def consumer(self, verb: str, consumer: Consumer) -> None:
        pass

    def channel(self, verb: str, channel: Recipient) -> None:
        pass

    def connection(self, verb: str, connection: Outlet) -> None:
        pass

    def login(self, is_right: bool, connection: Outlet, user: str) -> None:
        pass
