"""A node whose queues are kept on a simulated disk, with everything so small that a few messages fill segments.

Queues are used as channels use them, without connections; the thread that syncs is played by `sync` and `chore`.
Starting one on the disk that another left is a restart.
"""

from __future__ import annotations

from random import Random

from tests.broker.still_world import StillHost
from tests.store.simulated_disk import SimulatedDisk
from warren.amqp.fields import table_of
from warren.amqp.frames import body_of, content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.message import Message, Origin
from warren.broker.node import Node
from warren.broker.queue.entry import Entry
from warren.broker.queue.errands import UNITS
from warren.broker.queue.outcome import FAILED, REFUSED
from warren.broker.queue.publishers import key_of
from warren.broker.queue.queue import Queue
from warren.broker.settings import Settings
from warren.broker.vhost.vhost import VHost
from warren.store.chores import Chore, DeleteChore, SyncJob
from warren.store.log import LogStore
from warren.store.recovery import recover
from warren.store.segment import Segment
from warren.store.upkeep import NOTES_AT_ONCE

START = 1_700_000_000_000
FRAME_MAX = 131072

# What a queue was declared with: its incarnation and its arguments.
Definitions = dict[str, tuple[str, dict[str, object]]]


class LoggingHost(StillHost):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def token(self) -> str:
        return f"token-{Random().getrandbits(64):016x}"

    def log(self, level: int, text: str) -> None:
        self.lines.append(text)


class QueueRecorder:
    """The definitions of durable queues, durable from commit on: at the end of the turn."""

    def __init__(self, committed: Definitions) -> None:
        self.committed = committed
        self._now = dict(committed)

    def put(self, kind: str, key: tuple[str, ...], value: dict[str, object]) -> None:
        if kind == "queue":
            arguments = value["arguments"]
            assert isinstance(arguments, dict)
            self._now[key[1]] = (str(value["incarnation"]), arguments)

    def delete(self, kind: str, key: tuple[str, ...]) -> None:
        if kind == "queue":
            self._now.pop(key[1], None)

    def commit(self) -> None:
        if self._now != self.committed:
            self.committed = dict(self._now)


