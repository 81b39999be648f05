"""`warren perf`: puts load on a broker, ours or another one, and tells what it did and what that cost it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from warren.cli.options import uri_option
from warren.client.address import DEFAULT_URI, parse_uri
from warren.perf import asking as questions
from warren.perf import backlog, connections, traffic
from warren.perf.measure import Figures, Watch
from warren.perf.plan import EXPIRE, QUORUM, REJECT, STREAM, Plan
from warren.perf.processes import cpu_seconds

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
Workload = Callable[[Plan, Sequence[int], Watch], Figures]

POSITIVE: Final = click.IntRange(1)
COUNT: Final = click.IntRange(0)
SECONDS: Final = click.FloatRange(0, min_open=True)

MEANINGS: Final = {
    "rate": "a second",
    "fill_rate": "published a second",
    "drain_rate": "consumed a second",
    "published_rate": "published a second",
    "confirmed_rate": "confirmed a second",
    "consumed_rate": "consumed a second",
    "cpu_us": "broker CPU each, us",
    "cpu_percent": "broker CPU, % of a core",
    "client_cpu_us": "our own CPU each, us",
    "other_cpu_percent": "CPU of others, % of a core",
    "fill_cpu_us": "broker CPU each filling, us",
    "drain_cpu_us": "broker CPU each draining, us",
    "drain_cpu_percent": "broker CPU draining, % of a core",
    "drain_other_cpu_percent": "CPU of others draining, % of a core",
    "drain_client_cpu_us": "our own CPU each draining, us",
    "rss_per_message": "broker memory each, bytes",
    "rss_per_connection": "broker memory each, bytes",
    "idle_cpu_percent": "broker CPU while idle, % of a core",
    "p50_us": "p50, us",
    "p95_us": "p95, us",
    "p99_us": "p99, us",
    "p999_us": "p99.9, us",
    "max_us": "longest, us",
}


@click.group()
def perf() -> None:
    """Measure a broker under load.

    Works against any AMQP 0-9-1 broker (--uri). With --pid, the broker's CPU time for each message is shown too;
    give every process of the broker. docs/speed.md says what the figures mean.
    """


SHARED: Final[list[Decorator]] = [
    uri_option("The broker.", default=DEFAULT_URI, show_default=True),
    click.option("--pid", multiple=True, type=POSITIVE, help="Process of the broker; may be repeated."),
    click.option("--json", "as_json", is_flag=True, help="One line, for scripts."),
]


def command(name: str, workload: Workload, about: str, *own: Decorator, **fixed: str | int) -> None:
    """`warren perf name`: its own options stand before those that every workload has."""

    def called(**given: Any) -> None:
        run(name, workload, {**fixed, **given})

    perf.command(name, help=about)(together(*own, *SHARED)(called))


def size(default: int) -> Decorator:
    return click.option("--size", type=COUNT, default=default, show_default=True, help="Bytes of each body.")


def publishers(default: int = 1, what: str = "Publishing connections.") -> Decorator:
    return click.option("--publishers", type=POSITIVE, default=default, show_default=True, help=what)


def consumers(default: int = 1) -> Decorator:
    return click.option(
        "--consumers",
        type=COUNT if default == 0 else POSITIVE,
        default=default,
        show_default=True,
        help="Consuming connections.",
    )


def in_flight(default: int) -> Decorator:
    return click.option(
        "--in-flight",
        type=COUNT,
        default=default,
        show_default=True,
        help="Most messages published and not yet consumed; 0 leaves it to the broker.",
    )


def together(*options: Decorator) -> Decorator:
    """Several as one, shown in this order."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def acks(every: int, prefetch: int) -> Decorator:
    return together(
        click.option(
            "--ack-every",
            type=COUNT,
            default=every,
            show_default=True,
            help="Deliveries for each acknowledgement; 0 consumes without any.",
        ),
        click.option(
            "--prefetch", type=COUNT, default=prefetch, show_default=True, help="Most unacknowledged; 0 is no limit."
        ),
    )


def queues(default: int) -> Decorator:
    return click.option("--queues", type=click.IntRange(1, 999), default=default, show_default=True, help="Queues.")


timed: Final = together(
    click.option("--seconds", type=SECONDS, default=5.0, show_default=True, help="Seconds to measure."),
    click.option(
        "--warmup", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds before, not measured."
    ),
)
duration: Final = together(
    timed,
    click.option("--messages", type=COUNT, default=0, help="Publish this many and wait for all, instead of --seconds."),
)
persistent: Final = click.option("--persistent", is_flag=True, help="Persistent messages in durable queues.")
message_options: Final = together(
    click.option("--queue-type", type=click.Choice(["classic", QUORUM, STREAM]), help="Type of the queues."),
    click.option(
        "--priorities",
        type=click.IntRange(0, 255),
        default=0,
        help="Queues with so many priorities, which messages have in turn.",
    ),
    click.option(
        "--ttl", type=COUNT, default=0, help="Milliseconds that each message may wait, said by itself; 0 is for ever."
    ),
    click.option("--all-properties", is_flag=True, help="All fourteen properties and some headers."),
)


