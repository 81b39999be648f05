"""Takes deliveries apart in bulk: frames in, columns of bytes out, without an object for each message.

The frames are kept as they came, and a column that every message has is where its values begin and end in them
(little-endian, 32 bits). Properties that most messages lack cost those messages nothing: their columns are the values
one after another, where each ends, and which rows have one. One header, the place of the message in its stream or
queue, becomes a column of its own and is cut out of the table.
"""

from __future__ import annotations

import json
from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from warren.amqp import properties
from warren.amqp.constants import (
    BASIC_DELIVER,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    FRAME_PREFIX,
)
from warren.amqp.fields import Field, plain
from warren.amqp.numbers import write_u32
from warren.amqp.stream_run import ARRIVED_AT
from warren.amqp.tables import after_value, check_table, decode_table
from warren.errors import FrameError

# class(2) weight(2) body size(8) flags(2)
_HEADER_FIXED: Final = 14
_S: Final = 0x53
_LONG: Final = 0x6C
_NO_PLACE: Final = -1
_NO_TIME: Final = -1
# An entry of a table: ARRIVED_AT as a long, as far as its value.
_ARRIVED_HEAD: Final = bytes([len(ARRIVED_AT)]) + ARRIVED_AT + b"l"
_ARRIVED_SIZE: Final = len(_ARRIVED_HEAD) + 8


class Column:
    """A value for every row: where it begins in Deliveries.frames() and where it ends, in turn. None overlap."""

    def __init__(self) -> None:
        self.edges = BytesWriter()

    def add(self, start: i64, end: i64) -> None:
        write_i32_le(self.edges, i32(start))
        write_i32_le(self.edges, i32(end))


class SparseColumn:
    """A value for some rows, and which."""

    def __init__(self) -> None:
        self.rows = BytesWriter()
        self.values = BytesWriter()
        self.ends = BytesWriter()

    def add(self, row: i64, data: bytes) -> None:
        write_i32_le(self.rows, i32(row))
        self.values.write(data)
        size: i64 = len(self.values)
        write_i32_le(self.ends, i32(size))


class SparseNumbers:
    def __init__(self) -> None:
        self.rows = BytesWriter()
        self.values = BytesWriter()

    def add(self, row: i64, value: i64) -> None:
        write_i32_le(self.rows, i32(row))
        write_i64_le(self.values, value)


