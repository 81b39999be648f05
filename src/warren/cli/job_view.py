"""A job in the terminal: a bar while it works, a sentence at the end; with --json only the summary, for scripts."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warren.cli.options import uri_option
from warren.spark.jobs.job import Progress as JobProgress
from warren.spark.jobs.job import Summary
from warren.spark.pipelines.model import DEFAULT_BROKER

broker_option = uri_option("AMQP address of the broker.", default=DEFAULT_BROKER, show_default=True)
master_option = click.option("--master", help="Spark master; all cores of this machine by default.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print only the summary, as JSON.")


class JobView:
    def __init__(self, title: str, as_json: bool) -> None:
        self._as_json = as_json
        console = Console(stderr=True)
        columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("messages"), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, disable=as_json or not console.is_terminal, transient=True)
        self._task = self._bar.add_task(title, total=None)

    def __enter__(self) -> JobView:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, progress: JobProgress) -> None:
        self._bar.update(self._task, completed=progress.done, total=progress.total)

    def finish(self, summary: Summary) -> None:
        if self._as_json:
            click.echo(json.dumps(summary.as_data()))
            return
        rate = summary.messages / summary.seconds if summary.seconds else 0
        click.echo(f"{summary.text} ({summary.seconds:.1f} s, {rate:,.0f} messages/s)")
