"""The rows of the benchmark: each is one `warren perf` command, and which of its figures are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Row:
    name: str
    command: tuple[str, ...]
    # The figure that is compared, and its unit.
    figure: str = "rate"
    unit: str = "/s"
    is_more_better: bool = True
    cpu_figure: str = "cpu_us"
    # Other figures worth a look, as (figure, unit).
    also: tuple[tuple[str, str], ...] = ()
    # Memory that an earlier row has left behind would hide what this one needs.
    is_fresh: bool = False
    # What the quick run does instead.
    quick: tuple[str, ...] = field(default=())
    # The same with more of something, right after it: what share of each rate is kept is `kept_` and its name.
    grown: tuple[str, ...] = ()
    # Another load on the same broker for as long as this one lasts.
    beside: tuple[str, ...] = ()
    # Over TLS.
    is_secure: bool = False
    # Held against a bare echo: of how many connections, and how many echoes one is worth.
    echo: tuple[int, int] = (0, 0)


ACKS: Final = ("--ack-every", "10", "--prefetch", "100", "--in-flight", "5000")
LATENCY: Final = (("p50_us", "p50, us"), ("p99_us", "p99, us"))
ECHO: Final = (*LATENCY, ("echo_cpu_us", "a bare echo in C, CPU us"), ("echo_ratio", "CPU, times as many echoes"))

ROWS: Final = (
    Row(
        "idle connections, memory each",
        ("idle", "--connections", "1000"),
        figure="rss_per_connection",
        unit=" B",
        is_more_better=False,
        is_fresh=True,
    ),
    Row(
        "backlog of 100 B: fill",
        ("backlog", "--messages", "1000000"),
        figure="fill_rate",
        cpu_figure="fill_cpu_us",
        also=(
            ("drain_rate", "drain, a second"),
            ("drain_cpu_us", "drain, CPU us"),
            ("rss_per_message", "memory each, B"),
        ),
        is_fresh=True,
        quick=("backlog", "--messages", "100000"),
    ),
    Row("16 B, no acks", ("throughput", "--size", "16")),
    Row("1 KiB, no acks", ("throughput", "--size", "1024")),
    Row("16 B, ack every 10", ("throughput", "--size", "16", *ACKS)),
    Row("1 KiB, ack every 10", ("throughput", "--size", "1024", *ACKS)),
    Row("persistent, window 1,000", ("confirms", "--persistent"), also=LATENCY),
    Row("same, acking consumer", ("confirms", "--persistent", "--consumers", "1", *ACKS), also=LATENCY),
    Row(
        "persistent, window 1: p50",
        ("confirms", "--persistent", "--window", "1"),
        figure="p50_us",
        unit=" us",
        is_more_better=False,
        also=(
            ("p99_us", "p99, us"),
            ("bare_p50_us", "a bare append + fdatasync, us"),
            ("paired_p50_us", "a confirm in turn with it, us"),
            ("bare_ratio", "that is times the bare one"),
        ),
    ),
    Row("fan-out to 10, deliveries", ("fanout",)),
    Row("topic, 1,000 bindings", ("topic",)),
    Row(
        "end to end at 5,000/s: p50",
        ("latency", "--rate", "5000"),
        figure="p50_us",
        unit=" us",
        is_more_better=False,
        also=(("p99_us", "p99, us"),),
    ),
    Row("connections opened and closed", ("churn",)),
    Row("basic.get, one at a time", ("get",), echo=(1, 1), also=ECHO),
    Row("confirm, 50 connections in turn", ("many",), echo=(50, 1), also=ECHO),
    Row("RPC by direct reply-to", ("rpc",), echo=(2, 2), also=ECHO),
    Row("dead letters: rejected", ("deadletter",)),
    Row("dead letters: expired", ("deadletter", "--death", "expire")),
    Row("exclusive queue, bound, deleted", ("declare",), echo=(1, 3), also=ECHO),
    Row("durable queue, bound, deleted", ("declare", "--durable"), also=LATENCY),
    Row("same, 20 at once", ("declare", "--durable", "--connections", "20", "--at-once", "0"), also=LATENCY),
    Row(
        "1,000 connections, 10/s each: p50",
        ("latency", "--publishers", "1000", "--rate", "10000"),
        "p50_us",
        " us",
        False,
    ),
)
# One of each thing that applications use beside plain messages.
FEATURES: Final = (
    Row("10 priorities in turn, 16 B, acks", ("throughput", "--priorities", "10", *ACKS)),
    Row("a TTL in every message, 16 B, acks", ("throughput", "--ttl", "60000", *ACKS)),
    Row("topic, 14 properties and headers", ("topic", "--all-properties", *ACKS)),
    Row("one consumer, prefetch 1", ("throughput", "--ack-every", "1", "--prefetch", "1", "--in-flight", "100")),
    Row("transactions of 10 messages", ("tx",), echo=(1, 1), also=ECHO),
    Row("stream, 1 KiB", ("throughput", "--size", "1024", "--queue-type", "stream", *ACKS)),
    Row(
        "quorum queue, 1 KiB, confirms",
        ("confirms", "--persistent", "--queue-type", "quorum", "--consumers", "1", *ACKS),
        also=LATENCY,
    ),
    Row("TLS, 1 KiB, ack every 10", ("throughput", "--size", "1024", *ACKS), is_secure=True),
    Row("TLS, basic.get, one at a time", ("get",), is_secure=True, also=LATENCY),
)
# Cost should grow with the work and no faster: 1.0 is as fast as before.
_LITTLE: Final = ("throughput", "--size", "16", *ACKS)
SCALING: Final = (
    Row(
        "1 to 100 queues, rate kept",
        _LITTLE,
        figure="kept_rate",
        unit="",
        grown=(*_LITTLE, "--queues", "100"),
        also=(("rate", "with 1, a second"), ("grown_rate", "with 100, a second")),
    ),
    Row(
        "1 to 100 connections, rate kept",
        _LITTLE,
        figure="kept_rate",
        unit="",
        grown=(*_LITTLE, "--queues", "100", "--publishers", "100", "--consumers", "100"),
        also=(("rate", "with 1, a second"), ("grown_rate", "with 100, a second")),
    ),
    Row(
        "10 to 10,000 bindings, rate kept",
        ("topic", "--bindings", "10"),
        figure="kept_rate",
        unit="",
        grown=("topic", "--bindings", "10000"),
        also=(("rate", "with 10, a second"), ("grown_rate", "with 10,000, a second")),
    ),
    Row(
        "backlog 100 k to 1 M, rate kept",
        ("backlog", "--messages", "100000"),
        figure="kept_fill_rate",
        unit="",
        cpu_figure="fill_cpu_us",
        grown=("backlog", "--messages", "1000000"),
        also=(("kept_drain_rate", "draining"),),
        is_fresh=True,
    ),
    Row(
        "100 B beside 16 MiB bodies: p99",
        ("latency", "--rate", "200", "--size", "100"),
        figure="p99_us",
        unit=" us",
        is_more_better=False,
        also=(("p50_us", "p50, us"), ("max_us", "longest, us")),
        beside=("throughput", "--size", "16777216", "--in-flight", "4"),
    ),
)
# The one that is held against the bare disk as well.
DISK_ROW: Final = "persistent, window 1: p50"
START_ROW: Final = "start to first connection"
