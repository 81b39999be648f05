"""`warren exchanges`, `bindings`, `policies`, `vhosts` and `declare`: what messages go through."""

from __future__ import annotations

from typing import Any, Final

import click

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
from warren.cli.queues import queues
from warren.cli.resources import delete_command, list_command
from warren.client.api import Api
from warren.strict_json import parse

_EXCHANGES: Final = ("name", "type", "durable", "internal", "arguments")
_BINDINGS: Final = ("source", "destination_type", "destination", "routing_key", "arguments", "properties_key")
_POLICIES: Final = ("name", "pattern", "apply-to", "priority", "definition")
_VHOSTS: Final = ("name", "description", "messages", "tracing")


@click.group()
def exchanges() -> None:
    """List, declare and delete exchanges."""


exchanges.add_command(list_command("exchanges", _EXCHANGES, "List the exchanges of a virtual host."))
exchanges.add_command(delete_command("exchanges", "Delete the exchange NAME with its bindings.", EXCHANGE))


@click.group()
def declare() -> None:
    """Declare a queue, an exchange or a binding."""


# The same by two names: who declares several kinds of things looks here.
declare.add_command(queues.commands["declare"], "queue")


@declare.command("exchange")
@click.argument("name")
@click.option("--type", "type_", default="direct", show_default=True, help="direct, fanout, topic, headers, ...")
@transient_option
@click.option("--auto-delete", is_flag=True, help="Gone with its last binding.")
@click.option("--internal", is_flag=True, help="Clients cannot publish to it.")
@argument_option
@vhost_option
@url_option
def exchange(
    name: str,
    type_: str,
    transient: bool,
    auto_delete: bool,
    internal: bool,
    arguments: tuple[str, ...],
    vhost: str,
    url: str,
) -> None:
    """Declare the exchange NAME."""
    body: dict[str, Any] = {
        "type": type_,
        "durable": not transient,
        "auto_delete": auto_delete,
        "internal": internal,
        "arguments": pairs(arguments),
    }
    Api(url).put("exchanges", vhost, name, body=body)


@declare.command("binding")
@click.argument("source", type=EXCHANGE)
@click.argument("destination", type=QUEUE)
@key_option("What the exchange compares with those of messages.", default="")
@click.option("--to-exchange", is_flag=True, help="The destination is an exchange.")
@argument_option
@vhost_option
@url_option
def binding(
    source: str, destination: str, key: str, to_exchange: bool, arguments: tuple[str, ...], vhost: str, url: str
) -> None:
    """Bind the queue DESTINATION to the exchange SOURCE."""
    kind = "e" if to_exchange else "q"
    body = {"routing_key": key, "arguments": pairs(arguments)}
    Api(url).post("bindings", vhost, "e", source, kind, destination, body=body)


@click.group()
def bindings() -> None:
    """List and delete bindings; `warren declare binding` makes them."""


bindings.add_command(list_command("bindings", _BINDINGS, "List the bindings of a virtual host."))


@bindings.command("delete")
@click.argument("source", type=EXCHANGE)
@click.argument("destination", type=QUEUE)
@click.argument("properties_key", default="~")
@click.option("--to-exchange", is_flag=True, help="The destination is an exchange.")
@vhost_option
@url_option
def delete_binding(source: str, destination: str, properties_key: str, to_exchange: bool, vhost: str, url: str) -> None:
    """Delete the binding with this PROPERTIES_KEY (see `warren bindings list`; ~ is the one without key)."""
    kind = "e" if to_exchange else "q"
    Api(url).delete("bindings", vhost, "e", source, kind, destination, properties_key)


@click.group()
def policies() -> None:
    """List, set and delete policies."""


policies.add_command(list_command("policies", _POLICIES, "List the policies of a virtual host."))
policies.add_command(delete_command("policies", "Delete the policy NAME."))


@policies.command("set")
@click.argument("name")
@click.argument("pattern")
@click.argument("definition")
@click.option("--apply-to", default="all", show_default=True, help="all, queues, exchanges, streams, ...")
@click.option("--priority", type=int, default=0, show_default=True, help="The greatest that matches wins.")
@vhost_option
@url_option
def set_policy(name: str, pattern: str, definition: str, apply_to: str, priority: int, vhost: str, url: str) -> None:
    """Set the policy NAME: DEFINITION (JSON) for all that PATTERN (a regular expression) matches."""
    settings = parse(definition.encode(errors="surrogateescape"), definition)
    body = {"pattern": pattern, "definition": settings, "apply-to": apply_to, "priority": priority}
    Api(url).put("policies", vhost, name, body=body)


@click.group()
def vhosts() -> None:
    """List, add and delete virtual hosts, and turn their firehose on and off."""


vhosts.add_command(list_command("vhosts", _VHOSTS, "List the virtual hosts.", in_vhost=False))
vhosts.add_command(delete_command("vhosts", "Delete the virtual host NAME with all that is in it.", in_vhost=False))


@vhosts.command("add")
@click.argument("name")
@click.option("--description", default="", help="What it is for.")
@url_option
def add_vhost(name: str, description: str, url: str) -> None:
    """Add the virtual host NAME."""
    Api(url).put("vhosts", name, body={"description": description})


@vhosts.command("firehose")
@click.argument("name", default="/")
@click.option("--off", is_flag=True, help="No more.")
@url_option
def firehose(name: str, off: bool, url: str) -> None:
    """Copy every publish and delivery of the virtual host NAME to its exchange amq.rabbitmq.trace."""
    Api(url).put("vhosts", name, body={"tracing": not off})
