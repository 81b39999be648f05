"""A stream read from a copy: it shows what it is told is committed, lets go of what is removed, and skips nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker.still_world import StillHost
from tests.faults.stream_states import records_of
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import FRAME_MAX, StoredWorld
from tests.store.test_definitions_log import Keeper
from warren.broker.node import Node
from warren.broker.queue.stream_log import StreamLog
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.store.definitions import log_name
from warren.store.mirror import PIECE_BYTES, CommittedDisk, CopyDamaged, CopySurvey, MirroredStream, MirrorStore
from warren.store.stream import DiskStreamLog
from warren.store.stream_format import FILE_ENDING, INDEX_ENDING


class CountedDisk(CommittedDisk):
    """Knows which files are open, and how much was read at once."""

    def __init__(self, disk: SimulatedDisk, sizes: dict[str, int]) -> None:
        super().__init__(disk, sizes)
        self._simulated = disk
        self.open_files: dict[int, str] = {}
        self.most = 0

    def open(self, name: str) -> int:
        handle = super().open(name)
        self.open_files[handle] = name
        return handle

    def read(self, handle: int, size: int, offset: int) -> bytes:
        self.most = max(self.most, size)
        return super().read(handle, size, offset)

    def close(self, handle: int) -> None:
        super().close(handle)
        assert handle not in self._simulated.handles
        del self.open_files[handle]


class Copied:
    """A stream that is written, and a node that reads the same files as far as it is told."""

    def __init__(self, count: int, size: int = 100) -> None:
        self.world = StoredWorld(SimulatedDisk())
        self.world.declare("s", queue_type="stream", stream_max_segment_size_bytes=2000)
        self._count = 0
        self.write(count, size)
        self.disk = CountedDisk(self.world.disk, self.sizes())
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
            self.world.node.tick(self.world.node.now + 10)
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
        self.grow()

    def grow(self) -> int:
        """In how many pieces it took in what it has heard of."""
        pieces = 0
        while self.store.grow():
            pieces += 1
            assert pieces < 1000
        return pieces

    def files(self, ending: str = FILE_ENDING) -> list[str]:
        return [name for name in self.world.disk.names() if name.endswith(ending)]

    @property
    def log(self) -> MirroredStream:
        assert isinstance(self.stream.log, MirroredStream)
        return self.stream.log

    def is_as_on_the_leader(self) -> bool:
        """In all that anybody is shown of it, without a file left open."""
        self.node.flush()
        assert not self.disk.open_files
        assert records_of(self.stream) == records_of(self.written)
        return figures(self.log) == figures(self.written.log)


def figures(log: StreamLog) -> list[int]:
    assert isinstance(log, DiskStreamLog)
    offsets = [log.first_offset, log.next_offset, log.committed, log.length, log.body_bytes, log.last_timestamp]
    return [*map(int, offsets), len(log.segments), int(log.disk_bytes())]


def test_it_has_what_the_leader_has_and_what_it_is_told_of() -> None:
    copied = Copied(50)
    assert records_of(copied.stream) == records_of(copied.written)
    before = records_of(copied.stream)
    copied.write(50)
    assert records_of(copied.stream) == before
    copied.hear()
    assert copied.store.take_committed() == [copied.stream]
    assert copied.is_as_on_the_leader()
    assert copied.log.offset_at(0) == 0
    # Told once.
    assert copied.store.take_committed() == []


def test_nothing_is_shown_that_is_not_committed() -> None:
    copied = Copied(1)
    told = [copied.sizes()]
    for _ in range(30):
        copied.write(1)
        told.append(copied.sizes())
    whole = records_of(copied.written)
    # All is in the files already, of which it is told bit by bit, and of some more than once.
    for number, sizes in enumerate(told):
        for name in set(sizes) - set(copied.disk.names()):
            # A file is begun before anything is in it.
            copied.store.file_changed(name, 0)
            assert copied.disk.size(name) == 0
        for name, size in sizes.items():
            copied.store.file_changed(name, size)
        copied.grow()
        assert records_of(copied.stream) == whole[: number + 1]
        assert copied.log.committed == copied.log.next_offset == number + 1
        for name in set(copied.disk.names()) - set(copied.disk.open_files.values()):
            assert copied.disk.size(name) == sizes[name]
    assert copied.is_as_on_the_leader()


def test_much_that_is_new_is_taken_in_a_piece_at_a_time() -> None:
    copied = Copied(1)
    incarnation = copied.written.incarnation
    assert copied.grow() == 0
    copied.written.log.segment_bytes = 1 << 30
    for _ in range(40):
        copied.world.publish("x" * 100_000, "s")
    copied.world.settle_down()
    copied.disk.most = 0
    name = copied.files()[-1]
    assert name.startswith(incarnation)
    copied.store.file_changed(name, copied.sizes()[name])
    assert copied.grow() >= 4
    assert copied.disk.most <= PIECE_BYTES
    assert copied.is_as_on_the_leader()


def test_where_the_messages_of_a_full_file_are_is_not_kept_in_memory() -> None:
    copied = Copied(1)
    copied.write(50)
    indexes = copied.files(INDEX_ENDING)
    assert len(indexes) > 3
    for name, size in copied.sizes().items():
        if name not in indexes:
            copied.store.file_changed(name, size)
    copied.grow()
    assert all(segment.rows_in_memory() for segment in copied.log.segments[1:])
    copied.hear()
    assert [segment.rows_in_memory() for segment in copied.log.segments if segment.is_indexed] == [b""] * len(indexes)
    assert len(copied.log.segments) > len(indexes)
    for offset in range(51):
        record = copied.log.cursor(offset).next()
        assert record is not None
        assert record.offset == offset


def test_a_stream_that_is_declared_later_comes_with_its_first_file() -> None:
    copied = Copied(1)
    world = copied.world
    world.declare("late", queue_type="stream")
    incarnation = world.queue("late").incarnation
    for number in range(3):
        world.publish(f"{number}", "late")
    world.settle_down()
    # Its files may be heard of before the stream is.
    copied.hear()
    assert copied.store.take_committed() == []
    vhost = copied.node.vhosts["/"]
    late = vhost.add_queue("late", True, False, world.queue("late").arguments, incarnation)
    assert isinstance(late, Stream)
    assert late.log.length == 0
    (name,) = [name for name in copied.files() if name.startswith(incarnation)]
    copied.store.file_changed(name, copied.sizes()[name])
    copied.grow()
    assert [body for _, body in records_of(late)] == ["0", "1", "2"]
    assert copied.store.take_committed() == [late]
    # Of one that is gone, nobody is told.
    world.publish("3", "late")
    world.settle_down()
    copied.hear()
    vhost.delete_queue(late)
    assert copied.store.take_committed() == []


def test_a_file_that_goes_before_it_was_taken_in_is_none() -> None:
    copied = Copied(1)
    copied.write(50)
    sizes = copied.sizes()
    first, second, *rest = copied.files()[1:]
    for name in (first, second, *rest):
        copied.store.file_changed(name, sizes[name])
    # One is told of, the other only not there any more.
    copied.store.file_changed(first, -1)
    copied.world.disk.remove(second)
    copied.grow()
    found = [offset for offset, _ in records_of(copied.stream)]
    assert found == [0, *range(found[1], 51)]
    assert 1 < found[1] < 40
    with pytest.raises(FileNotFoundError):
        copied.disk.size(first)
    # Whatever is said of it later is too late.
    copied.store.file_changed(first, sizes[first])
    copied.grow()
    copied.store.file_changed("unheard-of.000000000001.stream", -1)
    assert [offset for offset, _ in records_of(copied.stream)] == found


def test_of_a_stream_whose_files_are_all_gone_the_offsets_go_on() -> None:
    copied = Copied(20)
    for name in copied.files():
        copied.store.file_changed(name, -1)
    assert records_of(copied.stream) == []
    assert (copied.log.first_offset, copied.log.length, copied.log.body_bytes) == (20, 0, 0)


def test_a_record_longer_than_what_is_looked_at_in_one_go_comes_whole() -> None:
    copied = Copied(1)
    copied.write(3, 3 << 20)
    copied.write(1)
    for name, size in copied.sizes().items():
        copied.store.file_changed(name, size)
    before = copied.log.committed
    while copied.store.grow():
        # What was shown once is not taken back, also while only the beginning of a file is known.
        assert before <= copied.log.committed == copied.log.next_offset
        firsts = [segment.first_offset for segment in copied.log.segments]
        assert firsts == sorted(set(firsts))
        assert copied.log.find(copied.log.committed) is copied.log.segments[-1]
        before = copied.log.committed
    copied.hear()
    assert copied.is_as_on_the_leader()


def test_a_piece_that_ends_in_the_head_of_a_record_is_taken_up_to_it() -> None:
    copied = Copied(1)
    name = copied.files()[0]
    copied.written.log.segment_bytes = 1 << 30
    before = copied.sizes()[name]
    copied.write(1)
    size = copied.sizes()[name]
    head = size - before - 100
    copied.store.file_changed(name, size)
    copied.grow()
    # The next but one begins 20 bytes before the piece ends; every frame of a body has eight more than its part of it.
    room = PIECE_BYTES - 20 - head
    copied.write(1, int(room - room // FRAME_MAX * 8))
    copied.write(1)
    assert size + PIECE_BYTES - 38 < copied.sizes()[name] - head - 100 < size + PIECE_BYTES - 12
    copied.hear()
    assert copied.is_as_on_the_leader()


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
    second = cursor.next()
    assert second is not None
    assert second.offset == copied.written.log.first_offset
    cursor.close()
    assert copied.is_as_on_the_leader()


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
    # Nor by one who begins to read from the copy.
    found = CopySurvey(CommittedDisk(copied.world.disk, copied.sizes()))
    assert not found.damage
    files = {name: data for name, data in copied.world.disk.kill().files().items() if not name.endswith(INDEX_ENDING)}
    found = CopySurvey(CommittedDisk(SimulatedDisk(files), {each: len(data) for each, data in files.items()}))
    (line,) = found.damage
    assert f"lost messages: {name} is damaged" in line


@pytest.mark.parametrize(("at", "told"), [(0, "has no header"), (None, "is damaged at byte")])
def test_damage_in_what_is_new_is_never_taken_in(at: int | None, told: str) -> None:
    copied = Copied(1)
    known = copied.sizes()[copied.files()[0]]
    copied.write(50)
    name = copied.files()[0 if at is None else -1]
    content = bytearray(copied.world.disk.files()[name])
    content[known if at is None else at] ^= 1
    copied.world.disk.replace(name, bytes(content))
    copied.store.file_changed(name, len(content))
    with pytest.raises(CopyDamaged, match=told) as raised:
        copied.grow()
    assert at is not None or str(raised.value).endswith(f" {known}")


def test_nothing_is_ever_written_to_a_copy() -> None:
    copied = Copied(1)
    disk, before = copied.disk, copied.world.disk.files()
    attempts: list[Callable[[], object]] = [
        lambda: disk.create("new", 0),
        lambda: disk.reopen("new", 0),
        lambda: disk.append(1, b"m"),
        lambda: disk.truncate(1, 0),
        lambda: disk.sync(1),
        lambda: disk.sync_directory(),
        lambda: disk.replace("new", b""),
        lambda: disk.remove(copied.files()[0]),
    ]
    for attempt in attempts:
        with pytest.raises(NotImplementedError):
            attempt()
    assert copied.world.disk.files() == before


def test_definitions_are_told_as_they_are_made_and_each_once() -> None:
    keeper = Keeper(SimulatedDisk())
    name = log_name(keeper.log.number)

    def sizes() -> dict[str, int]:
        keeper.sync()
        return {**{each: len(data) for each, data in keeper.disk.files().items()}, name: int(keeper.log.size)}

    keeper.log.put("vhost", ("/",), {})
    survey = CopySurvey(CommittedDisk(keeper.disk, sizes()))
    assert survey.rows == [("vhost", ("/",), {})]
    store = MirrorStore(survey)
    keeper.log.put("queue", ("/", "q"), {"durable": True})
    keeper.log.put("queue", ("/", "r"), {})
    first = sizes()[name]
    keeper.log.delete("queue", ("/", "q"))
    second = sizes()[name]
    assert store.changes(name, first) == [("queue", ("/", "q"), {"durable": True}), ("queue", ("/", "r"), {})]
    assert store.changes(name, first) == []
    assert store.changes(name, second) == [("queue", ("/", "q"), None)]
    # Of a log that is begun later, everything is new.
    whole = MirrorStore(CopySurvey(CommittedDisk(keeper.disk, {})))
    assert [change[1] for change in whole.changes(name, second)] == [("/",), ("/", "q"), ("/", "r"), ("/", "q")]
    whole = MirrorStore(CopySurvey(CommittedDisk(keeper.disk, {})))
    content = bytearray(keeper.disk.files()[name])
    content[content.index(b'"q"', first)] ^= 1
    keeper.disk.replace(name, bytes(content))
    with pytest.raises(CopyDamaged, match=f"{name} is damaged at byte {first}"):
        whole.changes(name, second)


def test_nothing_is_read_once_it_is_closed() -> None:
    copied = Copied(50)
    cursor = copied.stream.log.cursor(0)
    assert cursor.next() is not None
    copied.store.close()
    assert cursor.next() is None
    assert copied.stream.log.cursor(0).next() is None
    assert not copied.disk.open_files
    cursor.close()
