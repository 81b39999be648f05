"""What `make run` starts: the broker, and as soon as Spark is installed a generator of orders and the sample pipeline.

    python examples/demo/run.py [COMMAND ...]

Each COMMAND is run beside the broker, one after the other; the first brings what Spark needs, and then the shop opens.
The terminal shows the pipeline and its totals; Ctrl-C stops all of it, the pipeline first. Everything that is
kept is in warren-demo/ (DEMO_FOLDER names another folder).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections import deque
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from warren.cli.pipeline_view import status_table
from warren.core import describe_core
from warren.extras import how_to_install

if TYPE_CHECKING:
    from totals import Totals

FILE = Path(__file__).with_name("orders.yaml")
RATE = int(os.environ.get("DEMO_RATE", "20"))
STOP_SECONDS = 40.0
# Between two lines where there is no terminal to draw on.
LINE_SECONDS = float(os.environ.get("DEMO_LINE_SECONDS", "10"))
# Between two looks at what has become of it all.
LOOK_SECONDS = 0.5
NO_SPARK = f"Spark is not installed, so there is no sample pipeline: {how_to_install('spark')}"


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


class Preparation(threading.Thread):
    """Installs and compiles beside the broker what is not there yet."""

    def __init__(self, commands: list[str]) -> None:
        super().__init__(name="preparation", daemon=True)
        self._commands = commands
        self._done = 0
        self._process: subprocess.Popen[str] | None = None
        self._is_over = False
        # What they said and nobody has shown yet, and the newest of it.
        self.unread: deque[str] = deque()
        self.newest = ""
        self.failure = ""

    @property
    def has_spark(self) -> bool:
        return self._done > 0 or not self._commands

    @property
    def is_under_way(self) -> bool:
        return self._done < len(self._commands) and not self.failure

    def run(self) -> None:
        for command in self._commands:
            if self._run(command) != 0:
                self.failure = "" if self._is_over else f"`{command}` failed: {self.newest}"
                return
            self._done += 1
        if self._commands:
            self._say("all is built: the next start takes it from there")

    def _run(self, command: str) -> int:
        self._process = process = subprocess.Popen(  # noqa: S603 - the Makefile's own
            shlex.split(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            # Ours may name the source to run from, which pip would take for an installation.
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            start_new_session=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            self._say(line.strip())
        return process.wait()

    def _say(self, line: str) -> None:
        if line:
            self.newest = line
            self.unread.append(line)

    def stop(self) -> None:
        self._is_over = True
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait(STOP_SECONDS)


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
        self._log = folder / "pipeline.log"
        log = self._log.open("w")
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

    @property
    def failure(self) -> str:
        """Why there is no pipeline any more, in one line; empty while there is one."""
        if self.process.poll() in (None, 0):
            return ""
        # Its last line is for people; what Java said comes before it.
        said = [line for line in self._log.read_text(errors="replace").splitlines() if line.startswith("error: ")]
        reason = said[-1].removeprefix("error: ") if said else f"it ended with exit code {self.process.returncode}"
        return f"the pipeline has ended: {reason} ({_shown(self._log)} has all of it)"


class Shop:
    """Orders, their pipeline, and those who listen to its totals: all that Spark must be there for."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        # Only now, because they need what may have been installed a moment ago.
        importlib.invalidate_caches()
        from generator import Generator, write_customers
        from totals import Totals

        write_customers(folder / "customers")
        self._generator, self.totals = Generator(broker.amqp, RATE), Totals(broker.amqp)
        self.pipeline = Pipeline(broker, folder)
        self._generator.start()
        self.totals.start()

    def stop(self) -> None:
        self._generator.stop()
        end(self.pipeline.process, "the pipeline")
        self.totals.stop()

    @property
    def summary(self) -> str:
        return f"{self._generator.published:,} orders were published, {self.totals.received:,} totals came back"


class Demo:
    def __init__(self, folder: Path, commands: list[str]) -> None:
        self.folder = folder
        self.broker = Broker(folder)
        self.preparation = Preparation(commands)
        self.shop: Shop | None = None

    def look(self) -> None:
        """Open the shop as soon as that is possible."""
        if self.shop is None and self.preparation.has_spark and find_spec("pyspark") is not None:
            self.shop = Shop(self.broker, self.folder)

    @property
    def trouble(self) -> str:
        """What keeps the pipeline from running, with what to do; empty while nothing does."""
        if self.preparation.failure:
            return f"{self.preparation.failure}; it can be run by itself, and the broker goes on without it"
        if self.shop is None:
            return NO_SPARK if self.preparation.has_spark else ""
        failure = self.shop.pipeline.failure
        return f"{failure}; `{_warren()} doctor` looks for the cause" if failure else ""

    def stop(self) -> None:
        self.preparation.stop()
        if self.shop is not None:
            self.shop.stop()
        end(self.broker.process, "the broker")


