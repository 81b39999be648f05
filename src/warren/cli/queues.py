"""`warren queues`: list, show, declare, change, purge, delete, and move what is in them."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress

from warren.cli.options import (
    EXCHANGE,
    QUEUE,
    argument_option,
    key_option,
    pairs,
    transient_option,
    url_option,
    vhost_option,
)
from warren.cli.output import json_option, show_item, show_rows
from warren.client.api import Api
from warren.errors import WarrenError

STEP: Final = 500
_COLUMNS: Final = ("name", "type", "messages", "messages_ready", "messages_unacknowledged", "consumers", "policy")


@click.group()
def queues() -> None:
    """List, declare, change, purge, delete and move queues and their messages."""


@queues.command("list")
@click.option("--all", "is_all", is_flag=True, help="Of all virtual hosts.")
@click.option("--sort", default="name", show_default=True, help="By this column.")
@click.option("--reverse", is_flag=True, help="Greatest first.")
@json_option
@vhost_option
@url_option
def list_(is_all: bool, sort: str, reverse: bool, as_json: bool, vhost: str, url: str) -> None:
    """List the queues and what is in them."""
    where = ["queues"] if is_all else ["queues", vhost]
    columns = ("vhost", *_COLUMNS) if is_all else _COLUMNS
    rows = Api(url).get(*where, sort=sort, sort_reverse="true" if reverse else None)
    known = sorted({*columns, *(name for row in rows for name in row)})
    # The broker leaves the order as it is when it knows no such column. Of no queues nobody knows their columns.
    if rows and sort.partition(".")[0] not in known:
        near = get_close_matches(sort, known, 1)
        raise WarrenError(f"there is no column {sort}" + (f"; did you mean {near[0]}?" if near else ""))
    show_rows(rows, columns, as_json)


@queues.command()
@click.argument("name", type=QUEUE)
@json_option
@vhost_option
@url_option
def show(name: str, as_json: bool, vhost: str, url: str) -> None:
    """Show all that is known of the queue NAME."""
    show_item(Api(url).get("queues", vhost, name), as_json)


@queues.command()
@click.argument("name")
@click.option("--type", "type_", help="classic, quorum or stream.")
@transient_option
@click.option("--auto-delete", is_flag=True, help="Gone with its last consumer.")
@argument_option
@vhost_option
@url_option
def declare(
    name: str, type_: str | None, transient: bool, auto_delete: bool, arguments: tuple[str, ...], vhost: str, url: str
) -> None:
    """Declare the queue NAME. One that is there must be the same."""
    given = pairs(arguments)
    if type_ is not None:
        given["x-queue-type"] = type_
    body = {"durable": not transient, "auto_delete": auto_delete, "arguments": given}
    Api(url).put("queues", vhost, name, body=body)


@queues.command()
@click.argument("name", type=QUEUE)
@argument_option
@click.option("--unset", multiple=True, metavar="NAME", help="Without this argument. May be repeated.")
@json_option
@vhost_option
@url_option
def change(name: str, arguments: tuple[str, ...], unset: tuple[str, ...], as_json: bool, vhost: str, url: str) -> None:
    """Give the queue NAME other arguments in place, where that is safe. Only Warren can do this."""
    api = Api(url)
    wanted = {**api.get("queues", vhost, name)["arguments"], **pairs(arguments)}
    for each in unset:
        wanted.pop(each, None)
    answer = api.patch("queues", vhost, name, body={"arguments": wanted})
    show_rows(answer["differences"], ("argument", "current", "wanted"), as_json)


@queues.command()
@click.argument("name", type=QUEUE)
@click.option("--yes", is_flag=True, help="Do not ask. Nobody is asked where standard input is no terminal.")
@vhost_option
@url_option
def purge(name: str, yes: bool, vhost: str, url: str) -> None:
    """Delete all messages that are ready in the queue NAME."""
    api = Api(url)
    if not yes and sys.stdin.isatty():
        ready = api.get("queues", vhost, name)["messages_ready"]
        click.confirm(f"Delete {ready} messages of queue '{name}' for good?", abort=True, err=True)
    api.delete("queues", vhost, name, "contents")


@queues.command()
@click.argument("name", type=QUEUE)
@click.option("--if-empty", is_flag=True, help="Only if nothing is in it.")
@click.option("--if-unused", is_flag=True, help="Only if nobody consumes.")
@vhost_option
@url_option
def delete(name: str, if_empty: bool, if_unused: bool, vhost: str, url: str) -> None:
    """Delete the queue NAME with all that is in it."""
    flags = {"if-empty": "true" if if_empty else None, "if-unused": "true" if if_unused else None}
    Api(url).delete("queues", vhost, name, **flags)


@queues.command("delete-message")
@click.argument("name", type=QUEUE)
@click.argument("sequence", type=click.IntRange(1))
@vhost_option
@url_option
def delete_message(name: str, sequence: int, vhost: str, url: str) -> None:
    """Delete the one message with this SEQUENCE (see `warren peek`). Only Warren can do this."""
    Api(url).delete("queues", vhost, name, "messages", str(sequence))


@queues.command()
@click.argument("source", type=QUEUE)
@click.argument("destination", type=QUEUE, required=False)
@click.option("--exchange", type=EXCHANGE, help="To this exchange instead of a queue.")
@key_option("With this one; else each keeps its own.")
@click.option("--count", type=click.IntRange(1), help="At most so many; else all.")
@click.option("--header", help="Only with this header: NAME or NAME=VALUE.")
@click.option("--body", help="Only with this text in the body.")
@vhost_option
@url_option
def move(
    source: str,
    destination: str | None,
    exchange: str | None,
    key: str | None,
    count: int | None,
    header: str | None,
    body: str | None,
    vhost: str,
    url: str,
) -> None:
    """Move messages from the queue SOURCE to the queue DESTINATION, or to an exchange. Only Warren can do this."""
    if (destination is None) == (exchange is None):
        raise WarrenError("say where to: DESTINATION or --exchange")
    asked: dict[str, Any] = {"queue": destination} if exchange is None else {"exchange": exchange}
    if key is not None:
        asked["routing_key"] = key
    asked["filter"] = {name: value for name, value in (("header", header), ("body", body)) if value is not None}
    api = Api(url)
    # Those that come while it works stay: a queue that is being filled would never be done.
    total = api.get("queues", vhost, source)["messages_ready"] if count is None else count
    moved = move_all(api, vhost, source, asked, total)
    Console().print(f"{moved} moved", highlight=False)


def move_all(api: Api, vhost: str, source: str, asked: dict[str, Any], total: int) -> int:
    moved = left = 0
    after: int | None = 0
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("moving", total=total)
        while after is not None and moved + left < total:
            step = {**asked, "count": min(STEP, total - moved - left), "after": after}
            answer = api.post("queues", vhost, source, "move", body=step)
            moved += answer["moved"]
            left += answer["left"]
            after = answer["next"]
            progress.update(task, completed=moved + left)
    if left:
        raise WarrenError(f"{moved} moved, but {left} found no queue and stay in {source}")
    return moved
