"""The message path over DataFrames, measured: `make bench-path`.

Check and route over 1,000 topic bindings and 50,000 distinct keys, at 1 M and 10 M publishes; beside it, in the same
run, a plain broadcast join of the same size and one Python process that runs the core without Spark. Then the whole
path with 1,000 queues and limits, its queues in one process with where the time goes, and the whole path with nine
messages in ten for one queue.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

from bench.sample import sampled
from warren.spark import MessagePath, session
from warren.spark.path import message_path
from warren.spark.path.play import Player
from warren.spark.path.routing import Router

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORDS = [f"w{number}" for number in range(40)]
QUEUES = 1_000
KEYS = 50_000
BATCH = 50_000
START_MS = 1_700_000_000_000
RESULTS = Path(__file__).parent / "results"


def definitions(with_limits: bool) -> dict[str, Any]:
    """A queue for each of 1,000 bindings; half with a `*`, a fifth with a `#`."""
    draw = random.Random(1)  # noqa: S311 - the same for everybody
    limits = {"x-max-length": 1_000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    queues = [_queue(f"q{number}", {}) for number in range(QUEUES)]
    if with_limits:
        # One in ten hands on what it drops; the rest has a limit or a TTL.
        for number in range(QUEUES):
            kind = number % 10
            arguments = limits if kind == 0 else {"x-message-ttl": 60_000} if kind < 4 else {"x-max-length": 1_000}
            queues[number]["arguments"] = {**arguments}
            if kind == 0:
                queues[number]["arguments"]["x-dead-letter-routing-key"] = f"dead{number}"
                queues.append(_queue(f"dead{number}", {"x-max-length": 1_000}))
    bindings = [
        {"source": "events", "vhost": "/", "destination": f"q{number}", "destination_type": "queue",
         "routing_key": _pattern(draw)}
        for number in range(QUEUES)
    ]  # fmt: skip
    return {
        "vhosts": [{"name": "/"}],
        "exchanges": [{"name": "events", "vhost": "/", "type": "topic"}],
        "queues": queues,
        "bindings": bindings,
    }


def _queue(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "vhost": "/", "durable": True, "arguments": arguments}


def _pattern(draw: random.Random) -> str:
    words = [draw.choice(WORDS) for _ in range(3)]
    if draw.random() < 0.5:
        words[draw.randrange(3)] = "*"
    if draw.random() < 0.2:
        words[2] = "#"
    return ".".join(words)


def keys() -> list[str]:
    return [".".join([WORDS[n % 40], WORDS[n // 40 % 40], WORDS[n // 1600 % 40]]) for n in range(KEYS)]


def write_publishes(folder: Path, count: int) -> str:
    """In files of a million; keys in no order."""
    place = folder / f"publishes-{count}"
    place.mkdir()
    draw = random.Random(2)  # noqa: S311 - the same for everybody
    names = pa.array(keys())
    for first in range(0, count, 1_000_000):
        size = min(1_000_000, count - first)
        numbers = pa.array([draw.randrange(KEYS) for _ in range(size)])
        table = pa.table(
            {
                "exchange": pa.array(["events"] * size).dictionary_encode().cast(pa.string()),
                "routing_key": names.take(numbers),
                "publisher": pa.array([f"p{number % 16}" for number in range(size)]),
                "sequence": pa.array(range(first, first + size)),
                "body_size": pa.array([100] * size, pa.int64()),
                "published_at": pa.array([START_MS * 1000 + (first + n) * 100 for n in range(size)],
                                         pa.timestamp("us", "UTC")),
            }
        )  # fmt: skip
        pq.write_table(table, place / f"{first}.parquet", row_group_size=250_000)
    return str(place)


class Clock:
    """Wall time of one thing, and the CPU time of this process with Java and all workers.

    `alone` is an estimate, rows / CPU time x cores: what idle cores would do if all of them were always busy. A worker
    that starts and ends within one measurement is not seen, so the CPU time may be too low.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.rows: list[dict[str, Any]] = []

    def measure(self, name: str, rows: int, work: Callable[[], object], cores: int = 0) -> float:
        """The CPU seconds that it took."""
        load, began, used = os.getloadavg()[0], time.monotonic(), own_cpu()
        work()
        seconds = time.monotonic() - began
        busy = own_cpu() - used
        self.rows.append(
            {
                "name": name,
                "rows": rows,
                "seconds": round(seconds, 2),
                "rows_per_second": round(rows / seconds),
                "cpu_seconds": round(busy, 2),
                "alone": round(rows / busy * (cores or self.cores)),
                "load_before": round(load, 1),
            }
        )
        click.echo(json.dumps(self.rows[-1]))
        return busy


