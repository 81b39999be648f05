"""`warren users`: who may log in, and what they may touch."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from warren.cli.api import DEFAULT_URL, Api, UrlOption

app = typer.Typer(help="Add, list and delete users, and set what they may do.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def add(
    name: NameArgument,
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, help="Asked for when not given.")
    ],
    tag: Annotated[list[str] | None, typer.Option(help="administrator, monitoring, policymaker or management.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Add a user, or give one another password and other tags."""
    Api(url).put("users", name, body={"password": password, "tags": ",".join(tag or [])})


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False, url: UrlOption = DEFAULT_URL
) -> None:
    """List the users and their tags."""
    users = Api(url).get("users")
    console = Console()
    if as_json:
        console.print_json(data=[{"name": user["name"], "tags": user["tags"]} for user in users])
        return
    table = Table("name", "tags")
    for user in users:
        tags = user["tags"]
        table.add_row(user["name"], ", ".join(tags) if isinstance(tags, list) else tags)
    console.print(table)


@app.command()
def delete(name: NameArgument, url: UrlOption = DEFAULT_URL) -> None:
    """Delete a user."""
    Api(url).delete("users", name)


@app.command("set-permissions")
def set_permissions(
    name: NameArgument,
    configure: Annotated[str, typer.Argument(help="Regular expression of what may be declared and deleted.")] = ".*",
    write: Annotated[str, typer.Argument(help="The same for publishing and binding.")] = ".*",
    read: Annotated[str, typer.Argument(help="The same for consuming.")] = ".*",
    vhost: Annotated[str, typer.Option(help="Virtual host.")] = "/",
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Say what a user may touch in a virtual host."""
    Api(url).put("permissions", vhost, name, body={"configure": configure, "write": write, "read": read})
