"""Which store? An append-only log, LMDB and RocksDB do the same work, so that the choice rests on figures.

Run: .venv/bin/python bench/stores.py [--messages N]   (needs lmdb and rocksdict: pip install lmdb rocksdict)
Each store takes messages of 1 KiB in batches of 1,000 that are made durable together, and forgets them as they are
acked. Rates are messages a second of wall time; CPU is user and system time of this process a message.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from warren.amqp.frames import content_frames
from warren.broker.message import Message, Origin
from warren.broker.node import Node
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.settings import Settings
from warren.broker.world import Host
from warren.store.disk import RealDisk
from warren.store.recovery import recover

BATCH = 1000
BODY = os.urandom(1024)


class QuietHost(Host):
    def wake(self) -> None: ...

    def token(self) -> str:
        return "bench"

    def draw(self) -> int:
        return 0

    def stopwatch(self) -> int:
        return 0

    def arrival(self) -> int:
        return 0

    def remembers_password(self, algorithm: str, password_hash: str, password: str) -> bool:
        return False

    def verify_password(self, *_: object) -> None: ...

    def log(self, level: int, text: str) -> None:
        sys.stderr.write(text + "\n")


class Log:
    """Warren's own store, through its queues."""

    name = "log"

    def __init__(self, folder: Path, queues: int, body: bytes) -> None:
        self.store = recover(RealDisk(folder))
        self.node = Node(QuietHost(), Settings(), None, self.store)
        vhost = self.node.add_vhost("/")
        self.queues: list[Queue] = [
            vhost.add_queue(f"q{number}", True, False, {}, f"i{number}") for number in range(queues)
        ]
        self.content = content_frames(1, b"\x10\x00\x02", body, 131072)
        self.body_size = len(body)
        self.held: list[Entry] = []

    def publish(self, targets: list[int]) -> None:
        message = Message(Origin("x", ["k"]), self.content, 1, self.body_size)
        message.persistent = True
        for target in targets:
            self.queues[target].publish(message)

    def ack(self, target: int) -> None:
        queue = self.queues[target]
        entry = queue.get()
        if entry is not None:
            queue.hold(entry)
            queue.ack(entry)

    def commit(self) -> None:
        self.store.write()
        job = self.store.begin_sync()
        if job is not None:
            job.run(self.store.disk)
            self.store.sync_done(job)
        while (chore := self.store.next_chore()) is not None:
            chore.run(self.store.disk)
            self.store.chore_done(chore)

    def close(self) -> None:
        self.store.close()

    def length(self) -> int:
        return sum(queue.backing.length for queue in self.queues)


class KeyValue:
    """The same over an ordered key-value store: messages once, and one index row per queue and message."""

    def __init__(self, queues: int, body: bytes) -> None:
        self.body = body
        self.next_message = 0
        self.tails = [0] * queues
        self.heads = [0] * queues
        self.references: dict[int, int] = {}

    def rows(self, targets: list[int]) -> Iterator[tuple[bytes, bytes]]:
        self.next_message += 1
        yield b"m" + struct.pack(">Q", self.next_message), self.body
        self.references[self.next_message] = len(targets)
        for target in targets:
            yield b"q" + struct.pack(">IQ", target, self.tails[target]), struct.pack(">Q", self.next_message)
            self.tails[target] += 1

    def length(self) -> int:
        return sum(self.tails) - sum(self.heads)


class Lmdb(KeyValue):
    name = "lmdb"

    def __init__(self, folder: Path, queues: int, body: bytes) -> None:
        import lmdb

        super().__init__(queues, body)
        self.environment = lmdb.open(str(folder), map_size=32 << 30)
        self.transaction: Any = self.environment.begin(write=True)

    def publish(self, targets: list[int]) -> None:
        for key, value in self.rows(targets):
            self.transaction.put(key, value)

    def ack(self, target: int) -> None:
        key = b"q" + struct.pack(">IQ", target, self.heads[target])
        message = self.transaction.get(key)
        self.transaction.get(b"m" + message)
        self.transaction.delete(key)
        self.heads[target] += 1
        number = struct.unpack(">Q", message)[0]
        self.references[number] -= 1
        if self.references[number] == 0:
            del self.references[number]
            self.transaction.delete(b"m" + message)

    def commit(self) -> None:
        self.transaction.commit()
        self.transaction = self.environment.begin(write=True)

    def close(self) -> None:
        self.transaction.abort()
        self.environment.close()


