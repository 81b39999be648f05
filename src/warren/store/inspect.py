"""Looking into a store without touching it: what is in it, what is damaged, and every record in turn.

Opening a store repairs it (recovery.py); this only reads, and may be used on a copy, or while a broker writes.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from librt.strings import read_i64_be

from warren.amqp.frames import body_of
from warren.errors import WarrenError
from warren.store.damage import damage_in_log
from warren.store.definitions import BASE_END, BASE_ENDING, CHANGES, LOG_ENDING, changes_in
from warren.store.definitions_recovery import FoundDefinitions
from warren.store.disk import RealDisk
from warren.store.format import (
    DELIVERED,
    FILE_HEADER_SIZE,
    LANE_DELETED,
    LANE_OPENED,
    MESSAGE,
    RETURNED,
    SEEN,
    SETTLED,
    SYNCED,
    TOGETHER,
    read_message,
    read_places,
)
from warren.store.index import decode_index, decode_settled
from warren.store.inspect_streams import StreamReport, check_streams, dump_streams
from warren.store.log import LogStore
from warren.store.recovered import RecoveredLane
from warren.store.recovery import Survey
from warren.store.returned import read_returned
from warren.store.seen import notes_in
from warren.store.segment import ROW_SIZE, Row, Segment, index_name, segment_name, settled_name
from warren.store.walk import RecordWalk
from warren.store.whole_files import read_whole

# The folder of the message log within a data folder.
MESSAGES: Final = "messages"
_SEGMENT: Final = re.compile(r"\d{12}\.(log|index)")


class ReadingDisk(RealDisk):
    """The files of a store that belongs to somebody else."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self, name: str) -> int:
        return os.open(self._path(name), os.O_RDONLY | os.O_CLOEXEC)


@dataclass
class QueueReport:
    """What the log has of a queue; one for each priority level."""

    vhost: str
    queue: str
    level: int
    messages: int
    bytes: int


@dataclass
class SegmentReport:
    segment: int
    bytes: int
    entries: int
    live: int
    is_indexed: bool


@dataclass
class StoreReport:
    segments: list[SegmentReport] = field(default_factory=list)
    queues: list[QueueReport] = field(default_factory=list)
    streams: list[StreamReport] = field(default_factory=list)
    # How many things are declared, bound and set.
    definitions: int = 0
    # What was lost, or would be if nothing is done.
    damage: list[str] = field(default_factory=list)
    # What a crash or a broker at work leaves, and the next start tidies up.
    notes: list[str] = field(default_factory=list)


@dataclass
class Record:
    segment: int
    offset: int
    size: int
    kind: str
    facts: dict[str, object]


def open_folder(directory: Path) -> ReadingDisk:
    """Takes the data folder as well as the folder of the log in it."""
    folder = directory / MESSAGES if (directory / MESSAGES).is_dir() else directory
    if not folder.is_dir():
        raise WarrenError(f"there is no folder {folder}")
    disk = ReadingDisk(folder)
    try:
        names = disk.names()
    except OSError as error:
        raise WarrenError(f"cannot read {folder}: {error.strerror}") from error
    if not any(_SEGMENT.fullmatch(name) for name in names):
        raise WarrenError(f"there is no message log in {folder}: it is no data folder")
    return disk


def check(directory: Path) -> StoreReport:
    disk = open_folder(directory)
    try:
        return _check(disk)
    except OSError as error:
        raise WarrenError(f"cannot read {directory}: {error}") from error


def _check(disk: ReadingDisk) -> StoreReport:
    report = StoreReport()
    survey = Survey(disk)
    store = LogStore(disk)
    survey.fill(store)
    for line in store.log_lines:
        text = line.removeprefix("store: ")
        if "damaged" in text or "missing" in text:
            report.damage.append(text)
        else:
            report.notes.append(text)
    names = disk.names()
    for segment in store.segments.values():
        _check_files(disk, segment, names, report)
        if segment.indexed:
            _check_log(disk, store, segment, report)
        report.segments.append(
            SegmentReport(segment.number, segment.size, segment.entries, segment.live, segment.indexed)
        )
    for lane in store.unclaimed.lanes.values():
        report.queues.append(_queue_report(store, lane))
    report.streams = check_streams(disk, report.damage, report.notes)
    found = FoundDefinitions(disk)
    report.definitions = len(found.folded.values)
    report.damage += found.damage
    report.notes += found.notes
    for segment in store.segments.values():
        store.files.close(segment)
    return report


def _check_files(disk: ReadingDisk, segment: Segment, names: list[str], report: StoreReport) -> None:
    """The small files beside a segment: damage to them costs no message."""
    name = index_name(segment.number)
    if name in names and decode_index(read_whole(disk, name), segment.number) is None:
        report.damage.append(f"{name} is damaged; the segment is read instead")
    name = settled_name(segment.number)
    if name in names and segment.entries > 0 and not decode_settled(read_whole(disk, name), segment):
        report.damage.append(f"{name} is damaged; acknowledged messages may come back")


