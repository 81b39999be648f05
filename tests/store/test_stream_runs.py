"""Runs of a stream's records have in them what reading one by one gives, wherever they are cut."""

from __future__ import annotations

import struct
from random import Random

import pytest
from librt.strings import BytesWriter

from tests.faults.stream_states import Records, records_of
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import StoredWorld
from warren.amqp.frames import body_of
from warren.amqp.stream_run import RUN_HEAD_SIZE, RUN_SUFFIX, StreamRun, write_run_head
from warren.broker.queue.stream_log import StreamRecord
from warren.broker.stream.stream import Stream
from warren.errors import FrameError
from warren.store.stream_rows import StreamRows

COUNT = 200


class Written:
    """A stream of several files, part of it still in memory."""

    def __init__(self) -> None:
        random = Random(5)
        self.world = StoredWorld(SimulatedDisk())
        self.world.declare("s", queue_type="stream", stream_max_segment_size_bytes=4000)
        for number in range(COUNT):
            self.world.publish(f"{number}:" + "x" * random.choice((0, 5, 60, 700)), "s")
            if random.random() < 0.3:
                self.world.sync()
        self.world.settle_down()

    @property
    def stream(self) -> Stream:
        found = self.world.queue("s")
        assert isinstance(found, Stream)
        return found


@pytest.fixture(scope="module")
def written() -> Written:
    return Written()


@pytest.fixture(scope="module")
def restarted(written: Written) -> Stream:
    """The same from files alone."""
    found = written.world.restarted(SimulatedDisk(written.world.disk.files())).queue("s")
    assert isinstance(found, Stream)
    return found


def wire_of(run: StreamRun, tag: int = 1) -> bytes:
    out = BytesWriter()
    arguments = struct.pack(">HHBQB", 60, 60, 0, tag, 0) + RUN_SUFFIX[:-1]
    out.write(struct.pack(">BHI", 1, 1, len(arguments)) + arguments + b"\xce")
    write_run_head(out, 1, run)
    out.write(run.data)
    out.append(0xCE)
    return out.getvalue()


def rows_in(rows: StreamRows) -> Records:
    frames = bytes(rows.frames())
    bodies = [frames[start:end].decode() for start, end in struct.iter_unpack("<ii", rows.body.edges.getvalue())]
    places = [place for (place,) in struct.iter_unpack("<q", rows.places.getvalue())]
    return list(zip(places, bodies, strict=True))


def read_in_runs(stream: Stream, start: int, most_bytes: int, most: int) -> tuple[Records, int]:
    """What came, and how many of it did not fit into a run."""
    cursor, rows, alone = stream.log.cursor(start), StreamRows(), 0
    found: Records = []
    while True:
        run = cursor.next_run(most_bytes, most)
        if run is not None:
            assert run.count <= most
            assert len(run.data) <= most_bytes
            before, wire = rows.count, wire_of(run)
            assert rows.take(wire, 0, 1 << 20) == len(wire)
            assert rows.count - before == run.count
            assert not rows.is_damaged
            continue
        record: StreamRecord | None = cursor.next()
        found += rows_in(rows)
        rows = StreamRows()
        if record is None:
            cursor.close()
            return found, alone
        alone += 1
        found.append((int(record.offset), body_of(record.wire[record.suffix_size :]).decode()))


@pytest.mark.parametrize("most_bytes", [200, 256, 1000, 5000, 131_000])
@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_runs_cut_anywhere_have_every_message_once(
    written: Written, restarted: Stream, most_bytes: int, most: int
) -> None:
    for stream in (written.stream, restarted):
        expected = records_of(stream)
        assert len(expected) == COUNT
        for start in (0, 1, 77, COUNT - 1, COUNT):
            found, alone = read_in_runs(stream, start, most_bytes, most)
            assert found == expected[start:]
            assert (alone > 0) == (most_bytes < 700 and start < COUNT - 1)


def test_any_bit_that_flips_on_the_way_is_noticed(restarted: Stream) -> None:
    run = restarted.log.cursor(0).next_run(2000, 5)
    assert run is not None
    assert run.count == 5
    expected = rows_after(run.data, run)[0]
    random = Random(3)
    used = sorted(set(range(len(run.data))) - unused_bytes(run.data))
    for _ in range(300):
        at = random.choice(used)
        damaged = bytearray(run.data)
        damaged[at] ^= 1 << random.randrange(8)
        found, is_damaged = rows_after(bytes(damaged), run)
        assert found == expected[: len(found)]
        # A length that points behind the run looks as if the last record were cut off: fewer come than were announced.
        assert is_damaged or len(found) < len(expected)


def unused_bytes(data: bytes) -> set[int]:
    """The one in the head of each record that means nothing."""
    found, at = set(), 0
    while at < len(data):
        found.add(at + 3)
        at += 12 + int.from_bytes(data[at + 4 : at + 8], "big")
    return found


def rows_after(data: bytes, run: StreamRun) -> tuple[Records, bool]:
    rows = StreamRows()
    wire = wire_of(StreamRun(data, run.seed, run.position, run.count))
    assert rows.take(wire, 0, 100) == len(wire)
    return rows_in(rows), rows.is_damaged


def test_a_last_record_that_is_cut_off_is_left_for_the_next_run(restarted: Stream) -> None:
    run = restarted.log.cursor(0).next_run(2000, 5)
    assert run is not None
    whole, _ = rows_after(run.data, run)
    for size in range(len(run.data)):
        found, is_damaged = rows_after(run.data[:size], run)
        assert found == whole[: len(found)]
        # The first one at least is whole, unless something is wrong.
        assert is_damaged == (not found and size > 0)


def test_a_run_of_another_version_is_refused(restarted: Stream) -> None:
    run = restarted.log.cursor(0).next_run(2000, 5)
    assert run is not None
    wire = bytearray(wire_of(run))
    at = len(wire) - 1 - len(run.data) - int(RUN_HEAD_SIZE)
    assert wire[at : at + 2] == b"\0\1"
    wire[at + 1] = 2
    with pytest.raises(FrameError, match="in version 2, and this is version 1"):
        StreamRows().take(bytes(wire), 0, 10)