def screen(demo: Demo) -> Group:
    parts: list[Any] = [Text(demo.broker.ready, "bold green"), Text(f"core: {describe_core()}", "dim"), Text("")]
    if demo.preparation.is_under_way:
        parts.append(Text(f"beside it: {demo.preparation.newest}", "yellow"))
    if demo.shop is not None:
        status = demo.shop.pipeline.status
        if status is not None and status["state"] != "starting":
            parts.append(status_table(status))
        elif not demo.trouble:
            parts.append(Text("Spark is starting, which takes some seconds…", "yellow"))
    if demo.trouble:
        parts.append(Text(demo.trouble, "red"))
    if demo.shop is not None and demo.shop.totals.newest:
        parts += [Text(""), totals_table(demo.shop.totals)]
    parts += [Text(""), *hints(demo.broker, demo.folder)]
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
    warren = _warren()
    return [
        Text.assemble(("open  ", "dim"), broker.page, ("  the page (guest, guest)", "dim")),
        Text.assemble(("try   ", "dim"), f"{warren} pipeline plan {_shown(FILE)}"),
        Text.assemble(("try   ", "dim"), f"{warren} peek orders.misfits", ("  what did not fit", "dim")),
        Text.assemble(("look  ", "dim"), f"{_shown(folder / 'archive')}", ("  every order, in Parquet", "dim")),
        Text.assemble(("stop  ", "dim"), "Ctrl-C"),
    ]


def _shown(path: Path) -> str:
    with contextlib.suppress(ValueError):
        return str(path.resolve().relative_to(Path.cwd()))
    return str(path)


def line(shop: Shop) -> str:
    status = shop.pipeline.status
    if status is None:
        return "the pipeline is starting"
    orders = sum(row["orders"] for row in shop.totals.newest.values())
    amount = sum(row["total"] for row in shop.totals.newest.values())
    return (
        f"pipeline {status['state']}: {status['rows']:,} rows, {status['rows_per_second']:g}/s, lag {status['lag']}; "
        f"totals of the minute: {orders} orders, {amount:,.2f}"
    )


def watch(demo: Demo, over: threading.Event) -> None:
    """Until Ctrl-C, or until the broker is gone."""
    console = Console(highlight=False)
    if not console.is_terminal:
        write_lines(demo, over, console)
        return
    with Live(console=console, auto_refresh=False) as live:
        while not over.wait(LOOK_SECONDS) and demo.broker.process.poll() is None:
            demo.look()
            live.update(screen(demo), refresh=True)


def write_lines(demo: Demo, over: threading.Event, console: Console) -> None:
    for hint in hints(demo.broker, demo.folder):
        console.print(hint, soft_wrap=True)
    looks, told = 0, ""
    while not over.wait(LOOK_SECONDS) and demo.broker.process.poll() is None:
        demo.look()
        looks += 1
        while demo.preparation.unread:
            console.print(Text(demo.preparation.unread.popleft()), soft_wrap=True)
        if demo.trouble != told:
            told = demo.trouble
            console.print(Text(told), soft_wrap=True)
        if demo.shop is not None and not told and looks % round(LINE_SECONDS / LOOK_SECONDS) == 0:
            console.print(line(demo.shop), soft_wrap=True)


def _warren() -> str:
    return ".venv/bin/warren" if Path(".venv/bin/warren").exists() else "warren"


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
    demo = Demo(folder, sys.argv[1:])
    # Whoever waits for the broker need not wait for Spark.
    sys.stdout.write(f"{demo.broker.ready}\ncore: {describe_core()}\n")
    sys.stdout.flush()
    demo.preparation.start()
    try:
        watch(demo, over)
        if "DEMO_PICTURE" in os.environ:
            draw(os.environ["DEMO_PICTURE"], screen(demo))
    finally:
        sys.stdout.write("stopping…\n")
        sys.stdout.flush()
        demo.stop()
    kept = f"all is kept in {_shown(folder)}"
    sys.stdout.write(f"{demo.shop.summary}; {kept}\n" if demo.shop is not None else f"{kept}\n")
    sys.exit(demo.broker.process.returncode)


if __name__ == "__main__":
    main()
