"""Crash states of streams: as crash_states.py has them for queues, with what a stream promises instead of a queue.

    python -m tests.faults.stream_states --states 100000 --seed 7

What was synced is there under its offset, without a gap; what a reader was shown is never another message later; what
retention has not given up stays. `--break` sabotages the disk or the workload: then a violation must be found.
"""

from __future__ import annotations

import argparse
import sys
from random import Random

from tests.faults import sabotage
from tests.faults.crash_states import Found, say
from tests.faults.ledger import Violation, is_known
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import Definitions, StoredWorld
from warren.amqp.frames import body_of
from warren.broker.stream.stream import Stream
from warren.store.chores import Chore, SyncJob

# One keeps everything, the other what fits. One knows messages again by numbers, the other by ids.
STREAMS: dict[str, dict[str, object]] = {
    "long": {"queue_type": "stream", "stream_max_segment_size_bytes": 700},
    "short": {
        "queue_type": "stream",
        "stream_max_segment_size_bytes": 400,
        "max_length_bytes": 2500,
        "message_deduplication": True,
        "cache_size": 10_000,
    },
}
QUEUE = "queue"
STEPS = (
    "publish",
    "publish",
    "publish",
    "publish to all",
    "publish big",
    "read",
    "sync",
    "sync",
    "begin sync",
    "end sync",
    "chore",
    "chore",
    "take chore",
    "run chore",
    "redeclare",
)
LOOP_STEPS = ("publish", "publish to all", "read", "publish big")
KINDS = (
    sabotage.NO_FSYNC,
    sabotage.NO_DIRSYNC,
    sabotage.NO_CRC,
    sabotage.ACK_BEFORE_WRITE,
    sabotage.NO_IDS,
    sabotage.NO_GROUPS,
)
Records = list[tuple[int, str]]


