"""`warren route`: what a broker with these definitions would do with these publishes, as tables, on Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from warren.errors import WarrenError
from warren.spark.requirements import require_pyspark

if TYPE_CHECKING:
    from pyspark import StatusTracker
    from pyspark.sql import DataFrame, SparkSession

    from warren.spark.path import MessagePath
    from warren.spark.path.difference import PathDifference
    from warren.spark.path.result import PathResult

_POLL_SECONDS: Final = 0.3
_SHOWN: Final = 10
_WRITERS: Final = 4
# 50,000 rows in an Arrow batch: routing asks about each distinct row of a batch once.
_SETTINGS: Final[dict[str, object]] = {"spark.sql.execution.arrow.maxRecordsPerBatch": 50_000}


@click.command()
@click.option("--definitions", required=True, help="Definitions as RabbitMQ exports them (JSON).")
@click.option("--publishes", required=True, help="The messages: Parquet, or JSON lines when it ends in .json[l].")
@click.option("--out", required=True, help="Folder for the tables; made if it is not there.")
@click.option("--overwrite", is_flag=True, help="Replace tables that are in --out already.")
@click.option("--consumers", help="Consumers to play along (JSON); without, nobody consumes.")
@click.option("--interceptors", default="", help="Loaded as by `warren serve`: package.module:Class, ...")
@click.option("--exchange-decorators", default="", help="Loaded as by `warren serve`: package.module:Class, ...")
@click.option("--what-if", help="Other definitions: tell which messages would go elsewhere.")
@click.option("--user", help="Who published, where the publishes do not say.  [default: guest]")
@click.option("--vhost", default="/", show_default=True, help="Where to, where the publishes do not say.")
@click.option(
    "--order-by", multiple=True, help="Column that orders them.  [default: published_at, publisher, sequence]"
)
@click.option("--master", help="Where Spark runs.  [default: every core of this machine]")
@click.option("--json", "as_json", is_flag=True, help="One line, for scripts.")
def route(
    definitions: str,
    publishes: str,
    out: str,
    overwrite: bool,
    consumers: str | None,
    interceptors: str,
    exchange_decorators: str,
    what_if: str | None,
    user: str | None,
    vhost: str,
    order_by: tuple[str, ...],
    master: str | None,
    as_json: bool,
) -> None:
    """Send a table of publishes through a broker that is not there.

    Every rule is the broker's own: permissions, routing, limits, TTL, dead letters, confirms. Written to --out as
    Parquet: deliveries, returns, refusals, confirms, dead_letters, dropped, consumed, queues, statistics; with
    --what-if also differences. docs/message-path.md lists the columns.

    \b
    warren export defs.json
    warren route --definitions defs.json --publishes messages.parquet --out result
    warren route --definitions defs.json --publishes messages.parquet --out result --what-if other.json
    """
    require_pyspark()
    _check_publishes(publishes)
    _check_out(out, overwrite)
    from warren.spark.path import MessagePath

    extensions: dict[str, Any] = {
        "interceptors": [name.strip() for name in interceptors.split(",") if name.strip()],
        "exchange_decorators": [name.strip() for name in exchange_decorators.split(",") if name.strip()],
    }
    path = MessagePath(definitions, **extensions)
    other = None if what_if is None else MessagePath(what_if, **extensions)
    with _session(master) as spark:
        frame = _read(spark, publishes)
        options: dict[str, Any] = {"user": user, "vhost": vhost, "order_by": list(order_by) or None}
        summary = _run(spark, path, other, frame, consumers, options, _whole(out), as_json)
    if as_json:
        click.echo(json.dumps(summary))


def _run(
    spark: SparkSession,
    path: MessagePath,
    other: MessagePath | None,
    frame: DataFrame,
    consumers: str | None,
    options: dict[str, Any],
    out: str,
    as_json: bool,
) -> dict[str, object]:
    from warren.spark.path.difference import PathDifference

    difference: PathDifference | None = None
    if other is None:
        result: PathResult = path.run(frame, consumers, **options)
    else:
        difference = PathDifference(path, other, frame, consumers, **options)
        result = difference.before
    tables = dict(result.tables())
    if difference is not None:
        tables |= {"differences/routes": difference.routes, "differences/fates": difference.fates}
    with _bar(spark, len(tables) + 2, as_json) as step:
        step("check and route")
        result.routed.count()
        step("queues")
        result.events.count()
        # The rest is many small jobs, which Spark plans side by side.
        with ThreadPoolExecutor(_WRITERS) as pool:
            writing = {pool.submit(_write, table, f"{out}/{name}"): name for name, table in tables.items()}
            for written in as_completed(writing):
                written.result()
                step(writing[written])
    summary = _summary(spark, out)
    if difference is not None:
        summary["differences"] = _differences(spark, out)
    if not as_json:
        _show(spark, out, summary)
    return summary


def _write(table: DataFrame, place: str) -> None:
    table.write.mode("overwrite").parquet(place)


def _check_out(out: str, overwrite: bool) -> None:
    folder = Path(out)
    if "://" in out or overwrite or not folder.exists():
        return
    if not folder.is_dir():
        raise WarrenError(f"{out} is a file; --out must be a folder")
    if any(folder.iterdir()):
        raise WarrenError(f"{out} is not empty; choose another folder, or --overwrite what is there")


def _check_publishes(publishes: str) -> None:
    """Before Spark starts, which takes its time."""
    if "://" not in publishes and not Path(publishes).exists():
        raise WarrenError(f"cannot read {publishes}: No such file or directory")


def _read(spark: SparkSession, publishes: str) -> DataFrame:
    place = _whole(publishes)
    if place.endswith((".json", ".jsonl")):
        return spark.read.json(place, multiLine=_is_list(place))
    return spark.read.parquet(place)


def _is_list(place: str) -> bool:
    """One JSON list, as `warren trace --json` prints it, and not a line for each message."""
    if "://" in place or not Path(place).is_file():
        return False
    with Path(place).open(encoding="utf-8") as file:
        return file.read(100).lstrip().startswith("[")


def _whole(place: str) -> str:
    """Java need not be in the folder that we are in."""
    return place if "://" in place else str(Path(place).absolute())


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    """Whatever Spark complains about is told in one line."""
    from pyspark.errors import PySparkException

    from warren.spark import session

    spark = session("warren route", master, **_SETTINGS)
    try:
        yield spark
    except PySparkException as error:
        raise WarrenError(_first_line(error)) from error
    finally:
        spark.stop()


def _first_line(error: Exception) -> str:
    """Of a worker's traceback the last line says what was wrong; of Spark's own messages the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith(("warren.", "warren_"))]
    if ours:
        return ours[-1].partition(": ")[2] or ours[-1]
    return lines[0] if lines else type(error).__name__


