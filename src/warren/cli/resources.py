"""The two commands that every kind of thing in the broker has: list them all, delete one by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from warren.cli.options import url_option, vhost_option
from warren.cli.output import json_option, show_rows
from warren.client.api import Api


def list_command(
    kind: str, columns: Sequence[str], text: str, in_vhost: bool = True, called: str = "list"
) -> click.Command:
    def show(as_json: bool, url: str, **where: str) -> None:
        show_rows(Api(url).get(kind, *where.values()), columns, as_json)

    return click.command(called, help=text)(json_option(_placed(show, in_vhost)))


def delete_command(
    kind: str, text: str, type_: click.ParamType[str] = click.STRING, in_vhost: bool = True, called: str = "delete"
) -> click.Command:
    def delete(name: str, url: str, **where: str) -> None:
        Api(url).delete(kind, *where.values(), name)

    named = click.argument("name", type=type_)(_placed(delete, in_vhost))
    return click.command(called, help=text)(named)


def _placed(function: Callable[..., None], in_vhost: bool) -> Callable[..., Any]:
    with_url: Callable[..., Any] = url_option(function)
    return vhost_option(with_url) if in_vhost else with_url
