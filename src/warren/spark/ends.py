"""Where streams begin and end, asked over plain AMQP, which has no method for it.

A consumer from `first` is sent the oldest message there is, and one from `last` the newest chunk: all that was stored
together with the newest message. A broker hands out a chunk in one go, so an answer to a call that was made after the
first message has come is behind the last one: the end is known, and nobody waits in the hope that nothing more comes.
Only of an empty stream nothing comes at all. It is taken for empty when two more calls, one of which the broker must
pass on to the stream as it had to pass on the first, have been answered, and no message is counted.
"""

from __future__ import annotations

import time
from typing import Final, TypeVar

from warren.amqp.constants import STREAM_OFFSET
from warren.amqp.fields import Field, Table
from warren.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from warren.client.connection import Client
from warren.client.session import Received, frame_of, refusal
from warren.errors import NotFound, WarrenError
from warren.spark.archives.place import ASK, first_offset, first_since, folder_of
from warren.spark.consume import QueueRefused, Range, data_loss, open_client, reading
from warren.spark.options import EARLIEST, LATEST, PREFETCH_MAX, Position, ReadKind, ReadOptions

# For the events of a stream that count no message, behind those that they were asked for with.
EMPTY_SECONDS: Final = 0.25

M = TypeVar("M", bound=Method)


class Seen:
    """What a consumer was sent."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.headers: Table = {}
        self.bytes = 0


class Probe:
    """A channel on which consumers come and go, with what each of them was sent."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: dict[str, Seen] = {}
        self._last_tag = 0
        self._acked = 0

    def call(self, method: Method, answer: type[M]) -> M:
        self._client.send([frame_of(method)])
        while not isinstance((received := self._client.next()).method, answer):
            self._note(received)
        assert isinstance(received.method, answer)
        return received.method

    def count(self, name: str) -> int:
        """Messages, as the broker counts them; RabbitMQ does so a few seconds late."""
        with reading(name):
            return self.call(QueueDeclare(queue=name, passive=True), QueueDeclareOk).message_count

    def subscribe(self, name: str, spec: Field, prefetch: int) -> tuple[str, Seen]:
        self.call(BasicQos(0, prefetch, False), BasicQosOk)
        with reading(name):
            tag = self.call(BasicConsume(queue=name, arguments={STREAM_OFFSET: spec}), BasicConsumeOk).consumer_tag
        return tag, self._seen_by(tag)

    def cancel(self, tag: str) -> None:
        self.call(BasicCancel(tag), BasicCancelOk)
        del self._seen[tag]
        # A broker remembers what is not acknowledged as long as the channel lives, and some do not for ever.
        if self._last_tag > self._acked:
            self._client.send([frame_of(BasicAck(self._last_tag, True))])
            self._acked = self._last_tag

    def wait(self, seen: Seen, timeout: float) -> bool:
        """Until the consumer has been sent something; False when nothing came in time."""
        deadline = time.monotonic() + timeout
        while not seen.places:
            received = self._client.session.take()
            if received is not None:
                self._note(received)
            elif not self._client.receive_within(deadline - time.monotonic()):
                return False
        return True

    def _seen_by(self, tag: str) -> Seen:
        return self._seen.setdefault(tag, Seen())

    def _note(self, received: Received) -> None:
        deliver = received.method
        if not isinstance(deliver, BasicDeliver):
            raise refusal(deliver)
        headers = received.properties.headers or {}
        place = headers.get(STREAM_OFFSET)
        if place is None or not isinstance(place.value, int):
            raise WarrenError("this is a queue and no stream: its messages have no offsets; read it with option queue")
        seen = self._seen_by(deliver.consumer_tag)
        seen.places.append(place.value)
        seen.headers = headers
        seen.bytes += len(received.body)
        self._last_tag = deliver.delivery_tag


