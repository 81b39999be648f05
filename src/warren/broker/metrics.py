"""Counters that only grow: per queue, per channel, and for the node. Those of exchanges are on the exchange."""

from __future__ import annotations

from mypy_extensions import i64


class QueueCounters:
    """Statistics of one queue; they only ever grow."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.got_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acked: i64 = 0
        self.rejected_publishes: i64 = 0
        self.dead_lettered: i64 = 0

    def add(self, other: QueueCounters) -> None:
        self.published += other.published
        self.delivered += other.delivered
        self.delivered_no_ack += other.delivered_no_ack
        self.got += other.got
        self.got_no_ack += other.got_no_ack
        self.got_empty += other.got_empty
        self.redelivered += other.redelivered
        self.acked += other.acked
        self.rejected_publishes += other.rejected_publishes
        self.dead_lettered += other.dead_lettered


class ChannelCounters:
    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.acked: i64 = 0
        self.got: i64 = 0


class MessageSizes:
    """How many bodies were at most so large; each is counted once, where it fits first."""

    def __init__(self) -> None:
        self.bytes: i64 = 0
        self.to_100: i64 = 0
        self.to_1_000: i64 = 0
        self.to_10_000: i64 = 0
        self.to_100_000: i64 = 0
        self.to_1_000_000: i64 = 0
        self.to_10_000_000: i64 = 0
        self.to_50_000_000: i64 = 0
        self.to_100_000_000: i64 = 0
        self.larger: i64 = 0

    def count(self, size: i64) -> None:
        self.bytes += size
        # Attributes, not a list: this is on the path of every publish, and there a number needs no object.
        if size <= 100:
            self.to_100 += 1
        elif size <= 1_000:
            self.to_1_000 += 1
        elif size <= 10_000:
            self.to_10_000 += 1
        elif size <= 100_000:
            self.to_100_000 += 1
        else:
            self._count_large(size)

    def _count_large(self, size: i64) -> None:
        if size <= 1_000_000:
            self.to_1_000_000 += 1
        elif size <= 10_000_000:
            self.to_10_000_000 += 1
        elif size <= 50_000_000:
            self.to_50_000_000 += 1
        elif size <= 100_000_000:
            self.to_100_000_000 += 1
        else:
            self.larger += 1

    def steps(self) -> list[tuple[str, int]]:
        """Upper bounds as Prometheus writes them, each with how many came to be no larger than it."""
        counts = [
            ("100.0", self.to_100),
            ("1000.0", self.to_1_000),
            ("10000.0", self.to_10_000),
            ("100000.0", self.to_100_000),
            ("1e+06", self.to_1_000_000),
            ("1e+07", self.to_10_000_000),
            ("5e+07", self.to_50_000_000),
            ("1e+08", self.to_100_000_000),
            ("+Inf", self.larger),
        ]
        total = 0
        steps: list[tuple[str, int]] = []
        for bound, count in counts:
            total += int(count)
            steps.append((bound, total))
        return steps


class NodeCounters:
    """What Prometheus shows as totals: objects may go, these stay."""

    def __init__(self) -> None:
        self.connections_opened: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_opened: i64 = 0
        self.channels_closed: i64 = 0
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0
        self.routed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        # Of channels that are gone; those of open ones are on the channels.
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.sizes = MessageSizes()

    def channel_closed(self, counted: ChannelCounters) -> None:
        self.channels_closed += 1
        self.published += counted.published
        self.confirmed += counted.confirmed
