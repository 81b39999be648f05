"""`warren users`: who may log in, and what they may touch."""

from __future__ import annotations

import click
from rich.console import Console
from rich.table import Table

from warren.cli.api import Api, url_option


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
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@url_option
def list_(as_json: bool, url: str) -> None:
    """List the users and their tags."""
    found = Api(url).get("users")
    console = Console()
    if as_json:
        console.print_json(data=[{"name": user["name"], "tags": user["tags"]} for user in found])
        return
    table = Table("name", "tags")
    for user in found:
        table.add_row(user["name"], ", ".join(user["tags"]))
    console.print(table)


@users.command()
@click.argument("name")
@url_option
def delete(name: str, url: str) -> None:
    """Delete the user NAME."""
    Api(url).delete("users", name)


@users.command("set-permissions")
@click.argument("name")
@click.argument("configure", default=".*")
@click.argument("write", default=".*")
@click.argument("read", default=".*")
@click.option("--vhost", default="/", show_default=True, help="Virtual host.")
@url_option
def set_permissions(name: str, configure: str, write: str, read: str, vhost: str, url: str) -> None:
    """Say what the user NAME may touch in a virtual host.

    CONFIGURE, WRITE and READ are regular expressions over the names of queues and exchanges: what may be declared
    and deleted, published and bound to, consumed and bound from. All three default to everything.
    """
    Api(url).put("permissions", vhost, name, body={"configure": configure, "write": write, "read": read})
