"""`warren connections`, `channels`, `consumers`: who is connected, and a way to end it."""

from __future__ import annotations

from typing import Final

import click

from warren.cli.options import url_option
from warren.cli.output import json_option, show_rows
from warren.cli.resources import list_command
from warren.client.api import Api

_CONNECTIONS: Final = ("name", "user", "vhost", "state", "channels", "ssl", "recv_oct", "send_oct")
_CHANNELS: Final = ("name", "user", "vhost", "consumer_count", "messages_unacknowledged", "messages_unconfirmed")
_CONSUMERS: Final = ("queue", "consumer_tag", "ack_required", "prefetch_count", "active", "channel")


@click.group()
def connections() -> None:
    """List connections, and close them."""


connections.add_command(list_command("connections", _CONNECTIONS, "List the connections.", in_vhost=False))


@connections.command()
@click.argument("name", required=False)
@click.option("--user", help="All connections of this user.")
@click.option("--reason", default="Closed from the command line", show_default=True, help="What the client is told.")
@url_option
def close(name: str | None, user: str | None, reason: str, url: str) -> None:
    """Close the connection NAME, or all of a user."""
    if (name is None) == (user is None):
        raise click.UsageError("say which: NAME or --user")
    where = ["connections", "username", user] if user is not None else ["connections", name or ""]
    Api(url, headers={"X-Reason": reason}).delete(*where)


channels = list_command("channels", _CHANNELS, "List the channels.", in_vhost=False, called="channels")


@click.command()
@json_option
@url_option
def consumers(as_json: bool, url: str) -> None:
    """List the consumers."""
    rows = Api(url).get("consumers")
    if not as_json:
        rows = [{**row, "queue": row["queue"]["name"], "channel": row["channel_details"]["name"]} for row in rows]
    show_rows(rows, _CONSUMERS, as_json)
