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


ACKS: Final = ("--ack-every", "10", "--prefetch", "100", "--in-flight", "5000")
LATENCY: Final = (("p50_us", "p50, us"), ("p99_us", "p99, us"))

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
)
# The one that is held against the bare disk as well.
DISK_ROW: Final = "persistent, window 1: p50"
START_ROW: Final = "start to first connection"