# -- progress --------------------------------------------------------------------------------------------------------


@contextmanager
def _bar(spark: SparkSession, steps: int, is_silent: bool) -> Iterator[Callable[[str], None]]:
    """A step for each table, and within it what Spark says of its tasks."""
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    console = Console(stderr=True, quiet=is_silent)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=steps)
        follower = _Follower(spark, progress, task)
        follower.start()
        try:
            yield follower.step
        finally:
            follower.stop()
            follower.join()


class _Follower(threading.Thread):
    def __init__(self, spark: SparkSession, progress: Progress, task: TaskID) -> None:
        super().__init__(daemon=True)
        self._tracker = _tracker(spark)
        self._progress = progress
        self._task = task
        self._done = -1
        self._is_over = threading.Event()

    def step(self, name: str) -> None:
        self._done += 1
        self._progress.update(self._task, description=name, completed=self._done)

    def run(self) -> None:
        while self._tracker is not None and not self._is_over.wait(_POLL_SECONDS):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            tasks = sum(stage.numTasks for stage in stages if stage is not None)
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            if tasks and self._done >= 0:
                self._progress.update(self._task, completed=self._done + 0.95 * done / tasks)

    def stop(self) -> None:
        self._is_over.set()


def _tracker(spark: SparkSession) -> StatusTracker | None:
    """None with Spark Connect, which does not tell."""
    from pyspark.errors import PySparkException

    try:
        return spark.sparkContext.statusTracker()
    except PySparkException:
        return None


