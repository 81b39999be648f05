"""Two small files beside a sealed segment: its index (what a scan of its records would tell) and its settled bits.

Both carry a version and a checksum over the whole file. A file that is missing or damaged costs a scan, no message.
"""

from __future__ import annotations

import struct
from typing import Final

from warren.checksum import crc32
from warren.store.segment import ROW_SIZE, LaneRun, Segment

VERSION: Final = 1
_INDEX_MAGIC: Final = b"WARRENIX"
_SETTLED_MAGIC: Final = b"WARRENST"
_HEAD: Final = struct.Struct(">8sHQQQIIIIQ")
_RUN: Final = struct.Struct(">IQQQqQ")


def encode_index(segment: Segment) -> tuple[list[bytes], list[int]]:
    """The file but for its checksum, in pieces, and where in it the rows of each run begin."""
    rows: list[bytes] = []
    settled = segment.settled_here.getvalue()
    lanes = b"".join([struct.pack(">H", len(payload)) + payload for payload in segment.lanes.values()])
    deleted = b"".join([struct.pack(">I", number) for number in segment.deleted_lanes])
    marks = b"".join([struct.pack(">IQ", number, mark) for number, mark in segment.watermarks.items()])
    at = _HEAD.size + len(lanes) + len(deleted) + len(marks) + len(settled) + _RUN.size * len(segment.runs)
    offsets: list[int] = []
    directory: list[bytes] = []
    for run in segment.runs:
        directory.append(_RUN.pack(run.lane, run.count, run.transients, run.body_bytes, run.first_sequence, at))
        offsets.append(at)
        rows += run.chunks()
        at += run.count * ROW_SIZE
    head = _HEAD.pack(
        _INDEX_MAGIC,
        VERSION,
        segment.number,
        segment.size,
        segment.entries,
        len(segment.lanes),
        len(segment.deleted_lanes),
        len(segment.watermarks),
        len(segment.runs),
        len(settled),
    )
    # Last, and told by the length of the file: indexes of earlier releases have none of it.
    return [head, lanes, deleted, marks, settled, *directory, *rows, *segment.returned], offsets


def join_index(pieces: list[bytes]) -> bytes:
    """As it stands in the file. Of ten megabytes that takes long enough for a thread."""
    crc = 0
    for piece in pieces:
        crc = crc32(piece, crc)
    return b"".join([*pieces, struct.pack(">I", crc)])


def decode_index(data: bytes, number: int) -> Segment | None:
    """The segment as its index tells it, nothing settled yet; None when the file is damaged or another's."""
    if len(data) < _HEAD.size + 4 or crc32(data[:-4]) != struct.unpack(">I", data[-4:])[0]:
        return None
    magic, version, own, size, entries, lanes, deleted, marks, runs, settled = _HEAD.unpack(data[: _HEAD.size])
    if magic != _INDEX_MAGIC or version != VERSION or own != number:
        return None
    segment = Segment(number)
    segment.sealed = True
    segment.indexed = True
    segment.size = size
    segment.entries = entries
    segment.live = entries
    segment.settled = bytearray((entries + 7) // 8)
    at = _HEAD.size
    for _ in range(lanes):
        length = struct.unpack(">H", data[at : at + 2])[0]
        payload = data[at + 2 : at + 2 + length]
        segment.lanes[struct.unpack(">I", payload[:4])[0]] = payload
        at += 2 + length
    for _ in range(deleted):
        segment.deleted_lanes.append(struct.unpack(">I", data[at : at + 4])[0])
        at += 4
    for _ in range(marks):
        lane, mark = struct.unpack(">IQ", data[at : at + 12])
        segment.watermarks[lane] = mark
        at += 12
    segment.settled_here.write(data[at : at + settled])
    at += settled
    for _ in range(runs):
        segment.runs.append(_decode_run(data, at))
        at += _RUN.size
    at += sum([run.count * ROW_SIZE for run in segment.runs])
    if at < len(data) - 4:
        segment.returned.append(data[at:-4])
    return segment


def _decode_run(data: bytes, at: int) -> LaneRun:
    lane, count, transients, body_bytes, first, offset = _RUN.unpack(data[at : at + _RUN.size])
    run = LaneRun(lane)
    run.count = count
    run.transients = transients
    run.body_bytes = body_bytes
    run.first_sequence = first
    run.now_in_file(offset)
    return run


def encode_settled(segment: Segment) -> bytes:
    body = _SETTLED_MAGIC + struct.pack(">HQQ", VERSION, segment.number, segment.entries) + bytes(segment.settled)
    return body + struct.pack(">I", crc32(body))


def decode_settled(data: bytes, segment: Segment) -> bytes:
    """The bits, or none when the file is damaged or another's. A damaged log may have fewer entries than bits."""
    if len(data) < 30 or crc32(data[:-4]) != struct.unpack(">I", data[-4:])[0]:
        return b""
    if data[:18] != _SETTLED_MAGIC + struct.pack(">HQ", VERSION, segment.number):
        return b""
    return data[26:-4]
