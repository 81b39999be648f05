"""A job in the terminal: a bar while it works, a sentence at the end; with --json only the summary, for scripts."""

from __future__ import annotations

import json
from typing import Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from warren.cli.options import uri_option
from warren.client.address import DEFAULT_URI
from warren.spark.jobs.job import Summary, Watcher

broker_option = uri_option("AMQP address of the broker.", default=DEFAULT_URI, show_default=True)
master_option = click.option("--master", help="Spark master; all cores of this machine by default.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print only the summary, as JSON.")


class Job(Protocol):
    def run(self, *, master: str | None, watch: Watcher) -> Summary: ...


def run_job(title: str, job: Job, master: str | None, as_json: bool) -> None:
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TextColumn("messages"), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=as_json or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=None)
        summary = job.run(master=master, watch=lambda now: bar.update(task, completed=now.done, total=now.total))
    if as_json:
        click.echo(json.dumps(summary.as_data()))
        return
    rate = summary.messages / summary.seconds if summary.seconds else 0
    click.echo(f"{summary.text} ({summary.seconds:.1f} s, {rate:,.0f} messages/s)")
