"""The command `warren`: puts the groups together, and turns errors into one line and exit code 1."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from warren import __version__
from warren.cli import definitions, serve, users
from warren.errors import WarrenError

EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    help="A message broker that speaks AMQP 0-9-1 as RabbitMQ does.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(users.app, name="users")
app.command("export")(definitions.export)
app.command("import")(definitions.import_)


def print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"warren {__version__}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """A message broker that speaks AMQP 0-9-1 as RabbitMQ does."""


def build() -> TyperGroup:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    group.add_command(serve.command())
    return group


def main() -> None:
    try:
        build()(prog_name="warren")
    except WarrenError as error:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "red"), str(error)))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output left (`warren export | head`): nobody is there to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