class Rocks(KeyValue):
    name = "rocksdb"

    def __init__(self, folder: Path, queues: int, body: bytes) -> None:
        from rocksdict import Options, Rdict, WriteBatch, WriteOptions

        super().__init__(queues, body)
        self.database = Rdict(str(folder), Options(raw_mode=True))
        self.synced = WriteOptions()
        self.synced.sync = True
        self.make_batch = WriteBatch
        self.batch = WriteBatch(raw_mode=True)
        self.young: dict[bytes, bytes] = {}

    def publish(self, targets: list[int]) -> None:
        for key, value in self.rows(targets):
            self.batch.put(key, value)
            self.young[key] = value

    def _get(self, key: bytes) -> bytes:
        value = self.young.get(key)
        found = self.database[key] if value is None else value
        assert isinstance(found, bytes)
        return found

    def ack(self, target: int) -> None:
        key = b"q" + struct.pack(">IQ", target, self.heads[target])
        message = self._get(key)
        self._get(b"m" + message)
        self.batch.delete(key)
        self.heads[target] += 1
        number = struct.unpack(">Q", message)[0]
        self.references[number] -= 1
        if self.references[number] == 0:
            del self.references[number]
            self.batch.delete(b"m" + message)

    def commit(self) -> None:
        self.database.write(self.batch, self.synced)
        self.batch = self.make_batch(raw_mode=True)
        self.young.clear()

    def close(self) -> None:
        self.database.close()


STORES: list[Any] = [Log, Lmdb, Rocks]


def fill(store: Any, messages: int, targets_of: Any) -> None:
    for number in range(messages):
        store.publish(targets_of(number))
        if number % BATCH == BATCH - 1:
            store.commit()
    store.commit()


def drain(store: Any, acks: Iterator[int]) -> None:
    for number, target in enumerate(acks):
        store.ack(target)
        if number % BATCH == BATCH - 1:
            store.commit()
    store.commit()


def steady(store: Any, messages: int, targets_of: Any) -> None:
    """Delete on ack: each batch is acked one batch later."""
    for start in range(0, messages, BATCH):
        for number in range(start, start + BATCH):
            store.publish(targets_of(number))
        for number in range(start - BATCH, start):
            if number >= 0:
                for target in targets_of(number):
                    store.ack(target)
        store.commit()


def measured(work: Any, messages: int) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    work()
    elapsed = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return f"{messages / elapsed / 1000:7.0f} k/s {cpu / messages * 1e6:6.2f} us"


def show(case: str, store: Any, result: str) -> None:
    sys.stdout.write(f"{case:34} {store.name:8} {result}\n")
    sys.stdout.flush()


def run(case: str, kind: Any, queues: int, messages: int, targets_of: Any) -> None:
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        store = kind(folder, queues, BODY)
        show(f"{case}, with deletes", kind, measured(lambda: steady(store, messages, targets_of), messages))
        store.close()
    finally:
        shutil.rmtree(folder)


def backlog(kind: Any, messages: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        store = kind(folder, 1, BODY[:100])
        show(
            f"backlog {messages} x 100 B, fill", kind, measured(lambda: fill(store, messages, lambda _: [0]), messages)
        )
        store.close()
        size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
        start = time.perf_counter()
        reopened = kind(folder, 1, BODY[:100])
        opened = time.perf_counter() - start
        if isinstance(reopened, KeyValue):
            reopened.tails, reopened.references = store.tails, store.references
        show("backlog, restart", kind, f"{opened:.2f} s, {size / messages:.0f} B on disk a message")
        acks = iter([0] * reopened.length())
        show("backlog, drain", kind, measured(lambda: drain(reopened, acks), messages))
        reopened.close()
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    options = parser.parse_args()
    for kind in STORES:
        run("one queue", kind, 1, options.messages, lambda _: [0])
    for kind in STORES:
        run("1,000 queues", kind, 1000, options.messages, lambda number: [number % 1000])
    for kind in STORES:
        run("fan-out 10", kind, 10, options.messages // 10, lambda _: list(range(10)))
    for kind in STORES:
        backlog(kind, options.backlog)


if __name__ == "__main__":
    main()
