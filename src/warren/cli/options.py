"""Options and arguments that several commands share, and how their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from warren.client.api import DEFAULT_URL, Api
from warren.errors import WarrenError
from warren.strict_json import parse

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Renamed(click.Option):
    """An option that had another name once, which still works and is not shown."""

    def __init__(self, declarations: Sequence[str], former: str, **attributes: Any) -> None:
        super().__init__(declarations, **attributes)
        self._former = former

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, self._former]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def key_option(help: str, **attributes: Any) -> Decorator:
    return click.option("--routing-key", "key", cls=Renamed, former="--key", help=help, **attributes)


def uri_option(help: str, **attributes: Any) -> Decorator:
    """The broker's AMQP address."""
    variables = ["WARREN_AMQP_URL", "WARREN_URI"]
    text = f"{help} Also WARREN_AMQP_URL."
    return click.option("--uri", "broker", cls=Renamed, former="--broker", envvar=variables, help=text, **attributes)


url_option = click.option(
    "--url",
    default=DEFAULT_URL,
    envvar="WARREN_URL",
    show_default=True,
    help="Management API of the broker, with user and password. Also WARREN_URL.",
)
vhost_option = click.option("--vhost", default="/", show_default=True, help="Virtual host.")
transient_option = click.option("--transient", is_flag=True, help="Gone after a restart.")
header_option = click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; NAME:=VALUE is JSON. May be repeated."
)
argument_option = click.option(
    "--argument", "arguments", multiple=True, metavar="NAME=VALUE", help="Such as x-max-length:=1000. May be repeated."
)


class Name(click.ParamType[str]):
    """The name of something in the broker: a shell completes it by asking the broker."""

    name = "name"

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            api = Api(ctx.params.get("url") or DEFAULT_URL)
            found = api.get(self._kind, ctx.params.get("vhost") or "/")
        except WarrenError:
            # A shell that waits for a key has no place for errors.
            return []
        return [CompletionItem(each["name"]) for each in found if each["name"].startswith(incomplete)]


QUEUE: Final = Name("queues")
EXCHANGE: Final = Name("exchanges")


def pairs(texts: tuple[str, ...]) -> dict[str, Any]:
    """`a=b` is text; `a:=5` is JSON."""
    found: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.rstrip(":"):
            raise WarrenError(f"{text} is not NAME=VALUE")
        if name.endswith(":"):
            found[name[:-1]] = parse(value.encode(errors="surrogateescape"), f"{text}: {value}")
        else:
            found[name] = value
    return found
