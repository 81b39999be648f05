"""Looking into the files of streams without touching them; beside inspect.py, which looks into the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warren.amqp.frames import body_of
from warren.store.damage import damage_in_stream
from warren.store.disk import Disk
from warren.store.format import SEEN, SYNCED
from warren.store.seen import notes_in
from warren.store.stream_format import STREAM_MESSAGE, file_name, file_seed, read_file_header, read_stream_record
from warren.store.stream_recovery import StreamSurvey
from warren.store.streams import stream_files
from warren.store.walk import RecordWalk
from warren.store.whole_files import read_whole


@dataclass
class StreamReport:
    vhost: str
    stream: str
    files: int
    first_offset: int
    # The one that a message published now would get.
    next_offset: int
    messages: int
    bytes: int


def check_streams(disk: Disk, damage: list[str], notes: list[str]) -> list[StreamReport]:
    """What streams hold. What is wrong with them joins the lists."""
    names = disk.names()
    reports: list[StreamReport] = []
    for incarnation, numbers in stream_files(names).items():
        survey = StreamSurvey(disk, incarnation, numbers, names)
        for line in survey.lines:
            text = line.removeprefix("store: ")
            (damage if "lost" in text else notes).append(text)
        stream = survey.stream
        for segment in stream.segments:
            if segment.is_indexed:
                damage += _damage_in(disk, incarnation, int(segment.number), int(segment.size))
        reports.append(
            StreamReport(
                stream.vhost,
                stream.name,
                len(stream.segments),
                int(stream.segments[0].first_offset) if stream.segments else 0,
                int(stream.segments[-1].end_offset) if stream.segments else 0,
                stream.count(),
                sum(int(segment.body_bytes) for segment in stream.segments),
            )
        )
    return reports


def _damage_in(disk: Disk, incarnation: str, number: int, size: int) -> list[str]:
    """Of a file that has an index, whose records are read only when somebody wants them."""
    name = file_name(incarnation, number)
    found = damage_in_stream(read_whole(disk, name)[:size], incarnation, number, size)
    return [f"{name} is damaged from byte {start} to {end}" for start, end in found]


def dump_streams(disk: Disk) -> Iterator[tuple[int, int, int, str, dict[str, object]]]:
    """File number, position, size, kind and facts of every record that is whole."""
    for incarnation, numbers in stream_files(disk.names()).items():
        for number in numbers:
            data, seed = read_whole(disk, file_name(incarnation, number)), file_seed(incarnation, number)
            header = read_file_header(data, incarnation, number)
            stream = incarnation if header is None else header.name
            walk = RecordWalk(data, 0 if header is None else header.size, seed)
            while walk.next():
                at, size = int(walk.at), int(walk.end - walk.at)
                if walk.kind() == STREAM_MESSAGE:
                    yield number, at, size, "stream message", {"stream": stream, **_facts(data, at, at + size)}
                elif walk.kind() == SYNCED:
                    yield number, at, size, "stream synced", {"stream": stream}
                elif walk.kind() == SEEN:
                    notes = [[key.decode("utf-8", "replace"), value] for _, key, value in notes_in(walk.payload())]
                    yield number, at, size, "stream seen", {"stream": stream, "notes": notes}


def _facts(data: bytes, at: int, end: int) -> dict[str, object]:
    record = read_stream_record(data, at, end)
    wire = record.wire
    size = wire[0]
    exchange, key = wire[1 : 1 + size], wire[2 + size : 2 + size + wire[1 + size]]
    facts: dict[str, object] = {
        "stream_offset": int(record.offset),
        "timestamp": int(record.timestamp),
        "exchange": exchange.decode("utf-8", "replace"),
        "keys": [key.decode("utf-8", "replace")],
    }
    if record.filter_value is not None:
        facts["filter"] = record.filter_value.decode("utf-8", "replace")
    return {**facts, "body": body_of(wire[record.suffix_size :])}
