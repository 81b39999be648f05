"""Dead letters: what leaves a queue unwanted goes to its dead-letter exchange, with the story in x-death.

They are republished after the operation that killed them, never inside it, so that a chain of full queues is a loop
and not a recursion. A message leaves its old queue only once it is in the new ones: never in neither place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mypy_extensions import i64

from warren.amqp.fields import Field, Table, field_of
from warren.amqp.frames import body_of, content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.awaiting import Awaiting
from warren.broker.exchanges.base import Envelope
from warren.broker.message import Delivery, Entry, Message, Origin
from warren.broker.queue import REASON_REJECTED, Queue
from warren.broker.route import route

if TYPE_CHECKING:
    from warren.broker.node import Node


class DeadLetter:
    def __init__(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        self.queue = queue
        self.entry = entry
        self.reason = reason
        # False for a message that was refused at the door and never was in the queue.
        self.stored = stored


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
        # By type of queue and reason.
        self.counted: dict[tuple[str, str], int] = {}

    def add(self, queue: Queue, entry: Entry, reason: str, stored: bool) -> None:
        self.waiting.append(DeadLetter(queue, entry, reason, stored))
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
        is_streamed = False
        queue.counters.dead_lettered += 1
        kind = (queue.type, letter.reason)
        self.counted[kind] = self.counted.get(kind, 0) + 1
        message = self._buried(letter, name)
        headers = message.properties().headers
        envelope = Envelope(message.origin.keys, headers, "", "", 0, self.node.host.draw())
        delivery = Delivery(message, None, False, 0)
        exchange.published_in += 1
        for destination in route(vhost.exchanges, exchange, envelope):
            if not isinstance(destination, Queue) or destination.deleted:
                continue
            if letter.reason != REASON_REJECTED and headers is not None and _is_cycle(destination.name, headers):
                continue
            exchange.published_out += 1
            self.node.monitor.publish(destination, delivery)
            if destination.keeps_all:
                is_streamed = True
        return is_streamed

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
        body = body_of(old.content)
        content = content_frames(old.channel, encode_properties(properties), body, self.node.settings.frame_max)
        message = Message(origin, content, old.channel, old.body_size)
        message.persistent = old.persistent
        message.priority = old.priority
        return message


def record_death(
    headers: Table, queue: str, reason: str, origin: Origin, properties: Properties, now_seconds: i64
) -> None:
    """Newest death first; one entry per (queue, reason), whose count grows."""
    deaths = _deaths(headers)
    is_first = "x-death" not in headers
    again: Table | None = None
    for death in deaths:
        if _text(death, "queue") == queue and _text(death, "reason") == reason:
            again = death
            break
    if again is not None:
        deaths.remove(again)
        count = again.get("count")
        again["count"] = Field("l", count.value + 1 if count is not None and isinstance(count.value, int) else 1)
        deaths.insert(0, again)
    else:
        deaths.insert(0, _death(queue, reason, origin, properties, now_seconds))
    headers["x-death"] = Field("A", [Field("F", death) for death in deaths])
    if is_first:
        _summarise(headers, "x-first-death", queue, reason, origin.exchange)
    _summarise(headers, "x-last-death", queue, reason, origin.exchange)


def _death(queue: str, reason: str, origin: Origin, properties: Properties, now_seconds: i64) -> Table:
    shown = len(origin.keys) - origin.hidden
    death: Table = {
        "count": Field("l", 1),
        "reason": Field("S", reason),
        "queue": Field("S", queue),
        "time": Field("T", now_seconds),
        "exchange": Field("S", origin.exchange),
        "routing-keys": Field("A", [field_of(key) for key in origin.keys[:shown]]),
    }
    if properties.expiration is not None:
        death["original-expiration"] = Field("S", properties.expiration)
    return death


def _summarise(headers: Table, prefix: str, queue: str, reason: str, exchange: str) -> None:
    headers[f"{prefix}-reason"] = Field("S", reason)
    headers[f"{prefix}-queue"] = Field("S", queue)
    headers[f"{prefix}-exchange"] = Field("S", exchange)


def _deaths(headers: Table) -> list[Table]:
    """What x-death says; a header of another shape, which only a client can have made, counts for nothing."""
    field = headers.get("x-death")
    if field is None or not isinstance(field.value, list):
        return []
    return [dict(item.value) for item in field.value if isinstance(item.value, dict)]


def _text(table: Table, key: str) -> str | None:
    field = table.get(key)
    return field.value if field is not None and isinstance(field.value, str) else None


def _is_cycle(queue: str, headers: Table) -> bool:
    """Been there before, and nobody rejected it on the way: it would go round for ever."""
    for death in _deaths(headers):
        if _text(death, "reason") == REASON_REJECTED:
            return False
        if _text(death, "queue") == queue:
            return True
    return False