def asking(default: int) -> Decorator:
    return together(
        click.option("--connections", "publishers", type=POSITIVE, default=default, show_default=True, help="Who ask."),
        click.option(
            "--at-once",
            "in_flight",
            type=COUNT,
            default=1,
            show_default=True,
            help="Of them, how many ask at a time, taking turns; 0 is all.",
        ),
        timed,
    )


command(
    "throughput", traffic.run, "Publish and consume as fast as it goes.",
    size(16), publishers(), consumers(), queues(1), acks(0, 0), in_flight(0), persistent, message_options, duration,
)  # fmt: skip
command(
    "confirms", traffic.run, "Publish with confirms, and time how long each message waits for its own.",
    size(1024), publishers(), consumers(0), queues(1),
    click.option("--window", type=POSITIVE, default=1000, show_default=True, help="Most unconfirmed of a publisher."),
    acks(0, 0), in_flight(0), persistent, message_options, duration,
)  # fmt: skip
command(
    "fanout", traffic.run, "Publish to a fanout exchange with several queues; the rate is of deliveries.",
    size(16), publishers(), consumers(), queues(10), acks(0, 0), in_flight(5000), persistent, duration,
    exchange_type="fanout",
)  # fmt: skip
command(
    "topic", traffic.run, "Publish to a topic exchange with many bindings, another key each time.",
    size(16), publishers(), consumers(), queues(1),
    click.option("--bindings", type=click.IntRange(1, 999_999), default=1000, show_default=True, help="Bindings."),
    acks(0, 0), in_flight(5000), persistent, message_options, duration,
    exchange_type="topic",
)  # fmt: skip
command(
    "latency", traffic.run, "Publish at a fixed rate, and time each message from publishing to consuming.",
    size(16), publishers(), consumers(), queues(1),
    click.option("--rate", type=SECONDS, default=5000, show_default=True, help="Messages a second, in all."),
    acks(0, 0), persistent, timed,
)  # fmt: skip
command(
    "backlog", backlog.run, "Fill a queue, weigh it, and drain it.",
    size(100), publishers(),
    click.option("--messages", type=POSITIVE, default=1_000_000, show_default=True, help="How many to pile up."),
    acks(0, 0), persistent,
)  # fmt: skip
command(
    "deadletter", traffic.run,
    "Publish to a queue in which every message dies, and consume the dead letters; the acknowledgements reject.",
    size(16), publishers(), consumers(), queues(1),
    click.option(
        "--death", type=click.Choice([REJECT, EXPIRE]), default=REJECT, show_default=True, help="What they die of."
    ),
    acks(1, 100), in_flight(5000), persistent, duration,
)  # fmt: skip
command(
    "get", questions.get, "Publish a message and fetch it with basic.get, one at a time.",
    size(16), asking(1), consumers=0,
)  # fmt: skip
command(
    "rpc", questions.rpc, "Send a request to a server and wait for its reply by direct reply-to, one at a time.",
    size(16), asking(1), consumers=0,
)  # fmt: skip
command(
    "declare", questions.declare, "Declare a queue, bind it and delete it, and wait for each answer.",
    click.option("--durable", "persistent", is_flag=True, help="Durable queues instead of exclusive ones."),
    asking(1), consumers=0,
)  # fmt: skip
command(
    "tx", questions.tx, "Publish messages in a transaction and wait for its commit; the rate is of commits.",
    size(16), click.option("--batch", type=POSITIVE, default=10, show_default=True, help="Messages of a transaction."),
    asking(1), consumers=0,
)  # fmt: skip
command(
    "many", questions.confirm, "Many connections that in turn publish one message and wait for its confirm.",
    size(16), asking(50), consumers=0,
)  # fmt: skip
command(
    "churn", connections.churn, "Open a connection with a channel and close it, again and again.",
    publishers(4, "Connections under way at a time."), timed, consumers=0,
)  # fmt: skip
command(
    "idle", connections.idle, "Open many connections with a channel each that do nothing, and weigh them.",
    click.option("--connections", "publishers", type=POSITIVE, default=1000, show_default=True, help="How many."),
)  # fmt: skip


def run(name: str, workload: Workload, given: dict[str, Any]) -> None:
    as_json, pids = bool(given.pop("as_json")), list(given.pop("pid"))
    plan = Plan(target=parse_uri(given.pop("broker")), **given).check()
    # A process that is not there should be told before the run, not after it.
    cpu_seconds(pids)
    with progress_of(name, hidden=as_json) as progress:
        task = progress.add_task("starting", total=1.0)

        def watch(share: float, messages: int) -> None:
            progress.update(task, completed=min(share, 1.0), description=f"{messages:,} so far")

        figures = workload(plan, pids, watch)
    show(name, given, figures, as_json)


def progress_of(name: str, hidden: bool) -> Progress:
    columns = (TextColumn(f"[bold]{name}[/]"), BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=hidden or not console.is_terminal)


def show(name: str, settings: dict[str, Any], figures: Figures, as_json: bool) -> None:
    console = Console()
    if as_json:
        rounded = {key: round(value, 3) for key, value in figures.items()}
        console.print_json(data={"workload": name, "settings": settings, **rounded}, indent=None)
        return
    table = Table("figure", name, title=None)
    table.columns[1].justify = "right"
    for key, value in figures.items():
        table.add_row(
            MEANINGS.get(key, key), f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}".rstrip("0").rstrip(".")
        )
    console.print(table)
