"""Records of a stream as entries of a queue, for whoever looks into both in the same way."""

from __future__ import annotations

from mypy_extensions import i64

from warren.amqp.frames import body_of
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.queue.stream_log import KEPT_CHANNEL, StreamLog, StreamRecord


def browse_stream(queue: Queue, log: StreamLog, after: i64, limit: i64) -> list[Entry]:
    entries: list[Entry] = []
    cursor = log.cursor(after)
    while len(entries) < limit:
        record = cursor.next()
        if record is None:
            break
        entries.append(Entry(message_of(record), queue, record.offset + 1, NEVER))
    cursor.close()
    return entries


def message_of(record: StreamRecord) -> Message:
    wire = record.wire
    size = wire[0]
    exchange = wire[1 : 1 + size].decode("utf-8", "surrogateescape")
    key = wire[2 + size : 2 + size + wire[1 + size]].decode("utf-8", "surrogateescape")
    content = wire[record.suffix_size :]
    return Message(Origin(exchange, [key]), content, KEPT_CHANNEL, len(body_of(content)))
