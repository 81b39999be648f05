"""`warren export` and `warren import`: definitions files, the same as RabbitMQ's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from warren.cli.api import DEFAULT_URL, Api, UrlOption
from warren.errors import WarrenError

FileArgument = Annotated[str, typer.Argument(help="A definitions file; - is standard input or output.")]
VHostOption = Annotated[str | None, typer.Option(help="Only this virtual host.")]


def export(file: FileArgument = "-", vhost: VHostOption = None, url: UrlOption = DEFAULT_URL) -> None:
    """Write users, virtual hosts, queues, exchanges, bindings and policies to a definitions file."""
    definitions = Api(url).get("definitions", *([] if vhost is None else [vhost]))
    text = json.dumps(definitions, indent=2, ensure_ascii=False) + "\n"
    if file == "-":
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WarrenError(f"cannot write {file}: {error.strerror}") from error


def import_(file: FileArgument, vhost: VHostOption = None, url: UrlOption = DEFAULT_URL) -> None:
    """Add what a definitions file holds. Nothing that is there already is deleted."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        definitions = json.loads(text)
    except OSError as error:
        raise WarrenError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise WarrenError(f"{file} is not JSON: {error}") from error
    Api(url).post("definitions", *([] if vhost is None else [vhost]), body=definitions)
