"""`warren store`: look into the messages of a broker, running or not, or into a copy of them."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from warren.cli.output import json_option, show_rows
from warren.errors import WarrenError
from warren.server.folder import DataFolder
from warren.store.forget import Undefined
from warren.store.inspect import MESSAGES, Record, StoreReport
from warren.store.inspect import check as check_store
from warren.store.inspect import dump as dump_store

_BODY_SHOWN: Final = 60

directory_argument = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


@click.group()
def store() -> None:
    """Look into a message log. DIR is a data folder, or the folder `messages` in it."""


@store.command()
@directory_argument
@json_option
def check(directory: Path, as_json: bool) -> None:
    """Say what the log in DIR holds and what is damaged in it. Exits 1 when something is."""
    report = check_store(directory)
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
    else:
        _print(report)
    if report.damage:
        sys.exit(1)


def _print(report: StoreReport) -> None:
    console = Console(soft_wrap=True)
    queues = [{**asdict(row), "priority": row.level} for row in report.queues]
    show_rows(queues, ("vhost", "queue", "priority", "messages", "bytes"), False)
    streams: list[dict[str, object]] = []
    for each in report.streams:
        offsets = f"{each.first_offset}-{each.next_offset - 1}" if each.messages else ""
        streams.append({**asdict(each), "offsets": offsets})
    if streams:
        show_rows(streams, ("vhost", "stream", "files", "offsets", "messages", "bytes"), False)
    live = sum(row.live for row in report.segments)
    size = sum(row.bytes for row in report.segments)
    console.print(f"{report.definitions} definitions", highlight=False)
    console.print(f"{len(report.segments)} segments, {size} bytes, {live} live entries", markup=False, highlight=False)
    for kind, lines in (("note", report.notes), ("damage", report.damage)):
        for line in lines:
            console.print(f"{kind}: {line}", markup=False, highlight=False)
    if not report.damage:
        console.print("no damage", highlight=False)


@store.command()
@directory_argument
@json_option
def dump(directory: Path, as_json: bool) -> None:
    """Write every record in DIR, one per line, in the order in which they were written: the log, then each stream."""
    for record in dump_store(directory):
        click.echo(_json_line(record) if as_json else _text_line(record))


@store.command()
@click.argument("directory", metavar="DATA_DIR", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
def forget(directory: Path, yes: bool) -> None:
    """Give up the messages in DATA_DIR whose queues are not defined.

    A broker that finds such messages, because its definitions were damaged or taken back to an older state, keeps them
    and says so. Once the definitions are restored they are in their queues again; this is for when they never will be.
    The broker must not run.
    """
    if not (directory / MESSAGES).is_dir():
        raise WarrenError(f"{directory} is no data folder of Warren")
    folder = DataFolder(str(directory))
    folder.open()
    try:
        undefined = Undefined(directory / MESSAGES)
        try:
            _forget(undefined, yes)
        finally:
            undefined.close()
    finally:
        folder.close()


def _forget(undefined: Undefined, yes: bool) -> None:
    lines = undefined.lines()
    if not lines:
        click.echo("every message belongs to a queue that is defined")
        return
    for line in lines:
        click.echo(line)
    if not yes:
        click.confirm("Give these up for good?", abort=True)
    undefined.give_up()
    click.echo("they are gone")


def _json_line(record: Record) -> str:
    facts = dict(record.facts)
    body = facts.pop("body", None)
    if isinstance(body, bytes):
        try:
            facts["body"] = body.decode()
        except UnicodeDecodeError:
            facts["body_base64"] = b64encode(body).decode()
    place = {"segment": record.segment, "offset": record.offset, "size": record.size, "kind": record.kind}
    return json.dumps({**place, **facts})


def _text_line(record: Record) -> str:
    facts = []
    for name, value in record.facts.items():
        if isinstance(value, bytes):
            shown = repr(value[:_BODY_SHOWN])[1:] + ("..." if len(value) > _BODY_SHOWN else "")
            facts.append(f"{name}({len(value)})={shown}")
        else:
            facts.append(f"{name}={json.dumps(value)}")
    return f"{record.segment}:{record.offset} {record.kind} " + " ".join(facts)
