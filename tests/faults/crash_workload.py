"""What a broker does to its store, one small step at a time, with a ledger of what it may rely on.

Steps of the thread (sync, chore) are split where a crash or the loop may come between. Every choice is drawn from one
seeded source, so that a workload is its seed.
"""

from __future__ import annotations

from random import Random

from tests.faults.ledger import COUNTING, Item, Ledger
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld, body_in
from warren.broker.publish.burial import bury_dead_letters
from warren.broker.queue.entry import Entry
from warren.store.chores import Chore, SyncJob

QUEUES = ("one", "two", "three")
DEAD = "dead"
# The steps that short workloads consist of, each of all.
STEPS = (
    "publish to one queue",
    "publish to two queues",
    "publish to three queues",
    "ack",
    "reject",
    "purge",
    "delete",
    "redeclare",
    "roll",
    "compact",
    "sync",
    "chore",
)
# Long ones also do these; several times as often as they stand here.
MORE_STEPS = (
    "publish to one queue",
    "publish to two queues",
    "publish transient",
    "ack",
    "ack",
    "ack what is held",
    "hold",
    "hold",
    "requeue",
    "requeue",
    "begin sync",
    "end sync",
    "take chore",
    "run chore",
    "sync",
    "chore",
    "chore",
)
# What the loop does while the thread is at work.
LOOP_STEPS = (
    "publish to one queue",
    "publish to two queues",
    "ack",
    "ack what is held",
    "requeue",
    "reject",
    "redeclare",
    "purge",
)
RARE_STEPS = ("purge", "delete", "redeclare", "publish big")


