"""What `make run` starts: the broker, a generator of orders, and the sample pipeline on local Spark.

The terminal shows the pipeline and its totals; Ctrl-C stops all of it, the pipeline first. Without Spark the broker
runs alone. Everything that is kept is in warren-demo/ (DEMO_FOLDER names another folder).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from generator import Generator, write_customers
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from totals import Totals

from warren.cli.pipeline_view import status_table

FILE = Path(__file__).with_name("orders.yaml")
RATE = int(os.environ.get("DEMO_RATE", "20"))
STOP_SECONDS = 40.0
# Between two lines where there is no terminal to draw on.
LINE_SECONDS = 10.0


class Broker:
    """`warren serve` with its own options and ports; only where it keeps its data is ours to say."""

    def __init__(self, folder: Path) -> None:
        environment = {"WARREN_DATA_DIR": str(folder / "data"), **os.environ}
        log = folder / "broker.log"
        # A group of its own: Ctrl-C is for us, and the broker goes last.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warren", "serve"],
            stdout=subprocess.PIPE,
            stderr=log.open("w"),
            text=True,
            env=environment,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().strip()
        if not self.ready:
            sys.stderr.write(log.read_text())
            sys.exit(self.process.wait() or 1)
        amqp, http = (word.partition("=")[2] for word in self.ready.split()[2:4])
        self.amqp = f"amqp://guest:guest@{amqp}/%2F"
        self.http = f"http://guest:guest@{http}"
        self.page = f"http://{http}/"


class Pipeline:
    """`warren pipeline run --json`; the newest line is the status."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.status: dict[str, Any] | None = None
        environment = {
            **os.environ,
            "WARREN_AMQP_URL": broker.amqp,
            "WARREN_URL": broker.http,
            "DEMO_FOLDER": str(folder),
        }
        log = (folder / "pipeline.log").open("w")
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "warren", "pipeline", "run", "--json", str(FILE)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
        )
        log.close()
        threading.Thread(target=self._read, name="pipeline", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # Spark writes a word or two of its own.
            if line.startswith("{"):
                self.status = json.loads(line)


def screen(broker: Broker, pipeline: Pipeline | None, totals: Totals, folder: Path) -> Group:
    parts: list[Any] = [Text(broker.ready, "bold green"), Text("")]
    if pipeline is None:
        parts.append(
            Text("Spark is not installed, so there is no sample pipeline: pip install 'warren[spark]'", "yellow")
        )
    elif pipeline.status is None or pipeline.status["state"] == "starting":
        parts.append(Text("Spark is starting, which takes some seconds…", "yellow"))
    else:
        parts.append(status_table(pipeline.status))
    if pipeline is not None and pipeline.process.poll() not in (None, 0):
        parts.append(Text(f"the pipeline has ended; {folder / 'pipeline.log'} tells why", "red"))
    if totals.newest:
        parts += [Text(""), totals_table(totals)]
    parts += [Text(""), *hints(broker, folder)]
    return Group(*parts)


def totals_table(totals: Totals) -> Table:
    table = Table(title="totals of the minute", title_justify="left", box=None, pad_edge=False)
    table.add_column("country")
    table.add_column("minute")
    table.add_column("orders", justify="right")
    table.add_column("total", justify="right")
    for country, row in sorted(totals.newest.items()):
        table.add_row(country, row["minute"], str(row["orders"]), f"{row['total']:,.2f}")
    return table


def hints(broker: Broker, folder: Path) -> list[Text]:
    warren = ".venv/bin/warren" if Path(".venv/bin/warren").exists() else "warren"
    return [
        Text.assemble(("open  ", "dim"), broker.page, ("  the page (guest, guest)", "dim")),
        Text.assemble(("try   ", "dim"), f"{warren} pipeline plan {_shown(FILE)}"),
        Text.assemble(("try   ", "dim"), f"{warren} redrive orders.misfits --dry-run", ("  what did not fit", "dim")),
        Text.assemble(("look  ", "dim"), f"{_shown(folder / 'archive')}", ("  every order, in Parquet", "dim")),
        Text.assemble(("stop  ", "dim"), "Ctrl-C"),
    ]


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def line(pipeline: Pipeline | None, totals: Totals) -> str:
    if pipeline is None or pipeline.status is None:
        return "the pipeline is starting" if pipeline is not None else "no Spark, no pipeline"
    status = pipeline.status
    orders = sum(row["orders"] for row in totals.newest.values())
    amount = sum(row["total"] for row in totals.newest.values())
    return (
        f"pipeline {status['state']}: {status['rows']:,} rows, {status['rows_per_second']:g}/s, lag {status['lag']}; "
        f"totals of the minute: {orders} orders, {amount:,.2f}"
    )


def watch(broker: Broker, pipeline: Pipeline | None, totals: Totals, folder: Path, over: threading.Event) -> None:
    """Until Ctrl-C, or until the broker is gone."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for hint in hints(broker, folder):
            console.print(hint, soft_wrap=True)
        while not over.wait(LINE_SECONDS) and broker.process.poll() is None:
            console.print(line(pipeline, totals), soft_wrap=True)
        return
    with Live(console=console, auto_refresh=False) as live:
        while not over.wait(0.5) and broker.process.poll() is None:
            live.update(screen(broker, pipeline, totals, folder), refresh=True)


def draw(picture: str, shown: Group) -> None:
    """The screen as it was last, for the README."""
    console = Console(record=True, width=112, file=io.StringIO())
    console.print(shown)
    # The fonts that Rich names are on somebody else's server; any monospaced one will do.
    text = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make run"), flags=re.DOTALL)
    Path(picture).write_text(text, encoding="utf-8")


def end(process: subprocess.Popen[str], name: str) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        sys.stderr.write(f"{name} has not stopped in {STOP_SECONDS:g} s and is killed\n")
        process.kill()
        process.wait()


def main() -> None:
    folder = Path(os.environ.get("DEMO_FOLDER", "warren-demo")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        over.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    broker = Broker(folder)
    # Whoever waits for the broker need not wait for Spark.
    sys.stdout.write(broker.ready + "\n")
    sys.stdout.flush()
    write_customers(folder / "customers")
    generator, totals = Generator(broker.amqp, RATE), Totals(broker.amqp)
    pipeline = Pipeline(broker, folder) if find_spec("pyspark") is not None else None
    generator.start()
    totals.start()
    try:
        watch(broker, pipeline, totals, folder, over)
        if "DEMO_PICTURE" in os.environ:
            draw(os.environ["DEMO_PICTURE"], screen(broker, pipeline, totals, folder))
    finally:
        sys.stdout.write("stopping…\n")
        sys.stdout.flush()
        generator.stop()
        if pipeline is not None:
            end(pipeline.process, "the pipeline")
        totals.stop()
        end(broker.process, "the broker")
    published = f"{generator.published:,} orders were published, {totals.received:,} totals came back"
    sys.stdout.write(f"{published}; all is kept in {_shown(folder)}\n")
    sys.exit(broker.process.returncode)


if __name__ == "__main__":
    main()