class Story:
    """One stream since its declaration: every record, with the store's position when it was appended."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.records: dict[int, tuple[str, int]] = {}
        # What came before the last restart, and whether that knew it.
        self.known: dict[str, bool] = {}
        # What retention has given up may be gone, or still be there.
        self.floor = 0
        # What a reader was shown.
        self.shown = -1

    def check_known(self, stream: Stream, found: Records, synced: int) -> None:
        """The stream knows what it has and had, and takes again what it lost."""
        there = {body for _, body in found}
        for offset, (body, position) in self.records.items():
            knows = is_known(stream, body)
            if body in there or position <= synced:
                if not knows and self.known.get(body, True):
                    raise Violation(f"{offset} of {stream.name} would be taken for a new one; synced {synced}")
            elif knows and offset >= self.floor:
                raise Violation(f"{offset} of {stream.name} is gone, and would not be taken again; synced {synced}")

    def check(self, name: str, found: Records, synced: int) -> None:
        offsets = [offset for offset, _ in found]
        if offsets != list(range(offsets[0], offsets[0] + len(offsets))) if offsets else False:
            raise Violation(f"stream {name} has gaps: {offsets}")
        for offset, body in found:
            if self.records.get(offset, ("", 0))[0] != body:
                raise Violation(f"stream {name} has another message at {offset}: {body[:40]!r}")
        for offset, (_, position) in self.records.items():
            is_promised = position <= synced or offset <= self.shown
            if is_promised and offset >= self.floor and offset not in offsets:
                raise Violation(f"stream {name} lost {offset}; synced {synced}, shown {self.shown}")

    def after(self, found: Records, stream: Stream) -> Story:
        """A restart found this, and it is all durable now."""
        story = Story(self.incarnation)
        story.known = {body: is_known(stream, body) for body, _ in self.records.values()}
        story.floor = found[0][0] if found else 0
        story.records = {offset: record for offset, record in self.records.items() if offset < story.floor}
        story.records.update({offset: (body, 0) for offset, body in found})
        return story


class Workload:
    def __init__(self, world: StoredWorld, stories: dict[str, Story], seed: int, prefix: str) -> None:
        self.world = world
        self.stories = stories
        self.random = Random(seed)
        self.done: list[str] = []
        self._prefix = prefix
        self._count = 0
        self._job: SyncJob | None = None
        self._chore: Chore | None = None
        self._in_thread = False

    @staticmethod
    def begin(disk: SimulatedDisk, seed: int) -> Workload:
        workload = Workload(StoredWorld(disk, None, 1024), {}, seed, "m")
        workload.world.declare(QUEUE)
        for name in STREAMS:
            workload._declare(name)
        workload.step("publish to all")
        workload.step("sync")
        return workload

    def step(self, name: str) -> None:
        self.done.append(name)
        self._do(name)
        if name not in ("begin sync", "end sync", "take chore", "run chore"):
            self.world.flush()
        for name, story in self.stories.items():
            story.floor = max(story.floor, int(self.stream(name).log.first_offset))

    def random_step(self) -> None:
        name = self.random.choice(STEPS)
        if name != "redeclare" or self.random.random() < 0.2:
            self.step(name)

    def loop_step(self) -> None:
        """What the loop does between two operations of the thread."""
        if self._in_thread and self.random.random() < 0.3:
            self._in_thread = False
            self.step(self.random.choice(LOOP_STEPS))
            self._in_thread = True

    def stream(self, name: str) -> Stream:
        found = self.world.queue(name)
        assert isinstance(found, Stream)
        return found

    def _declare(self, name: str) -> None:
        self.world.declare(name, True, **STREAMS[name])
        self.stories[name] = Story(self.world.queue(name).incarnation)

    def _do(self, name: str) -> None:
        if name.startswith("publish"):
            self._publish(name)
        elif name == "read":
            self._read()
        elif name == "sync":
            self._finish_thread()
            self.world.sync()
        elif name == "begin sync" and self._job is None and self._chore is None:
            self._job = self.world.store.begin_sync()
        elif name == "end sync":
            self._end_sync()
        elif name == "chore":
            self._finish_thread()
            self.world.chore()
        elif name == "take chore" and self._job is None and self._chore is None:
            self._chore = self.world.store.next_chore()
        elif name == "run chore":
            self._run_chore()
        elif name == "redeclare":
            chosen = self.random.choice(list(STREAMS))
            self.world.delete(chosen)
            self._declare(chosen)

    def _publish(self, step: str) -> None:
        names = list(STREAMS) if step == "publish to all" else [self.random.choice(list(STREAMS))]
        self._count += 1
        size = self.random.randint(600, 5000) if step == "publish big" else self.random.choice((5, 60, 250))
        body = f"{self._prefix}{self._count}:" + "0123456789abcdef"[self._count % 16] * size
        to = [*names, QUEUE] if step == "publish to all" else names
        offsets = {name: int(self.stream(name).log.next_offset) for name in names}
        self.world.publish(body, *to, persistent=self.random.random() < 0.5, number=self._count)
        for name, offset in offsets.items():
            self.stories[name].records[offset] = (body, int(self.world.store.position))

    def _read(self) -> None:
        """Somebody reads all there is to read, and remembers it."""
        for name, story in self.stories.items():
            found = records_of(self.stream(name))
            story.check(name, found, -1)
            story.shown = max([story.shown, *[offset for offset, _ in found]])

    def _end_sync(self) -> None:
        if self._job is not None:
            job, self._job = self._job, None
            self._in_thread = True
            job.run(self.world.disk)
            self._in_thread = False
            self.world.sync_done(job)

    def _run_chore(self) -> None:
        if self._chore is not None:
            chore, self._chore = self._chore, None
            self._in_thread = True
            chore.run(self.world.disk)
            self._in_thread = False
            self.world.store.chore_done(chore)

    def _finish_thread(self) -> None:
        self._end_sync()
        self._run_chore()


def records_of(stream: Stream) -> Records:
    cursor = stream.log.cursor(0)
    found: Records = []
    while (record := cursor.next()) is not None:
        found.append((int(record.offset), body_of(record.wire[record.suffix_size :]).decode()))
    cursor.close()
    return found


def unlimited(definitions: Definitions) -> Definitions:
    """Retention begins with the restart, which is no reason to call anything lost."""
    limits = ("x-max-length-bytes",)
    return {
        name: (incarnation, {key: value for key, value in arguments.items() if key not in limits})
        for name, (incarnation, arguments) in definitions.items()
    }


class Explorer:
    def __init__(self, seed: int, broken: str = "") -> None:
        self.seed = seed
        self.broken = broken
        self.states = 0
        self._random = Random(seed)

    def explore(self, number: int, steps: int = 40, share: float = 0.5, deeper: float = 0.05) -> None:
        """A workload in which the given share of the disk's operations sees a crash."""
        disk = sabotage.new_disk(self.broken)
        workload = Workload.begin(disk, self.seed * 1_000_003 + number)

        def before(what: str) -> None:
            if self._random.random() < share:
                self._crash(workload, f"seed {self.seed}, workload {number}, before {what}", deeper)
            workload.loop_step()

        disk.before = before
        for _ in range(steps):
            workload.random_step()
            self._sabotage(workload.world)

    def _sabotage(self, world: StoredWorld) -> None:
        if self.broken == sabotage.ACK_BEFORE_WRITE:
            world.store.synced = world.store.position

    def _crash(self, workload: Workload, place: str, deeper: float) -> None:
        disk, world = workload.world.disk, workload.world
        for way in range(4):
            image = disk.kill() if way == 0 else disk.lose_all() if way == 1 else disk.crash(self._random)
            files = sabotage.as_read(self.broken, image.files())
            try:
                self._check(files, workload.stories, world.definitions, world.store.synced)
                if self._random.random() < deeper:
                    self._crash_in_recovery(files, workload.stories, world.definitions, world.store.synced)
                    self._crash_again(files, workload.stories, world.definitions)
            except Exception as error:
                story = ", ".join(workload.done[-12:])
                raise Found(f"{place}, way {way}, after {story}: {error!r}") from error

    def _check(self, files: dict[str, bytes], stories: dict[str, Story], definitions: Definitions, synced: int) -> None:
        self.states += 1
        world = StoredWorld(SimulatedDisk(files), unlimited(definitions), 1024)
        for name, story in stories.items():
            if name in definitions and definitions[name][0] == story.incarnation:
                found = world.queue(name)
                assert isinstance(found, Stream)
                records = records_of(found)
                story.check(name, records, synced)
                story.check_known(found, records, synced)

    def _crash_in_recovery(
        self, files: dict[str, bytes], stories: dict[str, Story], definitions: Definitions, synced: int
    ) -> None:
        disk = sabotage.new_disk(self.broken, files)

        def before(what: str) -> None:
            image = sabotage.as_read(self.broken, disk.crash(self._random).files())
            self._check(image, stories, definitions, synced)

        disk.before = before
        StoredWorld(disk, definitions, 1024)

    def _crash_again(self, files: dict[str, bytes], stories: dict[str, Story], definitions: Definitions) -> None:
        """Recover, work on, crash once more: what was found stays, and no offset is given twice."""
        disk = sabotage.new_disk(self.broken, files)
        world = StoredWorld(disk, definitions, 1024)
        again: dict[str, Story] = {}
        for name, story in stories.items():
            if name in definitions and definitions[name][0] == story.incarnation:
                found = world.queue(name)
                assert isinstance(found, Stream)
                again[name] = story.after(records_of(found), found)
        if len(again) < len(stories):
            return
        workload = Workload(world, again, self._random.getrandbits(32), "n")
        for _ in range(self._random.randint(1, 10)):
            workload.random_step()
            self._sabotage(world)
            image = sabotage.as_read(self.broken, disk.crash(self._random).files())
            self._check(image, again, world.definitions, world.store.synced)


def run(states: int, seed: int, broken: str = "") -> int:
    """Gives the number of states; raises Found at the first violation."""
    explorer = Explorer(seed, broken)
    number = 0
    while explorer.states < states:
        explorer.explore(number)
        number += 1
    return explorer.states


def main() -> None:
    parser = argparse.ArgumentParser(description="Crash streams at every disk operation and check what is left.")
    parser.add_argument("--states", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=Random().getrandbits(31))
    parser.add_argument("--break", dest="broken", default="", choices=["", *KINDS])
    options = parser.parse_args()
    say(f"seed {options.seed}")
    try:
        states = run(options.states, options.seed, options.broken)
    except Found as found:
        say(f"VIOLATION: {found}")
        sys.exit(1)
    say(f"{states} states, 0 violations, seed {options.seed}")


if __name__ == "__main__":
    main()
