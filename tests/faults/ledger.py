"""What a store promised: which message is in which queue, since when, until when, and what a crash may do about it.

Positions are those of the store. What happened at a position that was synced is a promise; what came later may have
happened or not, but never half, never twice, and never the later without the earlier.
"""

from __future__ import annotations

from tests.store.stored_world import Definitions, StoredWorld, body_in
from warren.broker.queue.deduplication import key_of
from warren.broker.queue.publishers import key_of as publisher_key
from warren.broker.queue.queue import Queue


class Observed(dict[str, list[tuple[str, bool]]]):
    """What queues hold after a restart: body and redelivered flag; and what they would take for a repetition."""

    def __init__(self, world: StoredWorld, names: list[str]) -> None:
        super().__init__()
        # How often each came back, as is known.
        self.returns: dict[str, dict[str, int]] = {}
        for name in names:
            entries = world.queue(name).browse(0, 1 << 30)
            self.returns[name] = {body_in(entry): entry.returns for entry in entries}
            self[name] = world.drain_flagged(name)
        self.queues = {name: world.queue(name) for name in names}


def is_known(queue: Queue, body: str) -> bool:
    """Would the queue take it for a repetition? An id is what stands before the colon, and so are name and number."""
    tag = body.split(":")[0]
    if queue.deduplication is not None:
        return queue.deduplication.has_seen(key_of(tag), queue.node.now)
    return queue.has_passed(publisher_key(tag[0]), int(tag[1:]))


# Queues that remember what they had: one by ids, one by the numbers of its publisher.
LOOKING_OUT = ("two", "three")
# One that counts how often messages come back.
COUNTING = "three"


class Violation(AssertionError):
    """The store broke a promise."""


class Item:
    """One message in one queue."""

    def __init__(self, body: str, queue: str, incarnation: str, published: int, is_transient: bool = False) -> None:
        self.body = body
        self.queue = queue
        self.incarnation = incarnation
        self.published = published
        self.settled: int | None = None
        self.is_transient = is_transient
        # Where it went as a dead letter, if it did.
        self.copies: list[Item] | None = None
        # A client had it, and the turn in which it got it is over.
        self.delivered = False
        # Where it was published, and each time that it came back.
        self.returns: list[int] = [published]
        # How often it had come back when the last turn was over.
        self.counted = 0
        # An earlier restart did not find it.
        self.is_gone = False
        # An earlier restart did not know it.
        self.is_forgotten = False

    def __repr__(self) -> str:
        return f"{self.body.split(':')[0]} in {self.queue} (published {self.published}, settled {self.settled})"


class Ledger:
    def __init__(self) -> None:
        self.items: list[Item] = []

    def in_queue(self, queue: str, incarnation: str) -> list[Item]:
        return [item for item in self.items if item.queue == queue and item.incarnation == incarnation]

    def check(self, observed: Observed, definitions: Definitions, synced: int, was_killed: bool) -> None:
        """`was_killed`: only the process ended, so that everything written is there."""
        present: dict[Item, bool] = {}
        for queue, (incarnation, _) in definitions.items():
            items = self.in_queue(queue, incarnation)
            found = observed[queue]
            _check_order(queue, items, [body for body, _ in found])
            flags = dict(found)
            for item in items:
                present[item] = item.body in flags
                _check_item(item, present[item], synced)
                _check_known(item, observed.queues[queue], present[item], synced)
                if queue == COUNTING and present[item]:
                    _check_count(item, observed.returns[queue][item.body], synced, was_killed)
                if was_killed and item.delivered and flags.get(item.body) is False:
                    raise Violation(f"{item!r} was delivered and is not marked as redelivered")
        _check_publishes_in_order(present)
        _check_settles_in_order(present, synced)
        _check_dead_letters(present)

    def after(self, observed: Observed, definitions: Definitions) -> Ledger:
        """A restart found this: from now on it is all durable, and the rest must not come back."""
        ledger = Ledger()
        for queue, (incarnation, _) in definitions.items():
            flags = dict(observed[queue])
            for old in self.in_queue(queue, incarnation):
                item = Item(old.body, queue, incarnation, 0)
                item.is_gone = old.body not in flags
                item.is_forgotten = not is_known(observed.queues[queue], old.body)
                item.delivered = flags.get(old.body, False)
                item.counted = observed.returns[queue].get(old.body, 0)
                item.returns = [0] * (1 + item.counted)
                ledger.items.append(item)
        return ledger


