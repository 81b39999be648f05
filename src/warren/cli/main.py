"""The command `warren`: puts the groups together, and turns errors into one line and exit code 1."""

from __future__ import annotations

import os
import re
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

from warren import __version__
from warren.core import describe_core
from warren.errors import WarrenError
from warren.extras import how_to_install

EXIT_INTERRUPTED: Final = 130
# Packages that a broker does without.
OF_EXTRA_SPARK: Final = {"deltalake", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "yaml"}
# Module and name of each command.
COMMANDS: Final = {
    "archive": ("warren.cli.archive", "archive"),
    "bindings": ("warren.cli.topology", "bindings"),
    "channels": ("warren.cli.clients", "channels"),
    "cluster": ("warren.cli.cluster", "cluster"),
    "connections": ("warren.cli.clients", "connections"),
    "consume": ("warren.cli.consume", "consume"),
    "consumers": ("warren.cli.clients", "consumers"),
    "declare": ("warren.cli.topology", "declare"),
    "doctor": ("warren.cli.doctor", "doctor"),
    "exchanges": ("warren.cli.topology", "exchanges"),
    "export": ("warren.cli.definitions", "export"),
    "get": ("warren.cli.messages", "get"),
    "import": ("warren.cli.definitions", "import_"),
    "migrate": ("warren.cli.migrate", "migrate"),
    "peek": ("warren.cli.messages", "peek"),
    "perf": ("warren.cli.perf", "perf"),
    "pipeline": ("warren.cli.pipeline", "pipeline"),
    "policies": ("warren.cli.topology", "policies"),
    "publish": ("warren.cli.messages", "publish"),
    "queues": ("warren.cli.queues", "queues"),
    "redrive": ("warren.cli.redrive", "redrive"),
    "replay": ("warren.cli.replay", "replay"),
    "route": ("warren.cli.route", "route"),
    "scheduled": ("warren.cli.scheduled", "scheduled"),
    "serve": ("warren.cli.serve", "serve"),
    "status": ("warren.cli.status", "status"),
    "store": ("warren.cli.store", "store"),
    "trace": ("warren.cli.trace", "trace"),
    "users": ("warren.cli.users", "users"),
    "vhosts": ("warren.cli.topology", "vhosts"),
}


class Commands(click.Group):
    """Loads only the command that is called: tables, HTTP and progress bars are half of a broker's start."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name]
        command: click.Command = getattr(import_module(module), attribute)
        return command


def show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        click.echo(f"warren {__version__}\ncore: {describe_core()}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_version,
    help="Show the version, and whether the core is compiled.",
)
def warren() -> None:
    """A message broker that speaks AMQP 0-9-1 as RabbitMQ does.

    `warren serve` starts one; the other commands work on one that runs, through its management API (--url).
    `warren store` and `warren route` need no broker: the one looks into the message log of a data folder, the other
    plays publishes through definitions, on Spark.
    """


def main() -> None:
    try:
        sys.exit(warren.main(prog_name="warren", standalone_mode=False))
    except WarrenError as error:
        fail(str(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OF_EXTRA_SPARK:
            raise
        fail(f"this needs {error.name}, which comes with: {how_to_install('spark')}")
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message())
        sys.exit(1)
    except click.UsageError as error:
        fail(error.format_message() + _meant(error))
    except click.ClickException as error:
        fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output left (`warren export | head`): nobody is there to be told.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _meant(error: click.UsageError) -> str:
    """Of commands; for options click does it itself."""
    group = None if error.ctx is None else error.ctx.command
    found = re.fullmatch(r"No such command '(.*)'\.", error.message)
    if found is None or error.ctx is None or not isinstance(group, click.Group):
        return ""
    near = get_close_matches(found.group(1), group.list_commands(error.ctx), 1)
    return f" Did you mean '{near[0]}'?" if near else ""


def fail(reason: str) -> None:
    """One line, whatever the reason looks like."""
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "red"), " ".join(reason.split())))
    sys.exit(1)
