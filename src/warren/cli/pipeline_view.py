"""A running pipeline in the terminal: a table that changes in place, or a line of JSON a second."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

Status = dict[str, Any]
_COLOURS: Final = {
    "running": "green",
    "finished": "green",
    "starting": "yellow",
    "restarting": "yellow",
    "waiting": "dim",
    "stopped": "dim",
    "failed": "red",
    "killed": "red",
}
_JSON_SECONDS: Final = 1.0


class PipelineView:
    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, refresh_per_second=4, transient=False)
        self._printed_at = 0.0

    def __enter__(self) -> PipelineView:
        if not self._as_json and self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, status: Status) -> None:
        if self._as_json:
            is_change = status["state"] != "running"
            if is_change or time.monotonic() - self._printed_at >= _JSON_SECONDS:
                self._printed_at = time.monotonic()
                click.echo(json.dumps(status))
        elif self._live.is_started:
            self._live.update(status_table(status))


def status_table(status: Status) -> Group:
    title = Text.assemble(
        ("pipeline ", "dim"),
        (status["name"], "bold"),
        "  ",
        (status["state"], _COLOURS.get(status["state"], "")),
        (f"  process {status['pid']} on {status['host']}, {status['master'] or 'local'}", "dim"),
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("query", "state"):
        table.add_column(name)
    for name in ("rows", "rows/s", "lag", "batch", "time", "misfits", "late", "restarts"):
        table.add_column(name, justify="right")
    table.add_column("writes")
    for query in status["queries"]:
        table.add_row(
            query["name"],
            Text(query["state"], _COLOURS.get(query["state"], "")),
            f"{query['rows']:,}",
            f"{query['rows_per_second']:,.0f}",
            "" if query["lag"] is None else f"{query['lag']:,}",
            "" if query["batch"] < 0 else str(query["batch"]),
            f"{query['batch_ms']:,} ms" if query["batch_ms"] else "",
            str(query["misfits"] or ""),
            str(query.get("late") or ""),
            str(query["restarts"] or ""),
            query["sink"].replace(f"{Path.cwd()}/", ""),
        )
    errors = [(query["name"], query["last_error"]) for query in status["queries"] if query["last_error"]]
    if status["error"] and not errors:
        errors.append((status["name"], status["error"]))
    return Group(title, table, *(Text(f"{name}: {error}", "red") for name, error in errors))


def summary(status: Status) -> str:
    queries = status["queries"]
    rows, misfits = sum(query["rows"] for query in queries), sum(query["misfits"] for query in queries)
    misfit_words = f", {misfits:,} of them misfits" if misfits else ""
    late = sum(query.get("late") or 0 for query in queries)
    misfit_words += f", {late:,} too late for their group" if late else ""
    count = f"{len(queries)} {'query' if len(queries) == 1 else 'queries'}"
    return f"pipeline {status['name']} {status['state']}: {count}, {rows:,} rows read{misfit_words}"