def _check_log(disk: ReadingDisk, store: LogStore, segment: Segment, report: StoreReport) -> None:
    """Of a segment that has an index, whose records are read only when they are wanted."""
    name = segment_name(segment.number)
    for start, end in damage_in_log(read_whole(disk, name)[: segment.size], segment.number, segment.size):
        report.damage.append(f"{name} is damaged from byte {start} to {end}")
        for run in segment.runs:
            if run.lane not in segment.lanes:
                continue
            lane = RecoveredLane(segment.lanes[run.lane])
            rows = store.read_rows(segment, run, 0, run.count)
            for at in range(0, len(rows), ROW_SIZE):
                row = Row(rows, at)
                if row.offset < end and row.offset + row.size > start and not segment.is_settled(row.ordinal):
                    report.damage.append(f"queue '{lane.name}' in vhost '{lane.vhost}' loses message {row.sequence}")


def _queue_report(store: LogStore, lane: RecoveredLane) -> QueueReport:
    report = QueueReport(lane.vhost, lane.name, lane.level, 0, 0)
    for segment, run in lane.runs:
        rows = store.read_rows(segment, run, 0, run.count)
        for at in range(0, len(rows), ROW_SIZE):
            row = Row(rows, at)
            if not segment.is_settled(row.ordinal):
                report.messages += 1
                report.bytes += row.body_size
    return report


def dump(directory: Path) -> Iterator[Record]:
    """Every record that is whole: of the definitions, of the log in its order, then of each stream."""
    disk = open_folder(directory)
    for ending in (BASE_ENDING, LOG_ENDING, ".log"):
        for name in disk.names():
            if name.endswith(ending) and name[: -len(ending)].isdigit():
                yield from _dump_file(disk, name, int(name[: -len(ending)]))
    try:
        for number, at, size, kind, facts in dump_streams(disk):
            yield Record(number, at, size, kind, facts)
    except OSError as error:
        raise WarrenError(f"cannot read {directory}: {error.strerror}") from error


def _dump_file(disk: ReadingDisk, name: str, number: int) -> Iterator[Record]:
    try:
        data = read_whole(disk, name)
    except OSError as error:
        raise WarrenError(f"cannot read {name}: {error.strerror}") from error
    walk = RecordWalk(data, FILE_HEADER_SIZE, number)
    while walk.next():
        kind, facts = _facts(walk)
        yield Record(number, walk.at, walk.end - walk.at, kind, facts)


def _facts(walk: RecordWalk) -> tuple[str, dict[str, object]]:
    kind, payload = walk.kind(), walk.payload()
    if kind == MESSAGE:
        return "message", _message_facts(walk.data, walk.at, walk.end)
    if kind == SETTLED:
        return "settled", {"entries": [_address(payload, place) for place in range(0, len(payload), 8)]}
    if kind == LANE_OPENED:
        lane = RecoveredLane(payload)
        facts: dict[str, object] = {"lane": lane.number, "vhost": lane.vhost, "queue": lane.name, "level": lane.level}
        facts["durable"] = lane.durable
        facts["delivered_up_to"] = lane.watermark
        return "lane opened", facts
    if kind == LANE_DELETED:
        return "lane deleted", {"lane": struct.unpack(">I", payload)[0]}
    if kind == SYNCED:
        segment, offset = struct.unpack(">QQ", payload)
        return "synced", {"segment": segment, "offset": offset}
    if kind == DELIVERED:
        number, mark = struct.unpack(">IQ", payload)
        return "delivered", {"lane": number, "up_to": mark}
    if kind == RETURNED:
        notes = read_returned(payload)
        return "returned", {"times": [[lane, *note] for lane, found in notes.items() for note in found.items()]}
    if kind == TOGETHER:
        return "together", {}
    if kind == SEEN:
        return "seen", {"notes": [[lane, key.decode("utf-8", "replace"), at] for lane, key, at in notes_in(payload)]}
    if kind == CHANGES:
        return "definitions", _definitions_facts(payload)
    if kind == BASE_END:
        return "end of base", {"definitions": struct.unpack(">Q", payload)[0]}
    return f"kind {kind}", {}


def _definitions_facts(payload: bytes) -> dict[str, object]:
    """What was put, and what is gone: password hashes are nobody's business."""
    put: list[object] = []
    gone: list[object] = []
    for key, value in changes_in(payload):
        (put if value else gone).append(json.loads(key))
    return {"put": put, "gone": gone}


def _address(payload: bytes, at: int) -> str:
    address = int(read_i64_be(payload, at))
    return f"{address >> 32}:{address & 0xFFFFFFFF}"


def _message_facts(data: bytes, at: int, end: int) -> dict[str, object]:
    message = read_message(data, at, end, None)
    places: list[dict[str, object]] = []
    for place in read_places(data, at):
        facts: dict[str, object] = {"lane": place.lane, "sequence": place.sequence}
        if place.expires_at >= 0:
            facts["expires_at"] = place.expires_at
        if place.moved_from != 0:
            facts["moved_from"] = f"{place.moved_from >> 32}:{place.moved_from & 0xFFFFFFFF}"
        places.append(facts)
    return {
        "exchange": message.origin.exchange,
        "keys": message.origin.keys,
        "persistent": message.persistent,
        "priority": message.priority,
        "places": places,
        "body": body_of(message.content),
    }
