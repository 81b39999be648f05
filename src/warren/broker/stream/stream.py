"""A stream: a queue whose messages stay. It appends what is published, and consumers read it where they like.

Reading removes nothing, so an ack only makes room for the next delivery, and so do nack and reject. Each consumer has
a cursor; what leaves a stream leaves by retention (stream_log.py). Everything is durable, whatever its publisher said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i16_be, read_i32_be
from mypy_extensions import i64

from warren.amqp.properties import HEADERS
from warren.broker.message import NEVER, Message
from warren.broker.queue.backing import Backing
from warren.broker.queue.consumer import Consumer
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.entry import Entry
from warren.broker.queue.outcome import TAKEN
from warren.broker.queue.queue import Queue
from warren.broker.queue.stream_log import SEGMENT_BYTES, StreamLog
from warren.broker.rules.arguments import resource
from warren.broker.rules.setting_kinds import age_in_ms, integer
from warren.broker.stream.stream_browse import browse_stream, message_of
from warren.broker.stream.stream_consumer import RunPlace, StreamConsumer, filter_text
from warren.errors import NotImplementedByBroker

if TYPE_CHECKING:
    from warren.broker.queue.yard import Yard

# What is read in a turn by one consumer and by all of a stream, of those who replay what was published long ago.
READER_BYTES: Final[i64] = 65536
TURN_BYTES: Final[i64] = 262144
# All of them while somebody has more to publish than a turn takes: publishing comes first, and who keeps up with it.
PRESSED_BYTES: Final[i64] = 16384
LIVE_READER_BYTES: Final[i64] = 262144
LIVE_TURN_BYTES: Final[i64] = 1 << 20
_FILTER_VALUE: Final = "x-stream-filter-value"
_FILTER_VALUE_BYTES: Final = b"x-stream-filter-value"
# In a content header frame: where the property flags stand.
_FLAGS_AT: Final[i64] = 19


class Stream(Queue):
    def __init__(self, node: Yard, vhost: str, declared: Declaration) -> None:
        super().__init__(node, vhost, declared)
        self.keeps_all = True
        backing = self.backing
        assert isinstance(backing, StreamLog)
        self.log: StreamLog = backing
        self.readers: list[StreamConsumer] = []
        # Who is served first.
        self._first: i64 = 0
        # What may still be read in the node's turn `_shared_in`.
        self._shared_in: i64 = -1
        self._live_rest: i64 = 0
        self._replay_rest: i64 = 0

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
        begin = self._first
        passed_over: i64 = -1
        for number in range(count):
            turn = (begin + number) % count
            reader = readers[turn]
            is_live = reader.is_live(self.log)
            if (self._live_rest if is_live else self._replay_rest) <= 0:
                goes_on = True
                if passed_over < 0:
                    passed_over = turn
                continue
            most = LIVE_READER_BYTES if is_live else READER_BYTES
            used = self._feed(reader, most)
            if is_live:
                self._live_rest -= used
            else:
                self._replay_rest -= used
            if used >= most:
                goes_on = True
        if passed_over >= 0:
            self._first = passed_over
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

    def check_get(self) -> None:
        what = resource("queue", self.name, self.vhost)
        raise NotImplementedByBroker(f"basic.get not supported by stream queues {what}")

    # -- settling --------------------------------------------------------------------------------------------------

    def ack(self, entry: Entry) -> None:
        self.counters.acked += self._give_back(entry)

    def reject(self, entry: Entry) -> None:
        self._give_back(entry)

    def requeue(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._give_back(entry)

    def _give_back(self, entry: Entry) -> i64:
        count: i64 = entry.count if isinstance(entry, RunPlace) else 1
        self.unacked -= count
        consumer = entry.consumer
        if consumer is not None:
            consumer.unacked -= count
        return count

    # -- counting --------------------------------------------------------------------------------------------------

    def newest(self) -> i64:
        return self.log.next_offset

    def count(self) -> i64:
        """Nothing leaves for being read."""
        return self.log.length

    def is_keeping_up(self) -> bool:
        for reader in self.readers:
            if reader.can_take():
                return True
        return False

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
        """Nothing in memory is in doubt but who reads."""
        for consumer in self.consumers.all():
            self.remove_consumer(consumer)
        super().restart()


def _filter_value(message: Message) -> bytes | None:
    content = message.content
    if not i64(read_i16_be(content, _FLAGS_AT)) & HEADERS:
        return None
    # Headers are decoded only where the name occurs at all.
    if _FILTER_VALUE_BYTES not in content[_FLAGS_AT : 7 + i64(read_i32_be(content, 3))]:
        return None
    headers = message.properties().headers
    field = None if headers is None else headers.get(_FILTER_VALUE)
    return None if field is None else filter_text(field)