class Deliveries:
    def __init__(self, place_header: str) -> None:
        self.count: i64 = 0
        # The frames, with room behind them, and how long they are. Whoever collects should stop well before 2 GiB,
        # because places in them have 32 bits.
        self._frames = memoryview(b"")
        self.size: i64 = 0
        # What to add to a place in the data that is being taken, and how much of it is in the frames already.
        self._shift: i64 = 0
        self._kept: i64 = 0
        self.last_tag: i64 = 0
        # Of the messages that came first and last; -1 as long as none had any.
        self.first_place: i64 = _NO_PLACE
        self.last_place: i64 = _NO_PLACE
        # What `take` stopped at is not a delivery but something else, or something else lies within it.
        self.is_interrupted = False
        self.body = Column()
        self.exchange = Column()
        self.routing_key = Column()
        self.places = BytesWriter()
        # When each was stored: milliseconds, 64 bits, little-endian; -1 where the broker does not tell.
        self.times = BytesWriter()
        self._time: i64 = _NO_TIME
        self.redelivered = BytesWriter()
        self.headers = SparseColumn()
        # One by one: which row, its name, its value as text.
        self.header_names = SparseColumn()
        self.header_values = SparseColumn()
        self.content_type = SparseColumn()
        self.content_encoding = SparseColumn()
        self.delivery_mode = SparseNumbers()
        self.priority = SparseNumbers()
        self.correlation_id = SparseColumn()
        self.reply_to = SparseColumn()
        self.expiration = SparseColumn()
        self.message_id = SparseColumn()
        self.timestamp = SparseNumbers()
        self.type = SparseColumn()
        self.user_id = SparseColumn()
        self.app_id = SparseColumn()
        self.cluster_id = SparseColumn()
        name = place_header.encode()
        assert not name or 8 <= len(name) <= 16, name
        # No name is as short as that of no header.
        self._place_width: i64 = len(name) or -1
        self._place_head: i64 = read_i64_be(name, 0) if name else 0
        self._place_tail: i64 = read_i64_be(name, len(name) - 8) if name else 0
        self._first: i64 = 0
        self._end: i64 = 0x7FFFFFFFFFFFFFFF

    def limit(self, first: i64, end: i64) -> None:
        """Leave out messages whose place is before `first`, or at `end` or later."""
        self._first = first
        self._end = end

    def take(self, data: bytes, at: i64, most: i64) -> i64:
        """Take whole deliveries from `at` on until there are `most` more rows, and return where they end."""
        self.is_interrupted = False
        self._begin(at)
        size: i64 = len(data)
        enough = self.count + most
        while self.count < enough:
            after = self._take_one(data, at, size)
            if after == at:
                break
            at = after
        self._keep(data, self._kept, at)
        return at

    def frames(self) -> memoryview:
        """What the edges of columns are places in."""
        return self._frames[: self.size]

    def use(self, memory: memoryview) -> None:
        """Memory to begin with, that nobody else looks at. New memory costs more than what is copied into it."""
        self._frames = memory

    def give_up(self) -> memoryview:
        """The memory, once the rows are somewhere else."""
        memory, self._frames = self._frames, memoryview(b"")
        self.size = 0
        return memory

    def _begin(self, at: i64) -> None:
        self._kept = at
        self._shift = self.size - at

    def _keep(self, data: bytes, start: i64, end: i64) -> None:
        if end == start:
            return
        size = self.size + end - start
        if size > len(self._frames):
            grown = memoryview(bytearray(2 * size))
            grown[: self.size] = self.frames()
            self._frames = grown
        self._frames[self.size : size] = memoryview(data)[start:end]
        self.size = size

    def _take_one(self, data: bytes, at: i64, size: i64) -> i64:
        """Returns `at` as long as the delivery there is not whole, or when there is none."""
        header_at = self._frame_after(data, at, size, FRAME_METHOD)
        if header_at == at:
            return at
        if (i64(read_i32_be(data, at + FRAME_PREFIX)) & 0xFFFFFFFF) != BASIC_DELIVER:
            self.is_interrupted = True
            return at
        body_at = self._frame_after(data, header_at, size, FRAME_HEADER)
        if body_at == header_at:
            return at
        body_size: i64 = read_i64_be(data, header_at + FRAME_PREFIX + 4)
        after: i64 = body_at
        missing: i64 = body_size
        while missing > 0:
            next_at = self._frame_after(data, after, size, FRAME_BODY)
            if next_at == after:
                return at
            missing -= next_at - after - FRAME_OVERHEAD
            after = next_at
        if missing != 0:
            raise FrameError("the broker sent a body of another size than announced")
        self._add(data, at, header_at, body_at, after)
        return after

    def _frame_after(self, data: bytes, at: i64, size: i64, kind: i64) -> i64:
        """Where the frame at `at` ends; `at` when it is not whole or not of this kind."""
        if size - at < FRAME_OVERHEAD:
            return at
        found: i64 = i64(data[at])
        if found != kind:
            if found != FRAME_METHOD and found != FRAME_HEARTBEAT:
                raise FrameError(f"the broker sent an unexpected frame of type {found}")
            self.is_interrupted = True
            return at
        after: i64 = at + FRAME_OVERHEAD + (i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF)
        if after > size:
            return at
        if i64(data[after - 1]) != FRAME_END:
            raise FrameError("the broker sent a frame without an end")
        return after

    def _add(self, data: bytes, at: i64, header_at: i64, body_at: i64, after: i64) -> None:
        properties_at: i64 = header_at + FRAME_PREFIX + _HEADER_FIXED
        flags: i64 = i64(read_i16_be(data, properties_at - 2)) & 0xFFFF
        # A short string, the consumer tag, stands between the method's id and the delivery tag.
        tag_at: i64 = at + FRAME_PREFIX + 5 + i64(data[at + FRAME_PREFIX + 4])
        self.last_tag = read_i64_be(data, tag_at)
        place = self._place_of(data, properties_at, flags)
        if self._is_left_out(place):
            return
        self.redelivered.append(i64(data[tag_at + 8]) & 1)
        self._add_row(data, place, tag_at + 9, header_at, body_at, after)

    def _is_left_out(self, place: i64) -> bool:
        if place != _NO_PLACE:
            if self.last_place == _NO_PLACE:
                self.first_place = place
            self.last_place = place
            return place < self._first or place >= self._end
        return False

    def _add_row(self, data: bytes, place: i64, exchange_at: i64, header_at: i64, body_at: i64, after: i64) -> None:
        """The end of basic.deliver from the exchange on, the header frame and the body frames: where each begins."""
        key_at: i64 = exchange_at + 1 + i64(data[exchange_at])
        shift = self._shift
        self.exchange.add(shift + exchange_at + 1, shift + key_at)
        self.routing_key.add(shift + key_at + 1, shift + key_at + 1 + i64(data[key_at]))
        write_i64_le(self.places, place)
        properties_at: i64 = header_at + FRAME_PREFIX + _HEADER_FIXED
        flags: i64 = i64(read_i16_be(data, properties_at - 2)) & 0xFFFF
        if flags != 0:
            self._add_properties(data, properties_at, body_at - 1, flags)
        self._add_body(data, body_at, after)
        write_i64_le(self.times, self._time)
        self._time = _NO_TIME
        self.count += 1

    def _add_body(self, data: bytes, at: i64, after: i64) -> None:
        if at == after or at + FRAME_OVERHEAD + (i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF) == after:
            start = self._shift + min(at + FRAME_PREFIX, after)
            self.body.add(start, max(start, self._shift + after - 1))
            return
        # In several frames: the parts follow those together.
        self._keep(data, self._kept, after)
        start = self.size
        while at < after:
            end: i64 = at + FRAME_OVERHEAD + (i64(read_i32_be(data, at + 3)) & 0xFFFFFFFF)
            self._keep(data, at + FRAME_PREFIX, end - 1)
            at = end
        self.body.add(start, self.size)
        self._begin(after)

    def _place_of(self, data: bytes, at: i64, flags: i64) -> i64:
        if not flags & properties.HEADERS:
            return _NO_PLACE
        if flags & properties.CONTENT_TYPE:
            at += 1 + i64(data[at])
        if flags & properties.CONTENT_ENCODING:
            at += 1 + i64(data[at])
        end: i64 = at + 4 + (i64(read_i32_be(data, at)) & 0xFFFFFFFF)
        found = self._find_place(data, at + 4, end)
        return _NO_PLACE if found < 0 else i64(read_i64_be(data, found + 2 + self._place_width))

    def _find_place(self, data: bytes, at: i64, end: i64) -> i64:
        """Where the entry with our header begins; -1 without one."""
        width = self._place_width
        while at < end:
            size: i64 = i64(data[at])
            value_at: i64 = at + 1 + size
            # Two reads that overlap, and no object is made to compare with.
            if size == width and i64(data[value_at]) == _LONG:
                head, tail = read_i64_be(data, at + 1), read_i64_be(data, value_at - 8)
                if head == self._place_head and tail == self._place_tail:
                    return at
            at = after_value(data, value_at)
        return -1

    def _add_properties(self, data: bytes, at: i64, end: i64, flags: i64) -> None:
        row = self.count
        if flags & properties.CONTENT_TYPE:
            at = _add_text(self.content_type, row, data, at)
        if flags & properties.CONTENT_ENCODING:
            at = _add_text(self.content_encoding, row, data, at)
        if flags & properties.HEADERS:
            at = self._add_headers(data, at)
        if flags & properties.DELIVERY_MODE:
            self.delivery_mode.add(row, i64(data[at]))
            at += 1
        if flags & properties.PRIORITY:
            self.priority.add(row, i64(data[at]))
            at += 1
        if flags & properties.CORRELATION_ID:
            at = _add_text(self.correlation_id, row, data, at)
        if flags & properties.REPLY_TO:
            at = _add_text(self.reply_to, row, data, at)
        if flags & properties.EXPIRATION:
            at = _add_text(self.expiration, row, data, at)
        if flags & properties.MESSAGE_ID:
            at = _add_text(self.message_id, row, data, at)
        if flags & properties.TIMESTAMP:
            self.timestamp.add(row, read_i64_be(data, at))
            at += 8
        if flags & properties.TYPE:
            at = _add_text(self.type, row, data, at)
        if flags & properties.USER_ID:
            at = _add_text(self.user_id, row, data, at)
        if flags & properties.APP_ID:
            at = _add_text(self.app_id, row, data, at)
        if flags & properties.CLUSTER_ID:
            at = _add_text(self.cluster_id, row, data, at)
        if at != end:
            raise FrameError("the broker sent properties of another size than announced")

    def _add_headers(self, data: bytes, at: i64) -> i64:
        start: i64 = at + 4
        end: i64 = start + (i64(read_i32_be(data, at)) & 0xFFFFFFFF)
        place_at = self._find_place(data, start, end)
        if place_at < 0:
            check_table(data, start, end)
            self.headers.add(self.count, data[at:end])
            self._list_headers(data, start, end)
            return end
        place_end = self._take_time(data, place_at + 10 + self._place_width, end)
        if place_at == start and place_end == end:
            # Nothing but what the broker put there.
            return end
        rest = BytesWriter()
        write_u32(rest, end - start - (place_end - place_at))
        rest.write(data[start:place_at])
        rest.write(data[place_end:end])
        table = rest.getvalue()
        check_table(table, 4, len(table))
        self.headers.add(self.count, table)
        self._list_headers(table, 4, len(table))
        return end

    def _take_time(self, data: bytes, at: i64, end: i64) -> i64:
        """Where the entry at `at` ends if it is the time, else `at`. A record knows better than its message."""
        if self._time != _NO_TIME or end - at < _ARRIVED_SIZE or not data.startswith(_ARRIVED_HEAD, at):
            return at
        self._time = read_i64_be(data, at + len(_ARRIVED_HEAD))
        return at + _ARRIVED_SIZE

    def _list_headers(self, data: bytes, at: i64, end: i64) -> None:
        """Name and text of each. A checked table."""
        # Of a repeated name only the first counts, which a table of objects takes care of.
        if _has_only_texts(data, at, end):
            while at < end:
                value_at: i64 = at + 1 + i64(data[at])
                after = after_value(data, value_at)
                self.header_names.add(self.count, data[at + 1 : value_at])
                self.header_values.add(self.count, data[value_at + 5 : after])
                at = after
            return
        for name, field in decode_table(data, at, end).items():
            self.header_names.add(self.count, name.encode("utf-8", "surrogateescape"))
            self.header_values.add(self.count, text_of(field).encode("utf-8", "replace"))


def text_of(field: Field) -> str:
    """A header's value for people and SQL: strings as they are, everything else as JSON writes it."""
    value = plain(field)
    return value if isinstance(value, str) else json.dumps(value)


def _add_text(column: SparseColumn, row: i64, data: bytes, at: i64) -> i64:
    after: i64 = at + 1 + i64(data[at])
    column.add(row, data[at + 1 : after])
    return after


def _has_only_texts(data: bytes, at: i64, end: i64) -> bool:
    names: set[bytes] = set()
    while at < end:
        value_at: i64 = at + 1 + i64(data[at])
        name = data[at + 1 : value_at]
        if i64(data[value_at]) != _S or name in names:
            return False
        names.add(name)
        at = after_value(data, value_at)
    return True
