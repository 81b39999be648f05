"""Dead letters: what leaves a queue unwanted goes to its dead-letter exchange, with the story in x-death.

They are republished after the operation that killed them, never inside it, so that a chain of full queues is a loop
and not a recursion. A message leaves its old queue only once it is in the new ones: never in neither place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64, mypyc_attr

from warren.amqp.fields import Table
from warren.broker.awaiting import Awaiting
from warren.broker.message import NEVER, Entry, Message, Origin
from warren.broker.queue import REASON_REJECTED, Queue
from warren.broker.republish import IS_STREAMED, queues_for, republish_to
from warren.broker.x_death import is_cycle, record_death

if TYPE_CHECKING:
    from warren.broker.node import Node


class DeadLetter:
    def __init__(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        self.queue = queue
        self.entry = entry
        self.reason = reason
        # False for a message that was refused at the door and never was in the queue.
        self.stored = stored


@mypyc_attr(allow_interpreted_subclasses=True)
class DeathListener:
    """Hears of every dead letter before it is republished: the message path on Spark keeps the books of them."""

    def died(self, letter: DeadLetter) -> None:
        pass


class AwaitingSettle(Awaiting):
    """It is gone from its old queue once it is durable in the new ones."""

    def __init__(self, position: i64, letter: DeadLetter) -> None:
        super().__init__(position)
        self.letter = letter

    def reached(self) -> None:
        queue = self.letter.queue
        if not queue.deleted:
            queue.backing.settle(self.letter.entry)


class DeadLetters:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.waiting: deque[DeadLetter] = deque()
        self.listener: DeathListener | None = None
        # By type of queue and reason.
        self.counted: dict[tuple[str, str], int] = {}

    def add(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        letter = DeadLetter(queue, entry, reason, stored)
        self.waiting.append(letter)
        if self.listener is not None:
            self.listener.died(letter)
        self.node.host.wake()

    def run(self) -> None:
        """Republish all that waits, and what that kills in turn."""
        while self.waiting:
            letter = self.waiting.popleft()
            is_streamed = self._republish(letter)
            if not letter.stored:
                continue
            store = self.node.store
            if is_streamed and store.position > store.synced:
                self.node.await_position(AwaitingSettle(store.position, letter))
            else:
                letter.queue.backing.settle(letter.entry)

    def _republish(self, letter: DeadLetter) -> bool:
        """True when it went to a stream, whose files are not the log's: a crash could keep one and lose the other."""
        queue = letter.queue
        vhost = self.node.vhosts.get(queue.vhost)
        name = queue.options.dead_letter_exchange
        if vhost is None or name is None:
            return False
        exchange = vhost.exchanges.get(name)
        if exchange is None:
            return False
        queue.counters.dead_lettered += 1
        kind = (queue.type, letter.reason)
        self.counted[kind] = self.counted.get(kind, 0) + 1
        message = self._buried(letter, name)
        queues = queues_for(vhost, exchange, message)
        if letter.reason != REASON_REJECTED:
            headers = message.properties().headers
            queues = [each for each in queues if headers is None or not is_cycle(each.name, headers)]
        return republish_to(vhost, exchange, message, queues) & IS_STREAMED != 0

    def _buried(self, letter: DeadLetter, exchange: str) -> Message:
        """The same body under new headers, exchange and keys."""
        old = letter.entry.message
        queue = letter.queue
        properties = old.properties()
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        record_death(headers, queue.name, letter.reason, old.origin, properties, self.node.wall_seconds())
        properties.headers = headers
        # It must not expire again: the TTL of the next queue counts anew.
        properties.expiration = None
        new_key = queue.options.dead_letter_routing_key
        if new_key is None:
            origin = Origin(exchange, old.origin.keys, old.origin.hidden)
        else:
            headers.pop("CC", None)
            origin = Origin(exchange, [new_key])
        message = old.changed(origin, properties, self.node.settings.frame_max)
        message.ttl = NEVER
        return message