# -- what is told ------------------------------------------------------------------------------------------------------


def _summary(spark: SparkSession, out: str) -> dict[str, object]:
    rows = spark.read.parquet(f"{out}/statistics").where("of != 'exchange'").groupBy("of", "figure").sum("count")
    counts = {(row[0], row[1]): row[2] for row in rows.collect()}

    def of(kind: str, *figures: str) -> int:
        return sum(count for (of, figure), count in counts.items() if of == kind and figure.startswith(figures))

    bad = spark.read.parquet(f"{out}/refusals").where("scope = 'row'").count()
    published, refused = of("publisher", "published"), of("publisher", "refused")
    return {
        "publishes": published + bad,
        "refused": refused + bad,
        "returned": of("publisher", "returned"),
        "unroutable": of("publisher", "unroutable"),
        "acked": published - refused - of("publisher", "nacked"),
        "nacked": of("publisher", "nacked"),
        "deliveries": _exactly(counts, "delivered"),
        "dead_letters": of("queue", "dead_lettered"),
        "dropped": of("queue", "dropped"),
        "consumed": _exactly(counts, "acked"),
        "ready": _exactly(counts, "ready"),
    }


def _exactly(counts: dict[tuple[str, str], int], figure: str) -> int:
    return counts.get(("queue", figure), 0)


def _differences(spark: SparkSession, out: str) -> dict[str, object]:
    routes = spark.read.parquet(f"{out}/differences/routes")
    fates = spark.read.parquet(f"{out}/differences/fates")
    groups = routes.groupBy("exchange", "before", "after").count().orderBy("count", ascending=False).limit(_SHOWN)
    return {
        "routes": routes.count(),
        "fates": fates.count(),
        "largest": [
            {"exchange": row[0], "before": list(row[1]), "after": list(row[2]), "messages": row[3]}
            for row in groups.collect()
        ],
    }


def _show(spark: SparkSession, out: str, summary: dict[str, object]) -> None:
    console = Console()
    table = Table(title=f"{summary['publishes']:,} publishes, told in {out}", title_justify="left")
    table.add_column("")
    table.add_column("messages", justify="right")
    for name, count in summary.items():
        if isinstance(count, int) and name != "publishes":
            table.add_row(name.replace("_", " "), f"{count:,}")
    console.print(table)
    _show_queues(spark, out, console)
    differences = summary.get("differences")
    if isinstance(differences, dict):
        _show_differences(console, differences)


def _show_queues(spark: SparkSession, out: str, console: Console) -> None:
    queues = spark.read.parquet(f"{out}/statistics").where("of = 'queue' and figure in ('delivered', 'ready')")
    rows = queues.groupBy("vhost", "name").pivot("figure", ["delivered", "ready"]).sum("count")
    table = Table(title=f"largest queues (at most {_SHOWN})", title_justify="left")
    for name in ("vhost", "queue"):
        table.add_column(name)
    for name in ("delivered", "ready at the end"):
        table.add_column(name, justify="right")
    for row in rows.orderBy("delivered", ascending=False).limit(_SHOWN).collect():
        table.add_row(row[0], row[1], f"{row[2] or 0:,}", f"{row[3] or 0:,}")
    console.print(table)


def _show_differences(console: Console, differences: dict[str, object]) -> None:
    table = Table(
        title=f"what if: {differences['routes']:,} messages would go elsewhere, {differences['fates']:,} fates differ",
        title_justify="left",
    )
    table.add_column("exchange")
    table.add_column("now")
    table.add_column("then")
    table.add_column("messages", justify="right")
    largest = differences["largest"]
    assert isinstance(largest, list)
    for group in largest:
        before, after = (", ".join(group[side]) or "nowhere" for side in ("before", "after"))
        table.add_row(group["exchange"], before, after, f"{group['messages']:,}")
    console.print(table)
