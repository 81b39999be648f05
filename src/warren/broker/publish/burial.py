"""Dead letters go to the dead-letter exchange of their queue, with their story in x-death.

A message leaves its old queue only once it is in the new ones: never in neither place.
"""

from __future__ import annotations

import traceback
from typing import Final

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.amqp.stamp import find_headers
from warren.broker.exchanges.base import Exchange
from warren.broker.message import NEVER, Message, Obituary, Origin
from warren.broker.publish.republish import IS_STREAMED, FanOut, queues_for
from warren.broker.publish.x_death import been_in, record_death, spliced_death
from warren.broker.queue.awaiting import Awaiting
from warren.broker.queue.deadletter import REASON_REJECTED, DeadLetter, LetterLine
from warren.broker.queue.errands import Budget, Errand
from warren.broker.queue.expiry import AGAIN_MS
from warren.broker.queue.outlet import Outlet
from warren.broker.queue.queue import Queue
from warren.broker.timers import UNSET
from warren.broker.vhost.realm import Realm
from warren.broker.world import ERROR

# What an operation has killed goes on with it, as part of its price, up to so many; a nack of 100,000 waits its turn.
AT_ONCE: Final = 100
# What one costs: by itself, for each queue it goes to, and a unit for so many bytes of its properties and its body.
_LETTER_UNITS: Final[i64] = 80
_QUEUE_UNITS: Final[i64] = 10
_PROPERTIES: Final[i64] = 8
_BODY: Final[i64] = 2048
# One that cannot be sent on, told in the log with its traceback.
_FAILED_UNITS: Final[i64] = 400


class AwaitingSettle(Awaiting):
    """It is gone from its old queue once it is durable in the new ones."""

    def __init__(self, position: i64, letter: DeadLetter) -> None:
        super().__init__(position)
        self.letter = letter

    def reached(self) -> None:
        queue = self.letter.queue
        if not queue.deleted:
            queue.backing.settle(self.letter.entry)


def bury_dead_letters(realm: Realm, maker: Outlet | None) -> None:
    """Republish what was killed, by this connection or by time. What that kills in turn stands in line."""
    letters = realm.dead_letters
    waiting = letters.waiting
    letters.maker = maker
    lines = len(letters.lines)
    left = AT_ONCE
    line: LetterLine | None = None
    while waiting:
        letter = waiting.popleft()
        if left > 0 and letters.line_of(letter.queue) is None:
            left -= 1
            if not _bury_or_plan(realm, letter):
                continue
        line = letters.stand_in_line(letter)
    if len(letters.lines) > lines:
        realm.errands.add(Burial(realm, maker))
    line = line or letters.lines.get(maker)
    if maker is not None and line is not None and line.is_crowded():
        maker.await_errand()
        line.held.append(maker)


def _bury_or_plan(realm: Realm, letter: DeadLetter) -> bool:
    """At once, or True when it goes to so many queues that it has to stand in line."""
    try:
        funeral = _next(realm, letter, 1)
        if funeral is None:
            return False
        if funeral.is_wide():
            return True
        funeral.finish()
    except Exception:
        _put_off(realm, letter)
    return False


def _next(realm: Realm, letter: DeadLetter, generation: i64) -> Funeral | None:
    funeral = letter.funeral
    if isinstance(funeral, Funeral):
        return funeral
    made = _funeral_of(realm, letter, generation)
    letter.funeral = made
    return made


def _put_off(realm: Realm, letter: DeadLetter) -> None:
    """It could not be sent on: never lost, and told once. Where too many wait already it is back in its queue."""
    queue = letter.queue
    unburied = realm.dead_letters.unburied
    letter.tries += 1
    if letter.tries == 1:
        text = f"a dead letter of queue '{queue.name}' in vhost '{queue.vhost}' could not be sent on and is tried again"
        realm.host.log(ERROR, f"{text}\n{traceback.format_exc()}")
    if unburied.is_crowded():
        # What was refused at the door is still with its publisher, who was told.
        if letter.stored and not queue.deleted:
            queue.put_back(letter.entry)
            realm.drain_soon(queue)
        return
    unburied.add(letter)
    if unburied.due == UNSET:
        realm.timers.schedule(unburied, realm.now + AGAIN_MS)


class Burial(Errand):
    """Works off one line."""

    def __init__(self, realm: Realm, maker: Outlet | None) -> None:
        super().__init__()
        self._realm = realm
        self._maker = maker
        self._line = realm.dead_letters.lines[maker]
        # The letter that has left the line and is not yet everywhere, and what it kills.
        self._letter: DeadLetter | None = None
        self._generation: i64 = 0

    def step(self, budget: Budget) -> bool:
        letters = self._realm.dead_letters
        line = self._line
        letters.maker = self._maker
        while budget.left > 0 and (line.count > 0 or self._letter is not None):
            letter = self._letter
            if letter is None:
                generation = line.next_generation()
                self._generation = generation + 1
                letter = line.take(generation)
            self._letter = None if self._bury_some(letter, budget) else letter
        if line.held and not line.is_crowded():
            held, line.held = line.held, []
            for connection in held:
                connection.errand_done()
        if line.count > 0 or self._letter is not None:
            return False
        letters.close_line(self._maker)
        return True

    def _bury_some(self, letter: DeadLetter, budget: Budget) -> bool:
        """A piece of its way; True when nothing is left of it, for now."""
        try:
            funeral = _next(self._realm, letter, self._generation)
            if letter is not self._letter:
                budget.spend(_LETTER_UNITS if funeral is None else funeral.cost())
            return funeral is None or funeral.step(budget)
        except Exception:
            # Those behind it are not to be lost with it.
            _put_off(self._realm, letter)
            budget.spend(_FAILED_UNITS)
            return True

    def failed(self) -> bool:
        """Letters do not fail it. Whatever did, they go on with the next piece."""
        return False


