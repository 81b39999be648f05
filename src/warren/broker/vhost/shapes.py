"""The JSON shape of every definition, its writer beside its reader. They are RabbitMQ's.

Definitions files, the Recorder and the management API write and read through here; a policy's is in policies.py.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from warren.amqp.fields import Table, plain_table
from warren.amqp.tables import encode_table
from warren.broker.exchanges.base import Binding, Exchange
from warren.broker.exchanges.types import create
from warren.broker.rules import hashing
from warren.broker.rules.document import Item

if TYPE_CHECKING:
    from warren.broker.queue.queue import Queue
    from warren.broker.rules.access import Permission, TopicPermission, User
    from warren.broker.vhost.vhost import VHost


def kept(item: dict[str, object], arguments: Table, incarnation: str = "") -> dict[str, object]:
    """For the Recorder: the arguments also as they came, so that types survive a restart (`Item.table` reads them),
    and the name under which the store keeps the messages."""
    item["arguments_wire"] = wire_of(arguments)
    if incarnation:
        item["incarnation"] = incarnation
    return item


def wire_of(arguments: Table) -> str:
    return b64encode(encode_table(arguments)).decode()


# -- virtual hosts -----------------------------------------------------------------------------------------------------


def vhost_item(vhost: VHost) -> dict[str, object]:
    """What RabbitMQ 3 has at the top and RabbitMQ 4 in the metadata stands in both places."""
    metadata: dict[str, object] = {"description": vhost.description, "tags": list(vhost.tags)}
    if vhost.default_queue_type is not None:
        metadata["default_queue_type"] = vhost.default_queue_type
    return {"name": vhost.name, **metadata, "metadata": metadata, "limits": dict(vhost.limits)}


class VHostRead:
    def __init__(self, item: Item) -> None:
        metadata = Item(f"{item.place}.metadata", item.object("metadata"))
        self.name = item.name("name")
        self.description = item.text_or("description", metadata.text_or("description", ""))
        self.tags = item.words("tags") or metadata.words("tags")
        # Here or there.
        text = item.text_or("default_queue_type", metadata.text_or("default_queue_type", "undefined"))
        self.default_queue_type = default_type_in(text)


def default_type_in(text: str) -> str | None:
    """RabbitMQ writes rabbit_quorum_queue, quorum or undefined."""
    type_ = text.removeprefix("rabbit_").removesuffix("_queue")
    return None if type_ in ("undefined", "") else type_


# -- users and permissions ---------------------------------------------------------------------------------------------


def user_item(user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


class UserRead:
    """The limits are for whoever checks them."""

    def __init__(self, item: Item) -> None:
        self.name = item.name("name")
        self.tags = item.words("tags")
        # None: there is a hash, or nothing.
        self.password = None if item.fields.get("password") is None else item.text("password")
        self.password_hash = item.text_or("password_hash", "")
        self.algorithm = item.text_or("hashing_algorithm", hashing.SHA256)


def permission_item(user: str, vhost: str, rights: Permission) -> dict[str, object]:
    shown: dict[str, object] = {"user": user, "vhost": vhost, "configure": rights.configure}
    return {**shown, "write": rights.write, "read": rights.read}


def topic_permission_item(user: str, vhost: str, rights: TopicPermission) -> dict[str, object]:
    return {"user": user, "vhost": vhost, "exchange": rights.exchange, "write": rights.write, "read": rights.read}


# -- exchanges, queues, bindings ---------------------------------------------------------------------------------------


def _declared(thing: Exchange | Queue) -> dict[str, object]:
    return {
        "name": thing.name,
        "vhost": thing.vhost,
        "type": thing.type,
        "durable": thing.durable,
        "auto_delete": thing.auto_delete,
        "arguments": plain_table(thing.arguments),
    }


def exchange_item(exchange: Exchange) -> dict[str, object]:
    return {**_declared(exchange), "internal": exchange.internal}


def exchange_from(item: Item) -> Exchange:
    return create(
        item.text("type"),
        item.text("vhost"),
        item.name("name"),
        item.flag("durable", True),
        item.flag("auto_delete", False),
        item.flag("internal", False),
        item.table("arguments"),
    )


def queue_item(queue: Queue) -> dict[str, object]:
    return _declared(queue)


class QueueRead:
    def __init__(self, item: Item) -> None:
        self.name = item.name("name")
        self.durable = item.flag("durable", True)
        self.auto_delete = item.flag("auto_delete", False)
        self.arguments = item.table("arguments")
        # Only what was recorded has one: the messages that the store kept for it.
        self.incarnation = item.text_or("incarnation", "")


def binding_item(binding: Binding) -> dict[str, object]:
    destination = binding.destination
    return {
        "source": binding.source,
        "vhost": destination.vhost,
        "destination": destination.name,
        "destination_type": kind_of(binding),
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
    }


def kind_of(binding: Binding) -> str:
    return "exchange" if binding.destination.is_exchange else "queue"


def binding_key(binding: Binding) -> tuple[str, ...]:
    """Under which the Recorder has it."""
    destination, wire = binding.destination, wire_of(binding.arguments)
    return (destination.vhost, binding.source, kind_of(binding), destination.name, binding.routing_key, wire)


class BindingRead:
    def __init__(self, item: Item) -> None:
        self.source = item.text("source")
        self.destination = item.text("destination")
        self.kind = item.text("destination_type")
        self.routing_key = item.name("routing_key")
        self.arguments = item.table("arguments")


# -- parameters --------------------------------------------------------------------------------------------------------


def parameter_item(vhost: str, component: str, name: str, value: object) -> dict[str, object]:
    return {"vhost": vhost, "component": component, "name": name, "value": value}
