"""A stream: a queue whose messages stay. It appends what is published, and consumers read it where they like.

Reading removes nothing, so an ack only makes room for the next delivery, and so do nack and reject. Each consumer has
a cursor; what leaves a stream leaves by retention (stream_log.py). Everything is durable, whatever its publisher said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i16_be, read_i32_be, write_i64_be
from mypy_extensions import i64

from warren.amqp.constants import FRAME_END, FRAME_OVERHEAD
from warren.amqp.fields import Field, Table
from warren.amqp.frames import needs_reframing, rechannel, reframe
from warren.amqp.properties import HEADERS
from warren.amqp.stamp import stamped
from warren.amqp.stream_run import ARRIVED_AT, RUN_HEAD_SIZE, RUN_SUFFIX, RUNS_ARGUMENT, StreamRun, write_run_head
from warren.broker.message import NEVER, Message, Origin
from warren.broker.queue.backing import Backing
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.entry import Entry
from warren.broker.queue.outcome import TAKEN
from warren.broker.queue.queue import Queue
from warren.broker.queue.stream_log import (
    KEPT_CHANNEL,
    RECORD_OVERHEAD,
    SEGMENT_BYTES,
    StreamCursor,
    StreamLog,
    StreamRecord,
)
from warren.broker.rules.arguments import resource
from warren.broker.rules.queue_settings import age_in_ms, integer, is_integer
from warren.broker.stream.stream_archive import ArchiveNotice
from warren.broker.stream.stream_browse import browse_stream, message_of
from warren.errors import NotImplementedByBroker, PreconditionFailed

if TYPE_CHECKING:
    from warren.broker.queue.outlet import Outlet
    from warren.broker.queue.recipient import Recipient
    from warren.broker.queue.yard import Yard

# What is read in a turn by one consumer and by all of a stream, of those who replay what was published long ago.
READER_BYTES: Final[i64] = 65536
TURN_BYTES: Final[i64] = 262144
# All of them while somebody has more to publish than a turn takes: publishing comes first, and who keeps up with it.
PRESSED_BYTES: Final[i64] = 16384
# Whoever is no further behind than this keeps up, until it has fallen back a good deal.
LIVE_BYTES: Final[i64] = 1 << 20
LOST_BYTES: Final[i64] = 64 << 20
LIVE_READER_BYTES: Final[i64] = 262144
LIVE_TURN_BYTES: Final[i64] = 1 << 20
# Of messages that one delivery carries.
RUN_BYTES: Final[i64] = 131072
_FILTER_VALUE: Final = "x-stream-filter-value"
_FILTER_VALUE_BYTES: Final = b"x-stream-filter-value"
# In a content header frame: where the property flags stand.
_FLAGS_AT: Final[i64] = 19
# Beyond any offset and any date.
_FAR: Final = 1 << 52


class StreamConsumer(Consumer):
    def __init__(self, channel: Recipient, queue: Stream, tag: str, exclusive: bool, arguments: Table) -> None:
        super().__init__(channel, queue, tag, False, exclusive, 0, arguments)
        self.cursor: StreamCursor = _cursor(queue, arguments.get("x-stream-offset"))
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


class Stream(Queue):
    def __init__(
        self,
        node: Yard,
        vhost: str,
        name: str,
        type_: str,
        durable: bool,
        auto_delete: bool,
        owner: Outlet | None,
        arguments: Table,
        incarnation: str = "",
    ) -> None:
        super().__init__(node, vhost, name, type_, durable, auto_delete, owner, arguments, incarnation)
        self.keeps_all = True
        backing = self.backing
        assert isinstance(backing, StreamLog)
        self.log: StreamLog = backing
        self.readers: list[StreamConsumer] = []
        # Whose turn it was last.
        self._turn: i64 = 0
        # What may still be read in the node's turn `_shared_in`.
        self._shared_in: i64 = -1
        self._live_rest: i64 = 0
        self._replay_rest: i64 = 0
        self._set_retention()

    def _open_backing(self) -> Backing:
        return self.node.store.open_stream(self)

    def browse(self, after: i64, limit: i64) -> list[Entry]:
        """An offset is a sequence less one: sequences begin with 1."""
        return browse_stream(self, self.log, after, limit)

    # -- in --------------------------------------------------------------------------------------------------------

    def _take(self, message: Message) -> i64:
        node = self.node
        self.counters.published += 1
        log = self.log
        log.append(message, _filter_value(message), node.now)
        if self.readers and log.committed == log.next_offset:
            node.drain_soon(self)
        return TAKEN

    # -- out -------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Everybody gets a little, and whoever could take more goes on in the next turn."""
        self._share_out()
        readers = self.readers
        count: i64 = len(readers)
        goes_on = False
        turn = self._turn
        for _ in range(count):
            turn = turn + 1 if turn + 1 < count else 0
            reader = readers[turn]
            is_live = reader.is_live(self.log)
            if (self._live_rest if is_live else self._replay_rest) <= 0:
                goes_on = True
                continue
            most = LIVE_READER_BYTES if is_live else READER_BYTES
            used = self._feed(reader, most)
            if is_live:
                self._live_rest -= used
            else:
                self._replay_rest -= used
            if used >= most:
                goes_on = True
        self._turn = turn
        if goes_on:
            self.node.drain_later(self)

    def _share_out(self) -> None:
        """Once in a turn. Who took too much in the last one, such as a long run, has less in this."""
        node = self.node
        if node.turns == self._shared_in:
            return
        self._shared_in = node.turns
        replay = PRESSED_BYTES if node.is_pressed else TURN_BYTES
        self._live_rest = min(self._live_rest + LIVE_TURN_BYTES, LIVE_TURN_BYTES)
        self._replay_rest = min(self._replay_rest + replay, replay)

    def _feed(self, consumer: StreamConsumer, most: i64) -> i64:
        """Gives what was read for it: if that is `most` there may be more."""
        cursor = consumer.cursor
        used: i64 = 0
        # Whoever watches wants to see each message.
        takes_runs = consumer.takes_runs and not self.node.is_watched
        while used < most and consumer.can_take():
            run = consumer.next_run() if takes_runs else None
            if run is not None:
                used += len(run.data)
                self.counters.delivered += run.count
                self.unacked += run.count
                consumer.send_run(run)
                continue
            record = cursor.next()
            if record is None:
                break
            used += record.size()
            if consumer.wants(record):
                self.counters.delivered += 1
                self.unacked += 1
                consumer.send_record(record)
                if self.node.is_watched:
                    self.node.watch_delivery(consumer.channel, self, Entry(message_of(record), self, 0, NEVER))
        return used

    def get(self) -> Entry | None:
        raise NotImplementedByBroker(f"basic.get not supported by stream queues {self._resource()}")

    # -- settling --------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        self.counters.acked += self._give_back(entry)

    def reject(self, entry: Entry) -> None:
        self._give_back(entry)

    def requeue(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._give_back(entry)
        self.drain()

    def _give_back(self, entry: Entry) -> i64:
        count: i64 = entry.count if isinstance(entry, RunPlace) else 1
        self.unacked -= count
        consumer = entry.consumer
        if consumer is not None:
            consumer.unacked -= count
        return count

    def check_purge(self) -> None:
        raise NotImplementedByBroker(f"queue.purge not supported by stream queues {self._resource()}")

    # -- consumers -------------------------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        super().add_consumer(consumer)
        if isinstance(consumer, StreamConsumer):
            self.readers.append(consumer)

    def remove_consumer(self, consumer: Consumer) -> None:
        super().remove_consumer(consumer)
        if isinstance(consumer, StreamConsumer) and consumer in self.readers:
            self.readers.remove(consumer)
            consumer.cursor.close()

    # -- rules -----------------------------------------------------------------------------------------------------

    def apply_policy(self, policy: str | None, operator_policy: str | None, definition: dict[str, object]) -> None:
        super().apply_policy(policy, operator_policy, definition)
        self._set_retention()
        self.log.retain(self.node.now)

    def _set_retention(self) -> None:
        """A policy wins over the argument, as RabbitMQ has it for streams."""
        log = self.log
        log.segment_bytes = self._number("stream-max-segment-size-bytes", SEGMENT_BYTES)
        log.max_bytes = self._number("max-length-bytes", -1)
        age = self.effective_policy.get("max-age")
        field = self.arguments.get("x-max-age")
        text = age if isinstance(age, str) else "" if field is None else str(field.value)
        log.max_age = age_in_ms(text) if text else -1
        archive = self.effective_policy.get("archive")
        flag = self.arguments.get("x-archive")
        log.archives = archive if isinstance(archive, bool) else flag is not None and flag.value is True

    def _number(self, key: str, default: i64) -> i64:
        value = self.effective_policy.get(key)
        if isinstance(value, int):
            return value
        field = self.arguments.get("x-" + key)
        return default if field is None else integer(field)

    def restart(self) -> None:
        """After a failure. Nothing in memory is in doubt but who reads."""
        for consumer in self.consumers.all():
            self.remove_consumer(consumer)
        self.unacked = 0
        if self.deduplication is not None:
            self.deduplication.forget_unsynced(self.node.store.synced)

    def close(self) -> None:
        super().close()
        for reader in self.readers:
            reader.cursor.close()
        self.readers.clear()

    def _resource(self) -> str:
        return resource("queue", self.name, self.vhost)


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
            f"invalid arg 'x-stream-offset' for {resource('queue', queue.name, queue.vhost)}: "
            "use first, last, next, an offset, a timestamp or an interval such as 1h"
        )
    return log.offset_at(queue.node.now - age)


def _filters(field: Field | None) -> list[bytes] | None:
    """x-stream-filter: one string or several; what is neither filters nothing, as in RabbitMQ."""
    if field is None:
        return None
    if field.tag == "A" and isinstance(field.value, list):
        found = [_text(item) for item in field.value]
        return [value for value in found if value is not None]
    value = _text(field)
    return None if value is None else [value]


def _text(field: Field) -> bytes | None:
    value = field.value
    if field.tag != "S":
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    return value if isinstance(value, bytes) else None


def _filter_value(message: Message) -> bytes | None:
    content = message.content
    if not i64(read_i16_be(content, _FLAGS_AT)) & HEADERS:
        return None
    # Headers are decoded only where the name occurs at all.
    if _FILTER_VALUE_BYTES not in content[_FLAGS_AT : 7 + i64(read_i32_be(content, 3))]:
        return None
    headers = message.properties().headers
    field = None if headers is None else headers.get(_FILTER_VALUE)
    return None if field is None else _text(field)
