"""Dead letters go to the dead-letter exchange of their queue, with their story in x-death.

A message leaves its old queue only once it is in the new ones: never in neither place.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.broker.message import NEVER, Message, Origin
from warren.broker.publish.republish import IS_STREAMED, queues_for, republish_to
from warren.broker.publish.x_death import is_cycle, record_death
from warren.broker.queue.awaiting import Awaiting
from warren.broker.queue.deadletter import REASON_REJECTED, DeadLetter
from warren.broker.vhost.realm import Realm


class AwaitingSettle(Awaiting):
    """It is gone from its old queue once it is durable in the new ones."""

    def __init__(self, position: i64, letter: DeadLetter) -> None:
        super().__init__(position)
        self.letter = letter

    def reached(self) -> None:
        queue = self.letter.queue
        if not queue.deleted:
            queue.backing.settle(self.letter.entry)


def bury_dead_letters(realm: Realm) -> None:
    """Republish all that wait, and what that kills in turn."""
    waiting = realm.dead_letters.waiting
    while waiting:
        letter = waiting.popleft()
        is_streamed = _republish(realm, letter)
        if not letter.stored:
            continue
        store = realm.store
        if is_streamed and store.position > store.synced:
            realm.await_position(AwaitingSettle(store.position, letter))
        else:
            letter.queue.backing.settle(letter.entry)


def _republish(realm: Realm, letter: DeadLetter) -> bool:
    """True when it went to a stream, whose files are not the log's: a crash could keep one and lose the other."""
    queue = letter.queue
    vhost = realm.vhosts.get(queue.vhost)
    name = queue.options.dead_letter_exchange
    if vhost is None or name is None:
        return False
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        return False
    queue.counters.dead_lettered += 1
    counted = realm.dead_letters.counted
    kind = (queue.type, letter.reason)
    counted[kind] = counted.get(kind, 0) + 1
    message = _buried(realm, letter, name)
    queues = queues_for(vhost, exchange, message)
    if letter.reason != REASON_REJECTED:
        headers = message.properties().headers
        queues = [each for each in queues if headers is None or not is_cycle(each.name, headers)]
    return republish_to(vhost, exchange, message, queues) & IS_STREAMED != 0


def _buried(realm: Realm, letter: DeadLetter, exchange: str) -> Message:
    """The same body under new headers, exchange and keys."""
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
    return message