class Funeral(FanOut):
    """A dead letter goes on, then it leaves the queue in which it died. What it kills is of `generation`."""

    def __init__(
        self,
        realm: Realm,
        letter: DeadLetter,
        generation: i64,
        exchange: Exchange,
        message: Message,
        queues: list[Queue],
        closed: set[str | None],
    ) -> None:
        super().__init__(realm.monitor, exchange, message, queues, None)
        self._realm = realm
        self._letter = letter
        self._generation: i64 = generation
        # Names of queues that it must not come to.
        self._closed = closed
        self.each = _QUEUE_UNITS

    def cost(self) -> i64:
        """Of the letter by itself."""
        message = self.message
        properties: i64 = len(message.content) - message.body_size
        return _LETTER_UNITS + properties // _PROPERTIES + message.body_size // _BODY

    def give(self, queues: list[Queue]) -> i64:
        if self._closed:
            queues = [each for each in queues if each.name not in self._closed]
        letters = self._realm.dead_letters
        letters.generation = self._generation
        try:
            return super().give(queues)
        finally:
            letters.generation = 0

    def done(self) -> None:
        letter = self._letter
        if letter.stored:
            self._settle(letter)
        letter.queue.counters.dead_lettered += 1
        counted = self._realm.dead_letters.counted
        kind = (letter.queue.type, letter.reason)
        counted[kind] = counted.get(kind, 0) + 1
        self.exchange.published_in += 1

    def _settle(self, letter: DeadLetter) -> None:
        store = self._realm.store
        if self.said & IS_STREAMED and store.position > store.synced:
            # A stream's files are not the log's: a crash could keep one and lose the other.
            self._realm.await_position(AwaitingSettle(store.position, letter))
        else:
            letter.queue.backing.settle(letter.entry)


def _funeral_of(realm: Realm, letter: DeadLetter, generation: i64) -> Funeral | None:
    """None when there is nowhere to go: then it has left its queue."""
    queue = letter.queue
    vhost = realm.vhosts.get(queue.vhost)
    name = queue.options.dead_letter_exchange
    exchange = None if vhost is None or name is None else vhost.exchanges.get(name)
    if vhost is None or name is None or exchange is None:
        if letter.stored:
            queue.backing.settle(letter.entry)
        return None
    message = _buried_as_it_is(realm, letter, name)
    closed: set[str | None] = {queue.name}
    if message is None:
        message, headers = _buried(realm, letter, name)
        closed = been_in(headers)
    if letter.reason == REASON_REJECTED:
        closed = set()
    queues = queues_for(vhost, exchange, message)
    return Funeral(realm, letter, generation, exchange, message, queues, closed)


def _buried_as_it_is(realm: Realm, letter: DeadLetter, exchange: str) -> Message | None:
    """For its first death most of a message need not be decoded; None where it must be."""
    old = letter.entry.message
    queue = letter.queue
    place = find_headers(old.content)
    if place is None:
        return None
    expiration = old.content[place.expiration : place.expiration_end]
    key = queue.options.dead_letter_routing_key
    obituary = old.origin.obituary
    if (
        obituary is None
        or obituary.queue != queue.name
        or obituary.reason != letter.reason
        or obituary.target.exchange != exchange
        or obituary.key != key
        or obituary.expiration != expiration
    ):
        target = Origin(exchange, old.origin.keys, old.origin.hidden) if key is None else Origin(exchange, [key])
        obituary = Obituary(queue.name, letter.reason, expiration, key, target)
        old.origin.obituary = obituary
    content = spliced_death(old, place, obituary, realm.wall_seconds())
    if content is None:
        return None
    message = old.carrying(obituary.target, content)
    message.ttl = NEVER
    return message


def _buried(realm: Realm, letter: DeadLetter, exchange: str) -> tuple[Message, Table]:
    """The same body under new headers, exchange and keys; and those headers."""
    old = letter.entry.message
    queue = letter.queue
    properties = old.properties()
    headers: Table = {} if properties.headers is None else dict(properties.headers)
    record_death(headers, queue.name, letter.reason, old.origin, properties, realm.wall_seconds())
    properties.headers = headers
    # It must not expire again: the TTL of the next queue counts anew.
    properties.expiration = None
    new_key = queue.options.dead_letter_routing_key
    if new_key is None:
        origin = Origin(exchange, old.origin.keys, old.origin.hidden)
    else:
        headers.pop("CC", None)
        origin = Origin(exchange, [new_key])
    message = old.changed(origin, properties, realm.settings.frame_max)
    message.ttl = NEVER
    return message, headers
