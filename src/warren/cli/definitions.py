"""`warren export` and `warren import`: definitions files, in RabbitMQ's format."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from warren.cli.options import url_option
from warren.client.api import Api
from warren.errors import WarrenError
from warren.strict_json import parse, read_json

vhost_option = click.option("--vhost", help="Only this virtual host.")


@click.command()
@click.argument("file", default="-")
@vhost_option
@url_option
def export(file: str, vhost: str | None, url: str) -> None:
    """Write users, virtual hosts, queues, exchanges, bindings and policies to FILE (- is standard output)."""
    definitions = Api(url).get("definitions", *([] if vhost is None else [vhost]))
    text = json.dumps(definitions, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WarrenError(f"cannot write {file}: {error.strerror}") from error


@click.command("import")
@click.argument("file")
@vhost_option
@url_option
def import_(file: str, vhost: str | None, url: str) -> None:
    """Add what the definitions FILE holds (- is standard input). Nothing that is there already is deleted."""
    definitions = parse(sys.stdin.buffer.read(), "standard input") if file == "-" else read_json(file)
    Api(url).post("definitions", *([] if vhost is None else [vhost]), body=definitions)
