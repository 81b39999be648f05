"""Consumers of one queue: who may take the next message, in which order.

Higher x-priority first, round robin among equals; a consumer whose prefetch is full or whose socket is slow is
passed over. With a single active consumer all but one wait.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from librt.strings import write_i64_be
from mypy_extensions import i64

from warren.amqp.fields import Table
from warren.amqp.frames import needs_reframing, rechannel, reframe
from warren.broker.message import short
from warren.broker.queue.entry import Entry
from warren.broker.queue.outlet import LARGE

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.queue.recipient import Recipient

# class 60, method 60, with the frame header before and the consumer tag after.
_DELIVER_HEAD: Final = struct.Struct(">BHIHH")
# So many consumers that are gone may stay in a list, and an eighth of those that are there.
_GONE_MIN: Final[i64] = 8


class Consumer:
    def __init__(
        self, channel: Recipient, queue: Queue, tag: str, no_ack: bool, exclusive: bool, priority: i64, arguments: Table
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority: i64 = priority
        self.arguments = arguments
        # basic.qos without global counts for consumers that start after it, each on its own. 0 = no limit.
        self.prefetch: i64 = 0 if no_ack else channel.consumer_prefetch
        self.unacked: i64 = 0
        # False only for those who wait behind a single active consumer, and who are gone.
        self.active = True
        # It only gets copies: see browser.py.
        self.is_browser = False
        self.is_listed = False
        self._tag_bytes = short(tag)
        self._head = b""
        self._head_for: i64 = -1

    def can_take(self) -> bool:
        channel = self.channel
        if not channel.outlet.has_room:
            return False
        if self.no_ack:
            return True
        if self.prefetch != 0 and self.unacked >= self.prefetch:
            return False
        return channel.prefetch == 0 or channel.unacked.consumed < channel.prefetch

    def deliver_head(self, suffix_size: i64) -> bytes:
        """basic.deliver up to the consumer tag, before a suffix (see Origin) of this size."""
        if suffix_size != self._head_for:
            arguments = 4 + len(self._tag_bytes) + 9 + suffix_size - 1
            self._head = _DELIVER_HEAD.pack(1, self.channel.number, arguments, 60, 60) + self._tag_bytes
            self._head_for = suffix_size
        return self._head

    def send(self, entry: Entry, delivery_tag: i64) -> None:
        """Write basic.deliver and the content into the connection's output."""
        message = entry.message
        channel = self.channel
        outlet = channel.outlet
        suffix = message.origin.suffix
        size: i64 = len(suffix)
        content = message.content
        if entry.is_counted():
            content = entry.counted_content(channel.number, outlet.frame_max)
        elif len(content) > outlet.frame_max and needs_reframing(content, outlet.frame_max):
            content = reframe(content, channel.number, outlet.frame_max)
        elif message.channel != channel.number:
            content = rechannel(content, channel.number)
        out = outlet.output()
        out.write(self.deliver_head(size))
        write_i64_be(out, delivery_tag)
        out.append(1 if entry.redelivered else 0)
        out.write(suffix)
        if len(content) < LARGE:
            out.write(content)
        else:
            outlet.write_large(content)
        outlet.wrote(len(content) + size + 32)


class ConsumerGroup:
    """Consumers of one priority; `turn` is whose turn it is."""

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        # Those that are gone stay until there are many: to look for one in a list, for all of a client that had very
        # many, would take the square of it.
        self.members: list[Consumer] = []
        self.gone: i64 = 0
        self.turn: i64 = 0

    def add(self, consumer: Consumer) -> None:
        # Its turn comes after everybody's. Who waits to become the single active one stands in order of arrival.
        if consumer.active and self.turn != 0:
            self.members.insert(self.turn, consumer)
            self.turn += 1
        else:
            self.members.append(consumer)

    def next_able(self) -> Consumer | None:
        members = self.members
        count: i64 = len(members)
        tried: i64 = 0
        turn = self.turn
        while tried < count:
            if turn >= count:
                turn = 0
            consumer = members[turn]
            turn += 1
            if consumer.active and consumer.can_take():
                # Not behind the last: who comes now would stand there, and be served before the first.
                self.turn = turn if turn < count else 0
                return consumer
            tried += 1
        return None

    def forget_one(self) -> None:
        """One of them is not listed any more."""
        self.gone += 1
        if self.gone <= _GONE_MIN + len(self.members) // 8:
            return
        passed: i64 = 0
        for place in range(min(self.turn, i64(len(self.members)))):
            if not self.members[place].is_listed:
                passed += 1
        self.turn -= passed
        self.members = [consumer for consumer in self.members if consumer.is_listed]
        self.gone = 0


class Consumers:
    def __init__(self) -> None:
        # Highest priority first.
        self.groups: list[ConsumerGroup] = []
        self.count: i64 = 0

    def next_able(self) -> Consumer | None:
        for group in self.groups:
            consumer = group.next_able()
            if consumer is not None:
                return consumer
        return None

    def is_any_able(self) -> bool:
        """Asked without giving anybody a turn."""
        return any(consumer.active and consumer.can_take() for consumer in self.all())

    def all(self) -> list[Consumer]:
        return [consumer for group in self.groups for consumer in group.members if consumer.is_listed]

    def first(self) -> Consumer | None:
        """Who came first, browsers aside."""
        for group in self.groups:
            for consumer in group.members:
                if consumer.is_listed and not consumer.is_browser:
                    return consumer
        return None

    def add(self, consumer: Consumer) -> None:
        self.count += 1
        consumer.is_listed = True
        place = 0
        for group in self.groups:
            if group.priority == consumer.priority:
                group.add(consumer)
                return
            if group.priority > consumer.priority:
                place += 1
        group = ConsumerGroup(consumer.priority)
        group.add(consumer)
        self.groups.insert(place, group)

    def remove(self, consumer: Consumer) -> bool:
        if not consumer.is_listed:
            return False
        consumer.is_listed = False
        consumer.active = False
        self.count -= 1
        for group in self.groups:
            if group.priority == consumer.priority:
                group.forget_one()
                if group.gone == len(group.members):
                    self.groups.remove(group)
                break
        return True

    def dismiss(self) -> None:
        """All of them, by a queue that begins anew."""
        for consumer in self.all():
            consumer.is_listed = False

    def active_one(self) -> Consumer | None:
        for group in self.groups:
            for consumer in group.members:
                if consumer.active:
                    return consumer
        return None