class Workload:
    def __init__(self, world: StoredWorld, ledger: Ledger, seed: int, prefix: str = "m") -> None:
        self.world = world
        self.ledger = ledger
        self.random = Random(seed)
        self.done: list[str] = []
        self._prefix = prefix
        self._count = 0
        self._held: list[tuple[Item, Entry]] = []
        # In this turn.
        self._returned: list[Item] = []
        self._job: SyncJob | None = None
        self._chore: Chore | None = None
        self._has_chore_run = False
        self._in_thread = False

    @staticmethod
    def begin(disk: SimulatedDisk, seed: int, segment_bytes: int = 1024) -> Workload:
        """Four queues with something in them, all of it durable."""
        workload = Workload(StoredWorld(disk, None, segment_bytes, units=2), Ledger(), seed)
        for name in (*QUEUES, DEAD):
            workload._declare(name)
        for step in ("publish to three queues", "publish to one queue", "hold", "publish to two queues", "sync"):
            workload.step(step)
        return workload

    def step(self, name: str) -> None:
        self.done.append(name)
        self._do(name)
        if name not in ("begin sync", "end sync", "take chore", "run chore", "roll", "compact"):
            self.end_turn()

    def random_step(self) -> None:
        steps = RARE_STEPS if self.random.random() < 0.08 else (*STEPS[8:], *MORE_STEPS)
        self.step(self.random.choice(steps))

    def loop_step(self) -> None:
        """Between two operations of the thread the loop may do anything that does not wait for the thread."""
        if self._in_thread and self.random.random() < 0.3:
            self._in_thread = False
            self.step(self.random.choice(LOOP_STEPS))
            self._in_thread = True

    def end_turn(self) -> None:
        self.world.flush()
        for item, _ in self._held:
            item.delivered = True
        for item in self._returned:
            item.counted = len(item.returns) - 1
        self._returned.clear()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _do(self, name: str) -> None:
        world = self.world
        if name.startswith("publish"):
            self._publish(name)
        elif name == "ack":
            self._ack()
        elif name == "ack what is held":
            self._ack_held()
        elif name == "hold":
            self._hold()
        elif name == "requeue":
            self._requeue()
        elif name == "reject":
            self._reject()
        elif name == "purge":
            self._purge()
        elif name == "delete":
            self._delete()
        elif name == "redeclare":
            self._redeclare()
        elif name == "roll":
            world.roll()
        elif name == "compact":
            self._compact()
        elif name == "sync":
            self._finish_thread()
            world.sync()
        elif name == "begin sync":
            self._begin_sync()
        elif name == "end sync":
            self._end_sync()
        elif name == "chore":
            self._finish_thread()
            world.chore()
        elif name == "take chore":
            self._take_chore()
        elif name == "run chore":
            self._run_chore()
        else:
            raise ValueError(name)

    def _existing(self) -> list[str]:
        return [name for name in QUEUES if name in self.world.vhost.queues]

    def _some_queue(self) -> str:
        return self.random.choice([*self._existing(), DEAD])

    def _publish(self, step: str) -> None:
        existing = self._existing()
        wanted = {"two": 2, "three": 3}.get(step.split()[2] if len(step.split()) > 2 else "", 1)
        names = sorted(self.random.sample(existing, min(wanted, len(existing))))
        is_transient = step == "publish transient"
        self._count += 1
        size = self.random.choice((10, 60, 200, 700)) if step != "publish big" else self.random.randint(1500, 9000)
        body = f"{self._prefix}{self._count}:" + "0123456789abcdef"[self._count % 16] * size
        if not names:
            return
        self.world.publish(body, *names, persistent=not is_transient, number=self._count)
        position = self.world.store.position
        for name in names:
            self._note(body, name, position, is_transient)

    def _note(self, body: str, name: str, position: int, is_transient: bool = False) -> Item:
        item = Item(body, name, self.world.queue(name).incarnation, position, is_transient)
        self.ledger.items.append(item)
        return item

    def _take(self, name: str) -> tuple[Item, Entry] | None:
        entry = self.world.get(name)
        if entry is None:
            return None
        queue = self.world.queue(name)
        body = body_in(entry)
        for item in reversed(self.ledger.items):
            if item.body == body and item.queue == name and item.incarnation == queue.incarnation:
                return item, entry
        raise AssertionError(f"queue {name} gave {body[:40]!r}, which was never put there")

    def _ack(self) -> None:
        taken = self._take(self._some_queue())
        if taken is not None:
            self._ack_one(*taken)

    def _ack_one(self, item: Item, entry: Entry) -> None:
        entry.queue.ack(entry)
        item.settled = self.world.store.position

    def _drop_dead_holds(self) -> None:
        self._held = [(item, entry) for item, entry in self._held if not entry.is_gone()]

    def _hold(self) -> None:
        taken = self._take(self._some_queue())
        if taken is not None:
            self._held.append(taken)

    def _pop_held(self) -> tuple[Item, Entry] | None:
        self._drop_dead_holds()
        return self._held.pop(self.random.randrange(len(self._held))) if self._held else None

    def _ack_held(self) -> None:
        held = self._pop_held()
        if held is not None:
            self._ack_one(*held)

    def _requeue(self) -> None:
        held = self._pop_held()
        if held is not None:
            held[1].queue.requeue([held[1]])
            held[0].returns.append(self.world.store.position)
            self._returned.append(held[0])

    def _reject(self) -> None:
        existing = self._existing()
        taken = self._take(self.random.choice(existing)) if existing else None
        if taken is None:
            return
        item, entry = taken
        entry.queue.reject(entry)
        bury_dead_letters(self.world.node, None)
        position = self.world.store.position
        item.settled = position
        if entry.queue.options.dead_letter_exchange is not None:
            item.copies = [self._note(item.body, DEAD, position, item.is_transient)]

    def _purge(self) -> None:
        name = self._some_queue()
        self._drop_dead_holds()
        held = {item for item, _ in self._held}
        self.world.queue(name).backing.settle_to(1 << 62, 1 << 62)
        self._settle_all(name, held)

    def _settle_all(self, name: str, spared: set[Item]) -> None:
        position = self.world.store.position
        for item in self.ledger.in_queue(name, self.world.queue(name).incarnation):
            if item not in spared and item.settled is None:
                item.settled = position

    def _delete(self) -> None:
        existing = self._existing()
        if existing:
            self.world.delete(self.random.choice(existing))

    def _redeclare(self) -> None:
        name = self.random.choice(QUEUES)
        if name in self.world.vhost.queues:
            self.world.delete(name)
        self._declare(name)

    def _declare(self, name: str) -> None:
        """One of them has somewhere for its dead to go; two would bring a message there twice. Another looks out for
        ids, the last counts what comes back. All have publishers that number what they publish, one for each life of
        the store."""
        if name == "one":
            self.world.declare(name, dead_letter_exchange="", dead_letter_routing_key=DEAD)
        elif name == "two":
            self.world.declare(name, message_deduplication=True, cache_size=10_000)
        elif name == COUNTING:
            self.world.declare(name, queue_type="quorum", delivery_limit=-1)
        else:
            self.world.declare(name)

    def _compact(self) -> None:
        segments = self.world.compactable()
        if segments:
            self._finish_thread()
            self.world.begin_compaction(self.random.choice(segments))
            while self.world.store.upkeep.compaction.is_under_way() and self.random.random() < 0.9:
                # Otherwise it goes on in between other things.
                self.world.chore()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _begin_sync(self) -> None:
        if self._job is None and self._chore is None:
            self._job = self.world.store.begin_sync()

    def _end_sync(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            self._in_thread = True
            job.run(self.world.disk)
            self._in_thread = False
            self.world.sync_done(job)

    def _take_chore(self) -> None:
        if self._job is None and self._chore is None:
            self._chore = self.world.store.next_chore()
            self._has_chore_run = False

    def _run_chore(self) -> None:
        """First its work, then the news of it."""
        if self._chore is None:
            return
        if not self._has_chore_run:
            self._in_thread = True
            self._chore.run(self.world.disk)
            self._in_thread = False
            self._has_chore_run = True
            return
        chore, self._chore = self._chore, None
        self.world.store.chore_done(chore)

    def _finish_thread(self) -> None:
        self._end_sync()
        while self._chore is not None:
            self._run_chore()
