"""`warren scheduled`: what delayed exchanges hold back. Only Warren can tell."""

from __future__ import annotations

from typing import Any

import click

from warren.cli.options import EXCHANGE, url_option, vhost_option
from warren.cli.output import json_option, show_rows
from warren.client.api import Api


@click.group()
def scheduled() -> None:
    """List and cancel messages that delayed exchanges hold back."""


@scheduled.command("list")
@click.argument("exchange", type=EXCHANGE, required=False)
@click.option("--count", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@json_option
@vhost_option
@url_option
def list_(exchange: str | None, count: int, as_json: bool, vhost: str, url: str) -> None:
    """List the delayed exchanges, or what EXCHANGE holds back."""
    api = Api(url)
    if exchange is None:
        show_rows(api.get("scheduled", vhost), ("name", "messages"), as_json)
        return
    rows: list[dict[str, Any]] = api.get("scheduled", vhost, exchange, count=count)["messages"]
    show_rows(rows, ("sequence", "due_at", "routing_key", "properties", "payload"), as_json)


@scheduled.command()
@click.argument("exchange", type=EXCHANGE)
@click.argument("sequence", type=click.IntRange(1))
@vhost_option
@url_option
def cancel(exchange: str, sequence: int, vhost: str, url: str) -> None:
    """Cancel the message with this SEQUENCE."""
    Api(url).delete("scheduled", vhost, exchange, str(sequence))
