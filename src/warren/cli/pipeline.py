"""`warren pipeline`: pipelines on Spark from one file. Checking and drawing need no Spark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warren.cli.pipeline_view import PipelineView, status_table, summary
from warren.errors import WarrenError
from warren.spark.pipelines.draw_svg import draw_svg
from warren.spark.pipelines.draw_text import draw_text
from warren.spark.pipelines.graph import order_of_sinks
from warren.spark.pipelines.guarantees import guarantees
from warren.spark.pipelines.model import Definition
from warren.spark.pipelines.read_file import PipelineMistakes, load
from warren.spark.pipelines.state import ALIVE, State

file_argument = click.argument("file", type=click.Path(path_type=Path))
# As systemctl has it.
EXIT_NOT_RUNNING: Final = 3
json_option = click.option("--json", "as_json", is_flag=True, help="For scripts.")


@click.group()
def pipeline() -> None:
    """Run pipelines on Spark: queues, streams and tables in, SQL, exchanges and tables out.

    A pipeline is one YAML file. `validate` finds mistakes, `plan` shows what would happen, `run` does it.
    """


@pipeline.command()
@file_argument
@json_option
def validate(file: Path, as_json: bool) -> None:
    """Check FILE and name every mistake with its line. Starts no Spark and asks no broker."""
    try:
        definition = load(file)
    except PipelineMistakes as found:
        if as_json:
            click.echo(json.dumps({"valid": False, "mistakes": found.lines}))
        else:
            for line in found.lines:
                click.echo(line, err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps({"valid": True, "mistakes": []}))
        return
    parts = ((definition.sources, "source"), (definition.views, "view"), (definition.sinks, "sink"))
    counts = ", ".join(f"{len(found)} {word}{'' if len(found) == 1 else 's'}" for found, word in parts)
    click.echo(f"{file} is a pipeline: {counts}")


@pipeline.command()
@file_argument
@click.option("--svg", type=click.Path(path_type=Path), help="Also draw the graph into this file.")
@json_option
def plan(file: Path, svg: Path | None, as_json: bool) -> None:
    """Draw the graph of FILE, and say what each query promises."""
    definition = load_or_list(file)
    if svg is not None:
        write(svg, draw_svg(definition))
    if as_json:
        click.echo(json.dumps(plan_as_data(definition), indent=2))
        return
    console = Console(highlight=False)
    console.print(Text(draw_text(definition)))
    table = Table(
        "source", "sink", "promise", "because", title="Guarantees", title_justify="left", box=None, pad_edge=False
    )
    for each in guarantees(definition):
        table.add_row(each.source, each.sink, each.promise, each.reason)
    console.print(table)
    console.print(Text(f"\nStarted in this order: {', '.join(order_of_sinks(definition)[0])}"))


@pipeline.command()
@file_argument
@click.option("--once", is_flag=True, help="Work off what is there, and end.")
@click.option("--master", help="Spark master; else that of the file, else all cores of this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print a status as a line of JSON every second.")
def run(file: Path, once: bool, master: str | None, as_json: bool) -> None:
    """Run the pipeline in FILE until Ctrl-C or `warren pipeline stop`.

    Declares what is missing at the broker, starts Spark, and starts the queries in order. A query that fails is
    started again; messages that do not fit go to the file's dead letters. Everything goes on where it was left.
    """
    from warren.spark.pipelines.runner import run as run_pipeline

    definition = load_or_list(file)
    with errors_to(State(definition.folder).log_file), PipelineView(as_json) as view:
        status = run_pipeline(definition, once=once, master=master, watch=view.show)
    if not as_json:
        click.echo(summary(status))


@pipeline.command()
@file_argument
@json_option
def status(file: Path, as_json: bool) -> None:
    """Say how the pipeline in FILE is doing. Exit code 0 if it runs, 3 if not."""
    definition = load_or_list(file)
    found = State(definition.folder).read()
    if found is None:
        raise WarrenError(f"pipeline {definition.name} has never run: nothing in {definition.folder}")
    if as_json:
        click.echo(json.dumps(found))
    else:
        Console(highlight=False).print(status_table(found))
    sys.exit(0 if found["state"] in ALIVE else EXIT_NOT_RUNNING)


@pipeline.command()
@file_argument
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for it.")
def stop(file: Path, timeout: float) -> None:
    """Stop the pipeline in FILE: the batch under way ends first."""
    definition = load_or_list(file)
    if not State(definition.folder).stop(timeout):
        raise WarrenError(f"pipeline {definition.name} is not running")
    click.echo(f"pipeline {definition.name} has stopped")


@contextmanager
def errors_to(file: Path) -> Iterator[None]:
    """Whatever this process and those that it starts write to standard error goes there meanwhile: Spark's Java and its
    workers have it from us, and would write into the table that changes in place."""
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        log = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise WarrenError(f"cannot use the folder {file.parent}: {error.strerror}") from error
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


def plan_as_data(definition: Definition) -> dict[str, object]:
    return {
        "pipeline": definition.name,
        "graph": draw_text(definition),
        "order": order_of_sinks(definition)[0],
        "guarantees": [vars(each) for each in guarantees(definition)],
    }


def load_or_list(file: Path) -> Definition:
    """Mistakes are told one to a line, as compilers do."""
    try:
        return load(file)
    except PipelineMistakes as found:
        for line in found.lines[:-1]:
            click.echo(line, err=True)
        raise WarrenError(found.lines[-1]) from found


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WarrenError(f"cannot write {path}: {error.strerror}") from error