_seen: dict[int, int] = {}


def own_cpu() -> float:
    """Of this process and all below it; those that are gone count with what they had used when they were last seen."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(place.parent.name)
        parents[pid] = int(fields[1])
        ticks[pid] = int(fields[11]) + int(fields[12])
    _seen.update({pid: used for pid, used in ticks.items() if _is_below(pid, parents)})
    return sum(_seen.values()) / os.sysconf("SC_CLK_TCK")


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False


def route_with_spark(path: MessagePath, publishes: DataFrame) -> None:
    path.route(publishes).select("message", "route").write.format("noop").mode("overwrite").save()


def plain_join(spark: SparkSession, publishes: DataFrame, routes: list[tuple[str, list[int]]]) -> None:
    """What Spark alone needs to put beside each row what is known of its key already."""
    table = spark.createDataFrame(routes, "key string, queues array<int>").hint("broadcast")
    joined = publishes.join(table, publishes.routing_key == table.key, "left")
    joined.select("sequence", "queues").write.format("noop").mode("overwrite").save()


def resolved(path: MessagePath) -> list[tuple[str, list[int]]]:
    router = Router(path.topology)
    names = keys()
    verdicts = router.route(_struct(pa.array(names))).to_pylist()
    return [(name, [met["queue"] for met in verdict["queues"]]) for name, verdict in zip(names, verdicts, strict=True)]


def _struct(column: Any) -> pa.StructArray:
    size = len(column)
    constant = {"problem": None, "vhost": "/", "user": "guest", "exchange": "events", "mandatory": False}
    columns = {
        name: pa.array([value] * size, pa.string() if value is None else None) for name, value in constant.items()
    }
    return pa.StructArray.from_arrays([*columns.values(), column], [*columns, "routing_key"])


def route_without_spark(path: MessagePath, place: str) -> None:
    """One process, the same function, straight from Parquet."""
    router = Router(path.topology)
    for batch in _batches(place):
        router.route(_struct(batch.column("routing_key")))


def _batches(place: str) -> Iterator[pa.RecordBatch]:
    for file in sorted(Path(place).glob("*.parquet")):
        yield from pq.ParquetFile(file).iter_batches(BATCH)


def rows_to_play(path: MessagePath, place: str) -> list[pa.RecordBatch]:
    """What Spark's shuffle hands to the queue stage, of all components at once: the files are in order already."""
    router = Router(path.topology)
    return [_played(batch, router.route(_struct(batch.column("routing_key")))) for batch in _batches(place)]


def _played(batch: pa.RecordBatch, routes: pa.StructArray) -> pa.RecordBatch:
    route = dict(zip((field.name for field in routes.type), routes.flatten(), strict=True))
    parents = pc.list_parent_indices(route["components"])
    rows = batch.take(parents)
    at = rows.column("published_at").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    constant = {"vhost": "/", "user": "guest", "mandatory": False, "starts_at": START_MS, "ends_at": START_MS}
    columns = {
        **{name: rows.column(name) for name in ("publisher", "sequence", "exchange", "routing_key", "body_size")},
        **{name: pa.repeat(value, len(rows)) for name, value in constant.items()},
        "component": route["components"].flatten(),
        "message": rows.column("sequence"),
        "at": at,
        "may_refuse": route["may_refuse"].take(parents),
        "via": route["queues"].take(parents),
    }
    return pa.RecordBatch.from_pydict(columns)


def play_without_spark(path: MessagePath, rows: list[pa.RecordBatch]) -> int:
    """One process, all queues: how many events there were."""
    return sum(batch.num_rows for batch in Player(path.topology)(rows))


def profile_of(path: MessagePath, rows: list[pa.RecordBatch]) -> list[dict[str, object]]:
    with sampled() as samples:
        play_without_spark(path, rows)
    modules = {file.stem for file in Path(message_path.__file__).parent.glob("*.py")}
    return samples.shares(modules)


def skewed(publishes: DataFrame) -> DataFrame:
    is_hot = publishes.sequence % 10 != 0
    to_default = {"exchange": sf.when(is_hot, "").otherwise(publishes.exchange),
                  "routing_key": sf.when(is_hot, "q5").otherwise(publishes.routing_key)}  # fmt: skip
    return publishes.withColumns(to_default)


