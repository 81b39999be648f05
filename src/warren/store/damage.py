"""Which parts of a file are not what was written, as far as its own checksums tell."""

from __future__ import annotations

from warren.store.definitions import BASE_ENDING, LOG_ENDING
from warren.store.disk import Disk
from warren.store.format import FILE_HEADER_SIZE, read_file_header
from warren.store.index import decode_index
from warren.store.segment import index_name, segment_name
from warren.store.stream_format import FILE_ENDING, INDEX_ENDING, file_seed, parse_name
from warren.store.stream_format import read_file_header as read_stream_header
from warren.store.stream_segment import decode_index as decode_stream_index
from warren.store.walk import RecordWalk, next_record
from warren.store.whole_files import read_start

# From where to where.
Parts = list[tuple[int, int]]


def damaged_parts(disk: Disk, name: str, size: int) -> Parts:
    """Of the first `size` bytes of any file of a store. Of a kind that has no checksums, none. Zeros at the end are the
    room that it was created with."""
    data = read_start(disk, name, size)
    return [part for part in _damaged_parts(data, name, size) if part[1] < size or data[part[0] :].strip(b"\0")]


def _damaged_parts(data: bytes, name: str, size: int) -> Parts:
    in_stream, index_of_stream = parse_name(name, FILE_ENDING), parse_name(name, INDEX_ENDING)
    if in_stream is not None:
        return damage_in_stream(data, in_stream[0], in_stream[1], size)
    if index_of_stream is not None:
        return [] if decode_stream_index(data, *index_of_stream) is not None else [(0, size)]
    stem = name.partition(".")[0]
    if not stem.isdigit():
        return []
    number = int(stem)
    if name == index_name(number):
        return [] if decode_index(data, number) is not None else [(0, size)]
    if name == segment_name(number) or name.endswith((LOG_ENDING, BASE_ENDING)):
        return damage_in_log(data, number, size)
    return []


def damage_in_log(data: bytes, number: int, size: int) -> Parts:
    """Of a segment of messages, or a file of definitions, that should have so many bytes."""
    found = [(0, int(FILE_HEADER_SIZE))] if read_file_header(data, number) < 0 else []
    return found + _damaged_records(data, int(FILE_HEADER_SIZE), number, size)


def damage_in_stream(data: bytes, incarnation: str, number: int, size: int) -> Parts:
    seed = file_seed(incarnation, number)
    header = read_stream_header(data, incarnation, number)
    if header is not None:
        return _damaged_records(data, header.size, seed, size)
    start = int(next_record(data, 0, seed))
    end = start if start >= 0 else len(data)
    return [(0, end), *_damaged_records(data, end, seed, size)]


def _damaged_records(data: bytes, start: int, seed: int, size: int) -> Parts:
    walk = RecordWalk(data, start, seed)
    walk.survey()
    return walk.damage + ([(len(data), size)] if len(data) < size else [])
