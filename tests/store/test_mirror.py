"""A stream read from a copy: it shows what it is told is committed, lets go of what is removed, and skips nothing."""

from __future__ import annotations

import pytest

from tests.broker.still_world import StillHost
from tests.faults.stream_states import records_of
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.broker.node import Node
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.store.mirror import CommittedDisk, CopyDamaged, CopySurvey, MirrorStore
from warren.store.stream_format import FILE_ENDING


class Copied:
    """A stream that is written, and a node that reads the same files as far as it is told."""

    def __init__(self, count: int, size: int = 100) -> None:
        self.world = StoredWorld(SimulatedDisk())
        self.world.declare("s", queue_type="stream", stream_max_segment_size_bytes=2000)
        self._count = 0
        self.write(count, size)
        self.disk = CommittedDisk(self.world.disk, self.sizes())
        self.store = MirrorStore(CopySurvey(self.disk))
        self.node = Node(StillHost(), Settings(), None, self.store)
        incarnation, _ = self.world.definitions["s"]
        vhost = self.node.add_vhost("/")
        queue = vhost.add_queue("s", True, False, self.written.arguments, incarnation)
        assert isinstance(queue, Stream)
        self.stream = queue

    @property
    def written(self) -> Stream:
        stream = self.world.queue("s")
        assert isinstance(stream, Stream)
        return stream

    def write(self, count: int, size: int = 100) -> None:
        for _ in range(count):
            self._count += 1
            self.world.publish(f"{self._count} " + "." * size, "s")
            self.world.sync()
        self.world.settle_down()

    def sizes(self) -> dict[str, int]:
        return {name: self.world.disk.size(name) for name in self.world.disk.names()}

    def hear(self) -> None:
        """All that was written is committed."""
        sizes = self.sizes()
        for name in set(self.disk.sizes) - set(sizes):
            self.store.file_changed(name, -1)
        for name, size in sizes.items():
            if self.disk.sizes.get(name) != size:
                self.store.file_changed(name, size)
        while self.store.grow():
            pass


def test_it_has_what_the_leader_has_and_what_it_is_told_of() -> None:
    copied = Copied(50)
    assert records_of(copied.stream) == records_of(copied.written)
    before = records_of(copied.stream)
    copied.write(50)
    assert records_of(copied.stream) == before
    copied.hear()
    assert copied.store.take_committed() == [copied.stream]
    assert records_of(copied.stream) == records_of(copied.written)
    log, leaders = copied.stream.log, copied.written.log
    assert (log.length, log.body_bytes, log.committed) == (leaders.length, leaders.body_bytes, leaders.committed)
    assert log.offset_at(0) == 0


def test_a_record_longer_than_what_is_looked_at_in_one_go_comes_whole() -> None:
    copied = Copied(1)
    copied.write(1, 3 << 20)
    copied.write(1)
    copied.hear()
    assert records_of(copied.stream) == records_of(copied.written)


def test_what_retention_took_is_gone_for_readers_as_it_is_on_the_leader() -> None:
    copied = Copied(50)
    cursor = copied.stream.log.cursor(0)
    first = cursor.next()
    assert first is not None
    copied.written.log.max_bytes = 4000
    copied.write(50)
    assert copied.written.log.first_offset > 40
    # The files are gone already, and it was not told yet: who begins now begins where there is something.
    fresh = copied.stream.log.cursor(20).next()
    assert fresh is None or fresh.offset > 40
    copied.hear()
    assert copied.stream.log.first_offset == copied.written.log.first_offset
    assert records_of(copied.stream) == records_of(copied.written)
    second = cursor.next()
    assert second is not None
    assert second.offset == copied.written.log.first_offset


def test_damage_is_never_passed_over() -> None:
    copied = Copied(50)
    name = next(name for name in copied.world.disk.names() if name.endswith(FILE_ENDING))
    content = bytearray(copied.world.disk.files()[name])
    content[len(content) // 2] ^= 1
    copied.world.disk.replace(name, bytes(content))
    cursor = copied.stream.log.cursor(0)
    with pytest.raises(CopyDamaged, match="is damaged at byte"):
        while cursor.next() is not None:
            pass


def test_nothing_is_read_once_it_is_closed() -> None:
    copied = Copied(50)
    cursor = copied.stream.log.cursor(0)
    assert cursor.next() is not None
    copied.store.close()
    assert cursor.next() is None
    assert copied.stream.log.cursor(0).next() is None
    cursor.close()
