"""Judges a history: jepsen's total-queue, and what else a broker that confirms and flags must keep.

I1 what was confirmed is settled by a client or still there at the end; I2 nothing appears that was not sent, or
otherwise than sent; I3 whoever gets a message a second time is told; I4 what was settled, with an answer behind it,
never comes back; I5 first deliveries keep the order of their publisher, and so does what is left at the end;
I6 every publish is answered at most once and only if it was made. Definitions that were answered are there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.faults.history import History, Op

Key = tuple[str, str]


@dataclass
class Verdict:
    attempted: int = 0
    confirmed: int = 0
    nacked: int = 0
    delivered: int = 0
    settled: int = 0
    fenced: int = 0
    definitions: int = 0
    lost: list[Key] = field(default_factory=list)
    unexpected: list[Key] = field(default_factory=list)
    unflagged: list[Key] = field(default_factory=list)
    resurrected: list[Key] = field(default_factory=list)
    disordered: list[Key] = field(default_factory=list)
    misconfirmed: list[Key] = field(default_factory=list)
    undefined: list[Key] = field(default_factory=list)

    def violations(self) -> dict[str, list[Key]]:
        names = ("lost", "unexpected", "unflagged", "resurrected", "disordered", "misconfirmed", "undefined")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def is_good(self) -> bool:
        return not self.violations()

    def add(self, other: Verdict) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def summary(self) -> dict[str, int]:
        return {name: value if isinstance(value, int) else len(value) for name, value in vars(self).items()}


def check(history: History, dead_letters: dict[str, str] | None = None) -> Verdict:
    """`dead_letters` names for a queue the one that its rejected messages move to."""
    checker = _Checker(dead_letters or {})
    for op in history.ops:
        checker.take(op)
    return checker.finish()


def order_of(identity: str) -> tuple[str, int]:
    """An id is PUBLISHER-NUMBER; the numbers of a publisher ascend, over all its connections."""
    publisher, _, number = identity.rpartition("-")
    return publisher, int(number)


class _Checker:
    def __init__(self, dead_letters: dict[str, str]) -> None:
        self.verdict = Verdict()
        self._dead_letters = dead_letters
        self._publishes: dict[tuple[str, int], Op] = {}
        self._targets: dict[str, tuple[str, ...]] = {}
        # By channel: numbers that have had no answer yet, in order.
        self._open: dict[str, dict[int, None]] = {}
        self._promised: dict[Key, None] = {}
        self._crashes = 0
        self._first_seen: dict[Key, int] = {}
        self._unflagged: Counter[Key] = Counter()
        self._acked: set[Key] = set()
        self._rejects: Counter[Key] = Counter()
        self._settlements: dict[str, list[Key]] = {}
        self._fenced_up_to: Counter[str] = Counter()
        self._fenced: Counter[Key] = Counter()
        self._newest: dict[tuple[str, str, str], int] = {}
        self._is_draining = False
        # What is known of queues that come and go: True is there, False gone, None being changed.
        self._definitions: dict[str, bool | None] = {}

    def take(self, op: Op) -> None:
        handler = getattr(self, f"_on_{op.kind}", None)
        if handler is not None:
            handler(op)

    # -- publishers ------------------------------------------------------------------------------------------------

    def _on_publish(self, op: Op) -> None:
        self.verdict.attempted += 1
        self._publishes[(op.channel, op.tag)] = op
        self._targets[op.identity] = op.queues
        self._open.setdefault(op.channel, {})[op.tag] = None

    def _answered(self, op: Op) -> list[int]:
        waiting = self._open.get(op.channel, {})
        tags = [tag for tag in waiting if tag == op.tag or (op.multiple and tag < op.tag)]
        if not tags:
            self.verdict.misconfirmed.append((op.channel, f"{op.kind} {op.tag}"))
        for tag in tags:
            del waiting[tag]
        return tags

    def _on_confirm(self, op: Op) -> None:
        for tag in self._answered(op):
            publish = self._publishes[(op.channel, tag)]
            self.verdict.confirmed += 1
            for queue in publish.queues:
                self._promised[(queue, publish.identity)] = None

    def _on_nack(self, op: Op) -> None:
        self.verdict.nacked += len(self._answered(op))

    def _on_return(self, op: Op) -> None:
        if self._targets.get(op.identity, ("?",)):
            self.verdict.unexpected.append((op.channel, f"return of {op.identity}"))

    # -- consumers -------------------------------------------------------------------------------------------------

    def _on_deliver(self, op: Op) -> None:
        key = (op.queue, op.identity)
        self.verdict.delivered += 1
        if not op.intact or not self._may_hold(op.queue, op.identity):
            self.verdict.unexpected.append(key)
            return
        if 0 < self._chances(key) <= self._fenced[key]:
            self.verdict.resurrected.append(key)
        self._first_seen.setdefault(key, self._crashes)
        if not op.redelivered:
            self._unflagged[key] += 1
            if self._unflagged[key] > self._chances(key) or self._was_seen_before_crash(key):
                self.verdict.unflagged.append(key)
        self._check_order(op, key)

    def _was_seen_before_crash(self, key: Key) -> bool:
        """Within one life of the broker, what one consumer was sent first may be noted after what another got."""
        return self._first_seen[key] < self._crashes and not self._is_for_dead_letters(key[0])

    def _is_for_dead_letters(self, queue: str) -> bool:
        return queue in self._dead_letters.values()

    def _may_hold(self, queue: str, identity: str) -> bool:
        targets = self._targets.get(identity, ())
        return queue in targets or any(self._dead_letters.get(target) == queue for target in targets)

    def _chances(self, key: Key) -> int:
        """How often a message may come new: once for its publish, or as often as it was rejected elsewhere."""
        queue, identity = key
        sources = [source for source, target in self._dead_letters.items() if target == queue]
        if not sources:
            return 1
        return sum(self._rejects[(source, identity)] for source in sources)

    def _check_order(self, op: Op, key: Key) -> None:
        if self._is_for_dead_letters(op.queue) or (op.redelivered and not self._is_draining):
            return
        publisher, number = order_of(op.identity)
        place = (publisher, op.queue, op.channel)
        if number < self._newest.get(place, -1):
            self.verdict.disordered.append(key)
        self._newest[place] = number

    def _settled(self, op: Op) -> Key:
        key = (op.queue, op.identity)
        self.verdict.settled += 1
        self._settlements.setdefault(op.channel, []).append(key)
        return key

    def _on_ack(self, op: Op) -> None:
        self._acked.add(self._settled(op))

    def _on_reject(self, op: Op) -> None:
        self._rejects[self._settled(op)] += 1

    def _on_fence(self, op: Op) -> None:
        done = self._settlements.get(op.channel, [])[self._fenced_up_to[op.channel] : op.tag]
        self._fenced_up_to[op.channel] = max(op.tag, self._fenced_up_to[op.channel])
        self._fenced.update(done)
        self.verdict.fenced += len(done)

    def _on_crash(self, op: Op) -> None:
        self._crashes += 1

    def _on_draining(self, op: Op) -> None:
        self._is_draining = True

    # -- definitions -----------------------------------------------------------------------------------------------

    def _on_declare(self, op: Op) -> None:
        self._definitions[op.queue] = None

    def _on_delete(self, op: Op) -> None:
        self._definitions[op.queue] = None

    def _on_declared(self, op: Op) -> None:
        self._definitions[op.queue] = True
        self.verdict.definitions += 1

    def _on_deleted(self, op: Op) -> None:
        self._definitions[op.queue] = False
        self.verdict.definitions += 1

    def _on_present(self, op: Op) -> None:
        self._looked_up(op, True)

    def _on_absent(self, op: Op) -> None:
        self._looked_up(op, False)

    def _looked_up(self, op: Op, is_there: bool) -> None:
        if self._definitions.get(op.queue) not in (None, is_there):
            self.verdict.undefined.append((op.queue, "present" if is_there else "absent"))
        self._definitions[op.queue] = is_there

    # -- the end ---------------------------------------------------------------------------------------------------

    def finish(self) -> Verdict:
        for key in self._promised:
            if not self._is_accounted_for(key):
                self.verdict.lost.append(key)
        return self.verdict

    def _is_accounted_for(self, key: Key) -> bool:
        """Acked at last, here or where it moved to; draining acks all there is."""
        queue, identity = key
        if key in self._acked:
            return True
        if self._rejects[key] == 0:
            return False
        target = self._dead_letters.get(queue)
        return target is None or (target, identity) in self._acked
