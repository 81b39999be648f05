"""`warren users`: who may log in, and what they may touch."""

from __future__ import annotations

import click

from warren.cli.options import url_option, vhost_option
from warren.cli.output import json_option, show_rows
from warren.cli.resources import delete_command
from warren.client.api import Api


@click.group()
def users() -> None:
    """Add, list and delete users, and set what they may do."""


@users.command()
@click.argument("name")
@click.password_option(help="Asked for when not given.")
@click.option("--tag", multiple=True, help="administrator, monitoring, policymaker or management; may be repeated.")
@url_option
def add(name: str, password: str, tag: tuple[str, ...], url: str) -> None:
    """Add the user NAME, or give one another password and other tags."""
    Api(url).put("users", name, body={"password": password, "tags": ",".join(tag)})


@users.command("list")
@json_option
@url_option
def list_(as_json: bool, url: str) -> None:
    """List the users and their tags."""
    rows = [{"name": user["name"], "tags": user["tags"]} for user in Api(url).get("users")]
    show_rows(rows, ("name", "tags"), as_json)


users.add_command(delete_command("users", "Delete the user NAME.", in_vhost=False))


@users.command("set-permissions")
@click.argument("name")
@click.argument("configure", default=".*")
@click.argument("write", default=".*")
@click.argument("read", default=".*")
@vhost_option
@url_option
def set_permissions(name: str, configure: str, write: str, read: str, vhost: str, url: str) -> None:
    """Say what the user NAME may touch in a virtual host.

    CONFIGURE, WRITE and READ are regular expressions over the names of queues and exchanges: what may be declared
    and deleted, published and bound to, consumed and bound from. All three default to everything.
    """
    Api(url).put("permissions", vhost, name, body={"configure": configure, "write": write, "read": read})


@users.command("permissions")
@click.argument("name", required=False)
@json_option
@url_option
def permissions(name: str | None, as_json: bool, url: str) -> None:
    """List what users may touch, all of them or NAME."""
    rows = Api(url).get("permissions") if name is None else Api(url).get("users", name, "permissions")
    show_rows(rows, ("user", "vhost", "configure", "write", "read"), as_json)


users.add_command(
    delete_command("permissions", "Take all rights in a virtual host from the user NAME.", called="clear-permissions")
)