class StoredWorld:
    def __init__(
        self,
        disk: SimulatedDisk,
        definitions: Definitions | None = None,
        segment_bytes: int = 2048,
        head_entries: int = 3,
        load_rows: int = 2,
        now: int = START,
        units: int = UNITS,
        pieces: int = 4,
        forgets: bool = True,
    ) -> None:
        """With few `units` a turn, what is done in pieces is interrupted as well. A segment is rewritten in so many.
        Of queues that are not defined it forgets what is there, as if they had been deleted."""
        self.disk = disk
        self.store: LogStore = recover(disk, segment_bytes)
        self.store.head_entries = head_entries
        self.store.load_rows = load_rows
        self.store.upkeep.compaction.piece_bytes = segment_bytes // pieces
        self.store.upkeep.compaction.piece_moves = units
        self.store.upkeep.notes_at_once = min(units, NOTES_AT_ONCE)
        self.host = LoggingHost()
        self.recorder = QueueRecorder(definitions or {})
        self.node = Node(self.host, Settings(), self.recorder, self.store, now)
        self.node.errands.budget.units = self.node.errands.budget.left = units
        self.vhost = VHost(self.node, "/")
        self.node.vhosts["/"] = self.vhost
        for name, (incarnation, arguments) in self.definitions.items():
            self.vhost.add_queue(name, True, False, table_of(arguments), incarnation)
        self.node.start_recording()
        if forgets:
            self.store.unclaimed.forget(self.store.unclaimed.incarnations())

    @property
    def definitions(self) -> Definitions:
        """Those that a crash now would leave."""
        return self.recorder.committed

    @property
    def lines(self) -> list[str]:
        return self.store.log_lines + self.host.lines

    def restarted(self, disk: SimulatedDisk, now: int | None = None) -> StoredWorld:
        """The next process on what this one left."""
        return StoredWorld(
            disk,
            self.definitions,
            self.store.segment_bytes,
            self.store.head_entries,
            self.store.load_rows,
            self.node.now if now is None else now,
            self.node.errands.budget.units,
            self.store.segment_bytes // self.store.upkeep.compaction.piece_bytes,
        )

    # -- queues ----------------------------------------------------------------------------------------------------

    def declare(self, name: str, durable: bool = True, **arguments: object) -> Queue:
        table = table_of({"x-" + key.replace("_", "-"): value for key, value in arguments.items()})
        return self.vhost.add_queue(name, durable, False, table)

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def delete(self, name: str) -> None:
        self.vhost.delete_queue(self.queue(name))

    # -- messages --------------------------------------------------------------------------------------------------

    def publish(
        self,
        body: str,
        *names: str,
        persistent: bool = True,
        priority: int = 0,
        ttl: int | None = None,
        number: int | None = None,
    ) -> Message:
        """Into every queue named, as one publish to a fanout exchange does; with a number, as of a publisher that is
        called by the body's first letter. The id is what stands before the colon."""
        message = message_of(body, persistent, priority, ttl)
        for name in names:
            queue = self.queue(name)
            if number is not None:
                queue.backing.begin_together()
            assert self.node.monitor.publish(queue, message) not in (REFUSED, FAILED)
            if number is not None:
                queue.note_publisher(key_of(body[0]), number, message)
        return message

    def get(self, name: str) -> Entry | None:
        """Take the head and owe an ack for it."""
        queue = self.queue(name)
        entry = queue.get()
        if entry is not None:
            queue.hold(entry)
        return entry

    def ack_next(self, name: str) -> str | None:
        entry = self.get(name)
        if entry is None:
            return None
        self.queue(name).ack(entry)
        return body_in(entry)

    def drain(self, name: str) -> list[str]:
        """Everything that is ready, in order, all of it held."""
        return [body for body, _ in self.drain_flagged(name)]

    def drain_flagged(self, name: str) -> list[tuple[str, bool]]:
        found: list[tuple[str, bool]] = []
        while (entry := self.get(name)) is not None:
            found.append((body_in(entry), entry.redelivered))
        return found

    # -- turns, and the thread -------------------------------------------------------------------------------------

    def flush(self) -> None:
        self.recorder.commit()
        self.node.flush()

    def sync(self) -> None:
        """End the turn and make it durable."""
        self.flush()
        job = self.store.begin_sync()
        if job is not None:
            self.run_sync(job)

    def run_sync(self, job: SyncJob) -> None:
        job.run(self.disk)
        self.sync_done(job)

    def sync_done(self, job: SyncJob) -> None:
        self.store.sync_done(job)
        self.store.upkeep.compaction.begin_if_sparse()

    def chore(self) -> bool:
        chore: Chore | None = self.store.next_chore()
        if chore is None:
            return False
        chore.run(self.disk)
        self.store.chore_done(chore)
        return True

    def remove_a_file(self) -> None:
        """The thread has removed the files of a segment, and the loop has not heard of it yet."""
        chore: Chore | None = None
        while not isinstance(chore, DeleteChore):
            chore = self.store.next_chore()
            if chore is None:
                self.sync()
                continue
            chore.run(self.disk)
            if not isinstance(chore, DeleteChore):
                self.store.chore_done(chore)

    def settle_down(self) -> None:
        """Until there is nothing left for the thread to do."""
        for _ in range(10_000):
            self.sync()
            if not self.chore() and self.store.position == self.store.synced and not self.node.errands.waiting:
                return
        raise AssertionError("the store never comes to rest")

    def roll(self) -> None:
        self.store.write()
        if self.store.is_named:
            self.store.roll()

    def compact(self, segment: Segment) -> None:
        """All of it, with whatever else the thread has to do before."""
        self.begin_compaction(segment)
        self.end_compaction()

    def begin_compaction(self, segment: Segment) -> None:
        self.end_compaction()
        if segment in self.compactable():
            self.store.upkeep.compaction.begin(segment)

    def end_compaction(self) -> None:
        while self.store.upkeep.compaction.is_under_way():
            assert self.chore()

    def compactable(self) -> list[Segment]:
        return [one for one in self.store.segments.values() if one.indexed and not one.busy and one.live > 0]

    def live_files(self) -> list[str]:
        return [name for name in self.disk.names() if name.endswith(".log")]


def message_of(body: str, persistent: bool = True, priority: int = 0, ttl: int | None = None) -> Message:
    properties = Properties()
    properties.delivery_mode = 2 if persistent else 1
    properties.priority = priority
    if ":" in body:
        properties.headers = table_of({"x-deduplication-header": body.split(":")[0]})
    raw = body.encode()
    message = Message(
        Origin("amq.fanout", ["key"]), content_frames(1, encode_properties(properties), raw, FRAME_MAX), 1, len(raw)
    )
    message.persistent = persistent
    message.priority = priority
    if ttl is not None:
        message.ttl = ttl
    return message


def body_in(entry: Entry) -> str:
    return body_of(entry.message.content).decode()
