"""The format on disk stays as it is: a folder that was written once is read whole, and is written the same again.

tests/store/golden was made by golden_folder.py, and so were golden-sqlite when definitions were in SQLite,
golden-unmarked when the log did not say which settled files there are, and golden-uncounted when it said neither what
was seen nor how often messages came back. What these tests expect of them is said here, so that a change which reads
back whatever it wrote itself does not pass.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from tests.store.golden_folder import FOLDER, MESSAGES, SEGMENT_BYTES, make_world
from tests.store.simulated_disk import SimulatedDisk
from tests.store.stored_world import START, LoggingHost, StoredWorld
from warren.amqp.frames import body_of
from warren.amqp.properties import decode_properties
from warren.broker.node import Node
from warren.broker.operate import definitions
from warren.broker.queue.entry import Entry
from warren.broker.settings import Settings
from warren.broker.stream.stream import Stream
from warren.store.definitions_recovery import recover_definitions
from warren.store.disk import RealDisk
from warren.store.inspect import check
from warren.store.old_definitions import FILE_NAME, load_old
from warren.store.recovery import recover

OLD_FOLDERS = [FOLDER.with_name(name) for name in ("golden-sqlite", "golden-unmarked", "golden-uncounted")]
# Queues that are only in the newest.
YOUNG = {"tried", "once"}
MINUTE = 60_000
KINDS_OF_FILES = {".log", ".index", ".settled", ".seen", ".stream", ".stream-index", ".base", ".definitions"}
RECORD_FILES = (".log", ".base", ".definitions")
SMALL_FILES = (".index", ".stream-index")


def golden_files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((FOLDER / MESSAGES).iterdir())}


@pytest.fixture(params=[FOLDER, *OLD_FOLDERS], ids=lambda folder: folder.name)
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Node]:
    """A broker on a copy of the folder, a minute after it was left."""
    folder = copytree(request.param, tmp_path / "data")
    store = recover(RealDisk(folder / MESSAGES), SEGMENT_BYTES)
    old = folder / FILE_NAME
    rows = recover_definitions(store, load_old(old) if old.exists() else [])
    assert store.log_lines == []
    node = Node(LoggingHost(), Settings(), store.definitions, store, START + MINUTE)
    assert definitions.restore(node, rows) == []
    assert store.unclaimed.lines() == []
    yield node
    store.close()


def taken(node: Node, name: str) -> list[Entry]:
    queue = node.vhosts["/"].queues[name]
    entries: list[Entry] = []
    while (entry := queue.get()) is not None:
        queue.hold(entry)
        entries.append(entry)
    return entries


def number_in(content: bytes) -> int:
    """Which message it is, after all of its content was found to be that one's."""
    size = int.from_bytes(content[3:7], "big")
    properties = decode_properties(content, 7 + 12, 7 + size)
    assert properties.headers is not None
    number = properties.headers["n"].value
    assert isinstance(number, int)
    assert (properties.delivery_mode, properties.priority) == (2, number % 3)
    assert properties.message_id == f"id-{number}"
    assert body_of(content) == bytes(range(number)) + b"." * 60
    return number


def keys_of(number: int) -> list[str]:
    return [f"key.{number}"] if number % 4 else [f"key.{number}", "cc.ä", "bcc"]


def numbers_in(entries: list[Entry]) -> list[int]:
    for entry in entries:
        number = number_in(entry.message.content)
        origin = entry.message.origin
        assert (origin.exchange, origin.keys) == ("amq.fanout", keys_of(number))
        assert origin.hidden == (1 if number % 4 == 0 else 0)
        assert (entry.message.channel, entry.message.body_size) == (7, number + 60)
        assert (entry.message.persistent, entry.message.priority) == (True, number % 3)
    return [number_in(entry.message.content) for entry in entries]


def test_every_kind_of_file_and_of_record_is_in_the_folder() -> None:
    files = golden_files()
    assert {Path(name).suffix for name in files} == KINDS_OF_FILES
    kinds = {kind for name, data in files.items() if name.endswith(RECORD_FILES) for kind, _ in log_records(name, data)}
    assert kinds == {1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12}


def test_every_message_of_a_queue_is_there_in_order(node: Node) -> None:
    # Message 35 was to live for five seconds.
    orders = taken(node, "orders")
    assert numbers_in(orders) == [29, 30, 31, 32, 33, 34, 36, 37, 38, 39]
    assert {entry.redelivered for entry in orders} == {True}
    assert {number_in(entry.message.content): entry.expires_at for entry in orders if entry.expires_at >= 0} == {
        36: START + 600_000
    }
    audit = taken(node, "audit")
    assert numbers_in(audit) == [number for number in range(1, 40, 2) if number != 35]
    assert {entry.redelivered for entry in audit} == {False}


def test_messages_come_by_their_priority(node: Node) -> None:
    assert numbers_in(taken(node, "ranked")) == [2, 5, 8, 1, 4, 7, 0, 3, 6]