def whole_path(path: MessagePath, publishes: DataFrame, out: str, clock: Clock, count: int) -> None:
    """Each table in turn: what comes first pays for what is shared."""
    first = path.run(publishes)
    # New definitions: Java compiles, and each worker asks about every key.
    clock.measure("whole path: check and route, the first time", count, lambda: first.routed.count())
    first.unpersist()
    result = path.run(publishes)
    clock.measure("whole path: check and route", count, lambda: result.routed.count())
    clock.measure("whole path: queues", count, lambda: result.events.count())
    for name, table in result.tables().items():
        write = table.write.mode("overwrite").parquet
        clock.measure(f"whole path: write {name}", count, partial(write, f"{out}/{name}"))
    result.unpersist()


@click.command()
@click.option("--publishes", default=10_000_000, show_default=True, help="The larger of the two sizes.")
@click.option("--whole", default=1_000_000, show_default=True, help="Publishes for the whole path.")
@click.option("--cores", default=2, show_default=True)
def main(publishes: int, whole: int, cores: int) -> None:
    small = max(publishes // 10, 1)
    clock = Clock(cores)
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as folder:
        places = {count: write_publishes(Path(folder), count) for count in sorted({small, publishes, whole})}
        settings = {"spark.sql.execution.arrow.maxRecordsPerBatch": BATCH, "spark.driver.memory": "4g"}
        spark = session("bench path", f"local[{cores}]", **settings)
        path = MessagePath(definitions(with_limits=False))
        frames = {count: spark.read.parquet(place) for count, place in places.items()}
        # Java and the workers are warm before anything counts, and have seen every key.
        for _ in range(2):
            route_with_spark(path, frames[small])
        first = clock.measure("check and route", small, lambda: route_with_spark(path, frames[small]))
        second = clock.measure("check and route", publishes, lambda: route_with_spark(path, frames[publishes]))
        routes = resolved(path)
        clock.measure("plain broadcast join", publishes, lambda: plain_join(spark, frames[publishes], routes))
        clock.measure("one process without Spark", small, lambda: route_without_spark(path, places[small]), 1)
        limited = MessagePath(definitions(with_limits=True))
        whole_path(limited, frames[whole], f"{folder}/out", clock, whole)
        rows = rows_to_play(limited, places[whole])[: max(1, whole // BATCH // 5)]
        played = sum(batch.num_rows for batch in rows)
        clock.measure(
            "queues in one process, rows for a component", played, lambda: play_without_spark(limited, rows), 1
        )
        profile = profile_of(limited, rows)
        hot = MessagePath(definitions(with_limits=True))
        result = hot.run(skewed(frames[whole]))
        clock.measure("90 % for one queue: check, route", whole, result.routed.count)
        clock.measure("90 % for one queue: queues", whole, result.events.count)
        spark.stop()
    linear = second / first / (publishes / small)
    report = {
        "cores": cores,
        "cpu_beyond_linear": round(linear - 1, 3),
        "seconds_beyond_linear": round(
            clock.rows[1]["seconds"] / clock.rows[0]["seconds"] / (publishes / small) - 1, 3
        ),
        "rows": clock.rows,
        "profile_of_queues": profile,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "path.json").write_text(json.dumps(report, indent=2) + "\n")
    show(report)


def show(report: dict[str, Any]) -> None:
    table = Table(
        title=f"message path, {report['cores']} cores; with ten times the rows each takes "
        f"{report['seconds_beyond_linear']:+.1%} time, {report['cpu_beyond_linear']:+.1%} CPU time"
    )
    for name in ("", "rows", "seconds", "a second", "CPU s", "a second, alone", "load before"):
        table.add_column(name, justify="right" if name else "left")
    for row in report["rows"]:
        figures = ("rows", "seconds", "rows_per_second", "cpu_seconds", "alone", "load_before")
        table.add_row(row["name"], *[f"{row[figure]:,}" for figure in figures])
    shares = Table("queue stage in one process", "with what it calls", "itself")
    for line in report["profile_of_queues"]:
        shares.add_row(str(line["function"]), f"{line['share']:.0%}", f"{line['itself']:.0%}")
    # Wide enough for names also where there is no terminal.
    console = Console(width=120)
    console.print(table)
    console.print(shares)


if __name__ == "__main__":
    main()
