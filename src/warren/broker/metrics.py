"""Counters that only grow: per channel here, per queue in queue.py, per exchange on the exchange, and for the node."""

from __future__ import annotations

from mypy_extensions import i64


class ChannelCounters:
    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.acked: i64 = 0
        self.got: i64 = 0


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
        self.logins_refused: i64 = 0
        self.routed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
        # Of channels that are gone; those of open ones are on the channels.
        self.published: i64 = 0
        self.confirmed: i64 = 0

    def channel_closed(self, counted: ChannelCounters) -> None:
        self.channels_closed += 1
        self.published += counted.published
        self.confirmed += counted.confirmed