@pytest.mark.parametrize("node", [FOLDER], indirect=True, ids=["golden"])
def test_what_came_back_is_counted_and_what_was_seen_is_known(node: Node) -> None:
    tried = taken(node, "tried")
    assert numbers_in(tried) == [61, 62, 63]
    assert [entry.returns for entry in tried] == [2, 1, 1]
    once = node.vhosts["/"].queues["once"]
    assert once.deduplication is not None
    assert [identity for identity, _ in once.deduplication.remembered()] == [b"i61", b"i62", b"i63", b"i65"]


def test_what_was_not_to_survive_is_not_there(node: Node) -> None:
    assert taken(node, "fleeting") == []
    assert "deleted" not in node.vhosts["/"].queues


def test_every_message_of_a_stream_is_at_its_offset(node: Node) -> None:
    stream = node.vhosts["/"].queues["story"]
    assert isinstance(stream, Stream)
    cursor = stream.log.cursor(0)
    for offset, number in enumerate(range(9, 40)):
        record = cursor.next()
        assert record is not None
        assert (record.offset, record.timestamp) == (offset, START)
        assert record.filter_value == f"part {number % 2}".encode()
        suffix = record.wire[: record.suffix_size]
        key = f"key.{number}".encode()
        assert suffix == b"\x0aamq.fanout" + bytes([len(key)]) + key + b"\xce"
        body = bytes(range(number)) + b"." * 60
        assert body_of(record.wire[record.suffix_size :]) == body
    assert cursor.next() is None
    cursor.close()


def test_users_and_queues_are_in_the_definitions(node: Node) -> None:
    assert list(node.access.users) == ["guest"]
    assert sorted(set(node.vhosts["/"].queues) - YOUNG) == ["audit", "fleeting", "orders", "ranked", "story"]
    assert node.vhosts["/"].queues["orders"].incarnation == "orders-incarnation"


def test_inspection_finds_no_damage() -> None:
    report = check(FOLDER)
    assert (report.damage, report.notes) == ([], [])
    assert {queue.queue: queue.messages for queue in report.queues if queue.level == 0} == {
        "orders": 11,
        "audit": 20,
        "ranked": 3,
        "fleeting": 0,
        "tried": 3,
        "once": 4,
    }


def test_the_same_events_write_the_same_bytes() -> None:
    assert make_world().disk.files() == golden_files()


def test_indexes_that_are_lost_are_written_the_same_again() -> None:
    files = golden_files()
    kept = {name: data for name, data in files.items() if not name.endswith(SMALL_FILES)}
    disk = SimulatedDisk(kept)
    store = recover(disk, SEGMENT_BYTES)
    for incarnation in list(store.streams.recovered):
        recovered = store.streams.recovered[incarnation]
        world = StoredWorld(SimulatedDisk())
        queue = world.vhost.add_queue(recovered.name, True, False, {}, incarnation)
        store.streams.open(queue)
    while (chore := store.next_chore()) is not None:
        chore.run(disk)
        store.chore_done(chore)
    written = disk.files()
    for name, data in files.items():
        if name.endswith(SMALL_FILES):
            assert written[name] == data, name


# -- the checksums, by the words of docs/storage.md and nothing of the store's code --------------------------------


def checked(data: bytes, at: int, file: int) -> Iterator[tuple[int, bytes]]:
    while at < len(data):
        mark, kind, spare, length, crc = struct.unpack(">2sBBII", data[at : at + 12])
        payload = data[at + 12 : at + 12 + length]
        seed = (at * 0x1E3779B1 + file * 0x05EBCA6B + length * 31 + kind) & 0xFFFFFFFF
        assert (mark, spare, crc) == (b"WR", 0, zlib.crc32(payload, seed))
        yield kind, payload
        at += 12 + length


def log_records(name: str, data: bytes) -> list[tuple[int, bytes]]:
    magic, version, segment, _, crc = struct.unpack(">8sHQQI", data[:30])
    assert (magic, version, segment) == (b"WARRENLG", 1, int(name.split(".")[0]))
    assert crc == zlib.crc32(data[:26])
    return list(checked(data, 30, segment))


def test_checksums_are_made_as_the_documentation_says() -> None:
    for name, data in golden_files().items():
        if name.endswith(RECORD_FILES):
            assert log_records(name, data)
        elif name.endswith(".stream"):
            incarnation, number, _ = name.split(".")
            magic, version, size, own = struct.unpack(">8sHHQ", data[:20])
            assert (magic, version, own) == (b"WARRENSM", 1, int(number))
            assert data[size - 4 : size] == struct.pack(">I", zlib.crc32(data[: size - 4]))
            assert {kind for kind, _ in checked(data, size, zlib.crc32(incarnation.encode(), own))} == {5, 7}
        else:
            seed = 0
            if name.endswith(".stream-index"):
                incarnation, number, _ = name.split(".")
                seed = zlib.crc32(incarnation.encode(), int(number))
            assert data[-4:] == struct.pack(">I", zlib.crc32(data[:-4], seed))