def _check_order(queue: str, items: list[Item], bodies: list[str]) -> None:
    if len(set(bodies)) != len(bodies):
        raise Violation(f"queue {queue} has a message twice: {[body.split(':')[0] for body in bodies]}")
    known = {item.body: index for index, item in enumerate(items)}
    places: list[int] = []
    for body in bodies:
        if body not in known:
            raise Violation(f"queue {queue} has a message that was never put there: {body[:40]!r}")
        places.append(known[body])
    if places != sorted(places):
        raise Violation(f"queue {queue} is out of order: {[body.split(':')[0] for body in bodies]}")


def _check_item(item: Item, is_present: bool, synced: int) -> None:
    if is_present and item.is_gone:
        raise Violation(f"{item!r} was not there after an earlier restart and came back")
    if is_present and item.is_transient:
        raise Violation(f"{item!r} is transient and survived")
    if is_present and item.settled is not None and item.settled <= synced:
        raise Violation(f"{item!r} came back; synced {synced}")
    is_promised = item.published <= synced and item.settled is None and not item.is_transient and not item.is_gone
    if is_promised and not is_present:
        raise Violation(f"{item!r} was lost; synced {synced}")


def _check_count(item: Item, count: int, synced: int, was_killed: bool) -> None:
    promised = item.counted if was_killed else sum([position <= synced for position in item.returns[1:]])
    if not item.is_transient and not promised <= count < len(item.returns):
        raise Violation(f"{item!r} came back at {item.returns[1:]} and counts {count}; synced {synced}")


def _check_known(item: Item, queue: Queue, is_present: bool, synced: int) -> None:
    """Only in queues that look out for it: as durable as the message, and as long as there is one."""
    if item.queue not in LOOKING_OUT:
        return
    knows = is_known(queue, item.body)
    if item.is_transient:
        if knows and queue.deduplication is not None:
            raise Violation(f"{item!r} is transient and known; synced {synced}")
        return
    if not knows and (is_present or (item.published <= synced and not item.is_forgotten)):
        raise Violation(f"{item!r} would be taken for a new one; synced {synced}")
    if knows and item.is_forgotten:
        raise Violation(f"{item!r} was not known after an earlier restart, and is again")
    if knows and not is_present and item.settled is None and not item.is_gone:
        raise Violation(f"{item!r} is not there, and would not be taken again; synced {synced}")


def _check_publishes_in_order(present: dict[Item, bool]) -> None:
    """The log is cut somewhere or nowhere: nothing survives that was published after something lost."""
    lost: Item | None = None
    kept = [item for item in present if item.settled is None and not item.is_transient and not item.is_gone]
    for item in sorted(kept, key=lambda one: one.published):
        if not present[item]:
            lost = item
        elif lost is not None and lost.published < item.published:
            raise Violation(f"{item!r} survived, though {lost!r} did not")


def _check_settles_in_order(present: dict[Item, bool], synced: int) -> None:
    kept: Item | None = None
    settled = [item for item in present if item.settled is not None and item.published <= synced and not item.is_gone]
    for item in sorted(settled, key=lambda one: one.settled or 0):
        if item.is_transient:
            continue
        if present[item]:
            kept = item
        elif kept is not None and (kept.settled or 0) < (item.settled or 0):
            raise Violation(f"{item!r} stayed settled, though {kept!r} did not")


def _check_dead_letters(present: dict[Item, bool]) -> None:
    for item, is_present in present.items():
        if item.copies is None or is_present or item.is_transient:
            continue
        for copy in item.copies:
            if copy in present and not present[copy] and copy.settled is None and _survived_publish(item, present):
                raise Violation(f"dead letter {item!r} is in neither place")


def _survived_publish(item: Item, present: dict[Item, bool]) -> bool:
    """Was its own publish durable? Something published later is there, or it is a promise."""
    return any(is_there and other.published >= item.published for other, is_there in present.items())
