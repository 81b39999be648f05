"""Who reads a stream: a cursor of its own, filters, and deliveries of one message or of a run of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import write_i64_be
from mypy_extensions import i64

from warren.amqp.constants import FRAME_END, FRAME_OVERHEAD, STREAM_OFFSET
from warren.amqp.fields import Field, Table
from warren.amqp.frames import needs_reframing, rechannel, reframe
from warren.amqp.stamp import stamped
from warren.amqp.stream_run import ARRIVED_AT, RUN_HEAD_SIZE, RUN_SUFFIX, RUNS_ARGUMENT, StreamRun, write_run_head
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.entry import Entry
from warren.broker.queue.stream_log import KEPT_CHANNEL, RECORD_OVERHEAD, StreamCursor, StreamLog, StreamRecord
from warren.broker.rules.arguments import resource
from warren.broker.rules.setting_kinds import age_in_ms, integer, is_integer
from warren.broker.stream.stream_archive import ArchiveNotice
from warren.errors import NotImplementedByBroker, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.recipient import Recipient
    from warren.broker.stream.stream import Stream

# Whoever is no further behind than this keeps up, until it has fallen back a good deal.
LIVE_BYTES: Final[i64] = 1 << 20
LOST_BYTES: Final[i64] = 64 << 20
# Of messages that one delivery carries.
RUN_BYTES: Final[i64] = 131072
# Beyond any offset and any date.
_FAR: Final = 1 << 52


class StreamConsumer(Consumer):
    def __init__(self, channel: Recipient, queue: Stream, tag: str, exclusive: bool, arguments: Table) -> None:
        super().__init__(channel, queue, tag, False, exclusive, 0, arguments)
        self.cursor: StreamCursor = _cursor(queue, arguments.get(STREAM_OFFSET))
        self._filters = _filters(arguments.get("x-stream-filter"))
        unfiltered = arguments.get("x-stream-match-unfiltered")
        self._takes_unfiltered = unfiltered is not None and unfiltered.value is True
        runs = arguments.get(RUNS_ARGUMENT)
        # Filters go by the message.
        self.takes_runs = self._filters is None and runs is not None and runs.value is True
        # Whatever it wants: it takes out what is put in for it.
        self._knows_runs = runs is not None
        # Stands for every message alike in the channel's list of what is unacked: an ack is worth one place.
        self.place = Entry(Message(Origin("", [""]), b"", 0, 0), queue, 0, NEVER)
        self.place.consumer = self
        self._is_live = False

    def is_live(self, log: StreamLog) -> bool:
        """It keeps up with what is published, as far as sizes on average tell."""
        allowed = LOST_BYTES if self._is_live else LIVE_BYTES
        behind = log.committed - self.cursor.next_offset
        self._is_live = behind * (log.body_bytes // max(log.length, 1) + RECORD_OVERHEAD) <= allowed
        return self._is_live

    def wants(self, record: StreamRecord) -> bool:
        filters = self._filters
        if filters is None:
            return True
        value = record.filter_value
        return self._takes_unfiltered if value is None else value in filters

    def send_record(self, record: StreamRecord) -> None:
        channel = self.channel
        outlet = channel.outlet
        size = record.suffix_size
        wire = record.wire
        if self._knows_runs:
            wire = wire[:size] + stamped(wire[size:], KEPT_CHANNEL, ARRIVED_AT, record.timestamp)
        self.unacked += 1
        tag = channel.unacked.add(self.place)
        out = outlet.output()
        out.write(self.deliver_head(size))
        write_i64_be(out, tag)
        out.append(0)
        if channel.number == KEPT_CHANNEL and len(wire) <= outlet.frame_max:
            out.write(wire)
        else:
            content = wire[size:]
            out.write(wire[:size])
            if needs_reframing(content, outlet.frame_max):
                out.write(reframe(content, channel.number, outlet.frame_max))
            else:
                out.write(rechannel(content, channel.number))
        outlet.wrote(len(wire) + 32)

    def next_run(self) -> StreamRun | None:
        """As long as a frame and the prefetch allow."""
        most_bytes = min(RUN_BYTES, self.channel.outlet.frame_max - FRAME_OVERHEAD - RUN_HEAD_SIZE)
        return self.cursor.next_run(most_bytes, self.prefetch - self.unacked)

    def send_run(self, run: StreamRun) -> None:
        channel = self.channel
        outlet = channel.outlet
        self.unacked += run.count
        tag = channel.unacked.add(RunPlace(self.place.message, self, run.count))
        out = outlet.output()
        out.write(self.deliver_head(len(RUN_SUFFIX)))
        write_i64_be(out, tag)
        out.append(0)
        out.write(RUN_SUFFIX)
        write_run_head(out, channel.number, run)
        outlet.write_large(run.data)
        outlet.output().append(FRAME_END)
        outlet.wrote(len(run.data))


class RunPlace(Entry):
    """What is unacked of a run: an ack is worth as many places as there are messages in it."""

    def __init__(self, message: Message, consumer: StreamConsumer, count: i64) -> None:
        super().__init__(message, consumer.queue, 0, NEVER)
        self.consumer = consumer
        self.count: i64 = count


def check_stream_consumer(channel: Recipient, queue: Stream, no_ack: bool) -> None:
    what = resource("queue", queue.name, queue.vhost)
    if channel.consumer_prefetch == 0:
        raise PreconditionFailed(f"consumer prefetch count is not set for stream {what}")
    if no_ack:
        raise NotImplementedByBroker(f"automatic acknowledgement not supported by stream {what}")
    if channel.prefetch != 0:
        raise NotImplementedByBroker(f"{what} does not support global qos")


def _cursor(queue: Stream, field: Field | None) -> StreamCursor:
    if field is not None and field.value == "archive":
        return ArchiveNotice(queue.log)
    return queue.log.cursor(_start(queue, field))


def _start(queue: Stream, field: Field | None) -> i64:
    """x-stream-offset: where to begin."""
    log = queue.log
    if field is None or field.value == "next":
        return log.next_offset
    if field.value == "first":
        return log.first_offset
    if field.value == "last":
        return max(log.committed - 1, log.first_offset)
    if field.tag == "T" and isinstance(field.value, int):
        return log.offset_at(min(field.value, _FAR) * 1000)
    if is_integer(field):
        return min(max(integer(field), 0), _FAR)
    age = age_in_ms(field.value) if isinstance(field.value, str) else 0
    if age == 0:
        raise PreconditionFailed(
            f"invalid arg '{STREAM_OFFSET}' for {resource('queue', queue.name, queue.vhost)}: "
            "use first, last, next, an offset, a timestamp or an interval such as 1h"
        )
    return log.offset_at(queue.node.now - age)


def _filters(field: Field | None) -> list[bytes] | None:
    """x-stream-filter: one string or several; what is neither filters nothing, as in RabbitMQ."""
    if field is None:
        return None
    if field.tag == "A" and isinstance(field.value, list):
        found = [filter_text(item) for item in field.value]
        return [value for value in found if value is not None]
    value = filter_text(field)
    return None if value is None else [value]


def filter_text(field: Field) -> bytes | None:
    value = field.value
    if field.tag != "S":
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else None