class Ends:
    """Of the streams of one query. Holds no connection of its own."""

    def __init__(self, client: Client, options: ReadOptions) -> None:
        self.client = client
        self._options = options
        self._probe = Probe(client)
        # Of the messages seen while looking for ends: how large a message is.
        self._seen_messages = 0
        self._seen_bytes = 0

    def names(self) -> tuple[str, ...]:
        """Of the streams: those of a super stream are named after it and numbered."""
        if self._options.kind is not ReadKind.SUPER_STREAM:
            return self._options.names
        name = self._options.names[0]
        found: list[str] = []
        while self._exists(f"{name}-{len(found)}"):
            found.append(f"{name}-{len(found)}")
        if not found:
            raise WarrenError(f"there is no super stream {name!r}: its first partition would be the stream {name}-0")
        return tuple(found)

    def first(self, name: str) -> int | None:
        """Offset of the oldest message; None of an empty stream."""
        seen = self._look(name, Field("S", "first"), 1)
        return first_offset(self.archive(name), seen.places[0]) if seen.places else None

    def archive(self, name: str) -> str:
        """The folder with what retention took from it; empty when it goes nowhere."""
        if "warren_version" not in self.client.server_properties:
            return ""
        tag, seen = self._probe.subscribe(name, Field("S", ASK), 1)
        self._probe.wait(seen, self._options.timeout)
        self._probe.cancel(tag)
        return folder_of(name, seen.headers, self._options.archive)

    def next(self, name: str) -> int | None:
        """Offset that follows the newest message; None of an empty stream."""
        seen = self._look(name, Field("S", "last"), PREFETCH_MAX)
        return seen.places[-1] + 1 if seen.places else None

    def since(self, name: str, milliseconds: int) -> int:
        """Offset of the first chunk stored at that time or later; where the stream ends when there is none."""
        oldest = self._look(name, Field("S", "first"), 1).places
        found = self._since(name, milliseconds)
        return first_since(self.archive(name), milliseconds, oldest[0], found) if oldest else found

    def _since(self, name: str, milliseconds: int) -> int:
        probe = self._probe
        early, found = probe.subscribe(name, Field("T", milliseconds // 1000), 1)
        # Asked after it and answered in turn: when this one is sent something, there was nothing for the first.
        late, newest = probe.subscribe(name, Field("S", "last"), PREFETCH_MAX)
        try:
            if self._is_empty(name, newest):
                return 0
            probe.count(name)
            return found.places[0] if found.places else newest.places[-1] + 1
        finally:
            probe.cancel(early)
            probe.cancel(late)

    @property
    def bytes_each(self) -> float:
        return self._seen_bytes / self._seen_messages if self._seen_messages else 0.0

    def _look(self, name: str, spec: Field, prefetch: int) -> Seen:
        tag, seen = self._probe.subscribe(name, spec, prefetch)
        if not self._is_empty(name, seen):
            # Answered behind the whole chunk.
            self._probe.count(name)
        self._probe.cancel(tag)
        self._seen_messages += len(seen.places)
        self._seen_bytes += seen.bytes
        return seen

    def _is_empty(self, name: str, seen: Seen) -> bool:
        """Whether a consumer that must be sent something if there is anything is sent nothing."""
        probe = self._probe
        if seen.places or probe.wait(seen, EMPTY_SECONDS / 5):
            return False
        other, _ = probe.subscribe(name, Field("S", "next"), 1)
        counted = probe.count(name)
        probe.cancel(other)
        if probe.wait(seen, self._options.timeout if counted else EMPTY_SECONDS):
            return False
        if counted:
            raise WarrenError(f"{name!r} counts {counted} messages and delivers none")
        return True

    def _exists(self, name: str) -> bool:
        # A refusal closes the channel, so it must not be the one that others use.
        client = open_client(self.client.target, self._options.timeout)
        try:
            with reading(name):
                client.call(QueueDeclare(queue=name, passive=True), QueueDeclareOk)
        except QueueRefused as refused:
            if refused.code == NotFound.code:
                return False
            raise
        finally:
            client.leave()
        return True


def ranges_between(ends: Ends, options: ReadOptions) -> list[Range]:
    """What a batch reads."""
    ranges = []
    for name in ends.names():
        first, after = ends.first(name), ends.next(name)
        if first is None or after is None:
            first = after = 0
        start = place_of(ends, name, options.start, first, after)
        if start < first and options.fail_on_data_loss:
            raise data_loss(name, start, first)
        end = place_of(ends, name, options.end, first, after)
        for option, place in (("startingOffsets", start), ("endingOffsets", end)):
            if place > after:
                raise WarrenError(f"option {option} is wrong: {name!r} has no offset {place} yet, it ends at {after}")
        ranges.append(Range(name, max(start, first), end, archive=ends.archive(name)))
    return ranges


def place_of(ends: Ends, name: str, position: Position, first: int, after: int) -> int:
    if position.timestamp is not None:
        return ends.since(name, position.timestamp)
    place = position.offset_of(name)
    return first if place == EARLIEST else after if place == LATEST else place
