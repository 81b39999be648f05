"""Virtual hosts, exchanges, queues and bindings in a definitions file.

What is there already stays as it is, also when the file says otherwise: an import adds and never replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from warren.amqp.fields import plain_table
from warren.broker import administer
from warren.broker.arguments import CLASSIC, QUEUE_TYPES, check_queue_arguments, queue_type
from warren.broker.definitions.document import Item
from warren.broker.definitions.section import Names, Section, vhosts_of
from warren.broker.exchanges.base import Binding, Destination
from warren.broker.exchanges.types import create
from warren.broker.vhost import PREDECLARED, VHost
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.queue import Queue

_RESERVED: Final = "amq."


class VHosts(Section):
    def __init__(self) -> None:
        super().__init__("vhosts", "vhost")

    def check(self, item: Item, names: Names) -> bool:
        name = item.name("name")
        if not name:
            raise item.error("name", "is empty")
        item.text_or("description", "")
        item.words("tags")
        metadata = _metadata(item)
        metadata.text_or("description", "")
        metadata.words("tags")
        type_ = _default_queue_type(item)
        if type_ is not None and type_ not in QUEUE_TYPES:
            raise item.error("default_queue_type", f"{type_} is not a valid queue type")
        if name not in names.vhosts:
            names.vhosts.add(name)
            for exchange, kind, internal in PREDECLARED:
                names.exchanges[(name, exchange)] = create(kind, name, exchange, True, False, internal)
        return True

    def apply(self, item: Item, node: Node) -> None:
        metadata = _metadata(item)
        administer.update_vhost(
            node,
            item.text("name"),
            item.text_or("description", metadata.text_or("description", "")),
            item.words("tags") or metadata.words("tags"),
            _default_queue_type(item),
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        return [administer.vhost_definition(place) for place in vhosts_of(node, vhost)]


class Exchanges(Section):
    def __init__(self) -> None:
        super().__init__("exchanges", "exchange")

    def check(self, item: Item, names: Names) -> bool:
        vhost = names.vhost(item)
        name, type_ = item.name("name"), item.text("type")
        durable, auto_delete = item.flag("durable", True), item.flag("auto_delete", False)
        internal, arguments = item.flag("internal", False), item.table("arguments")
        try:
            exchange = create(type_, vhost, name, durable, auto_delete, internal, arguments)
        except AmqpError as error:
            raise item.refused(error.explanation) from None
        if _is_reserved_exchange(name):
            return False
        names.exchanges.setdefault((vhost, name), exchange)
        return True

    def apply(self, item: Item, node: Node) -> None:
        vhost = administer.vhost_of(node, item.text("vhost"))
        vhost.add_exchange(
            item.text("name"),
            item.text("type"),
            item.flag("durable", True),
            item.flag("auto_delete", False),
            item.flag("internal", False),
            item.table("arguments"),
            item.text_or("incarnation", ""),
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for place in vhosts_of(node, vhost):
            for name in sorted(place.exchanges):
                exchange = place.exchanges[name]
                if not _is_reserved_exchange(name):
                    exported.append(
                        {
                            "name": name,
                            "vhost": place.name,
                            "type": exchange.type,
                            "durable": exchange.durable,
                            "auto_delete": exchange.auto_delete,
                            "internal": exchange.internal,
                            "arguments": plain_table(exchange.arguments),
                        }
                    )
        return exported


class Queues(Section):
    def __init__(self) -> None:
        super().__init__("queues", "queue")

    def check(self, item: Item, names: Names) -> bool:
        vhost, name = names.vhost(item), item.name("name")
        durable, auto_delete = item.flag("durable", True), item.flag("auto_delete", False)
        if name.startswith(_RESERVED):
            names.passed_over.add((vhost, name))
            return False
        if not name:
            raise item.error("name", "is empty")
        arguments = item.table("arguments")
        type_ = queue_type(arguments)
        if type_ not in QUEUE_TYPES:
            raise item.error("arguments.x-queue-type", f"unsupported queue type '{type_}'")
        try:
            check_queue_arguments(arguments, type_, name, vhost)
        except AmqpError as error:
            raise item.error("arguments", error.explanation) from None
        if type_ != CLASSIC and (not durable or auto_delete):
            key = "auto_delete" if durable else "durable"
            raise item.error(key, f"a {type_} queue is durable and never deleted automatically")
        if not names.has_queue(vhost, name):
            names.queues.add((vhost, name))
            self._check_limit(item, names, vhost)
        return True

    def _check_limit(self, item: Item, names: Names, vhost: str) -> None:
        place = names.node.vhosts.get(vhost)
        limit = -1 if place is None else place.limits.get("max-queues", -1)
        if place is None or limit < 0:
            return
        coming = len([queue for queue in names.queues if queue[0] == vhost])
        if len(place.queues) + coming > limit:
            raise item.refused(f"would exceed the limit of {limit} queue(s) in vhost '{vhost}'")

    def apply(self, item: Item, node: Node) -> None:
        vhost = administer.vhost_of(node, item.text("vhost"))
        durable, auto_delete = item.flag("durable", True), item.flag("auto_delete", False)
        arguments = vhost.with_default_type(item.table("arguments"), durable, False, auto_delete)
        # Only what was recorded has an incarnation: the messages that the store kept for it.
        vhost.add_queue(item.text("name"), durable, auto_delete, arguments, item.text_or("incarnation", ""))

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for place in vhosts_of(node, vhost):
            for name in sorted(place.queues):
                queue = place.queues[name]
                if _is_exported(queue):
                    exported.append(
                        {
                            "name": name,
                            "vhost": place.name,
                            "type": queue.type,
                            "durable": queue.durable,
                            "auto_delete": queue.auto_delete,
                            "arguments": plain_table(queue.arguments),
                        }
                    )
        return exported


class Bindings(Section):
    def __init__(self) -> None:
        super().__init__("bindings", "binding")

    def check(self, item: Item, names: Names) -> bool:
        vhost, source, destination = names.vhost(item), item.text("source"), item.text("destination")
        kind = item.text("destination_type")
        routing_key, arguments = item.name("routing_key"), item.table("arguments")
        if kind not in ("queue", "exchange"):
            raise item.error("destination_type", "must be queue or exchange")
        # Those of the default exchange are there by themselves.
        if (vhost, destination) in names.passed_over or source == "":
            return False
        exchange = names.exchange(vhost, source)
        if exchange is None:
            raise item.error("source", f"no exchange '{source}' in vhost '{vhost}'")
        is_there = (
            names.has_queue(vhost, destination) if kind == "queue" else names.exchange(vhost, destination) is not None
        )
        if not is_there:
            raise item.error("destination", f"no {kind} '{destination}' in vhost '{vhost}'")
        try:
            target = Destination(vhost, destination, kind == "exchange")
            exchange.check_binding(Binding(source, target, routing_key, arguments))
        except AmqpError as error:
            raise item.refused(error.explanation) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        administer.vhost_of(node, item.text("vhost")).add_binding(
            item.text("source"),
            item.text("destination_type"),
            item.text("destination"),
            item.text("routing_key"),
            item.table("arguments"),
        )

    def export(self, node: Node, vhost: str | None) -> list[dict[str, object]]:
        exported: list[dict[str, object]] = []
        for place in vhosts_of(node, vhost):
            for name in sorted(place.exchanges):
                for binding in place.exchanges[name].bindings.values():
                    if name and _leads_to_exported(place, binding.destination):
                        exported.append(_binding_definition(place.name, binding))
        return exported


def _binding_definition(vhost: str, binding: Binding) -> dict[str, object]:
    return {
        "source": binding.source,
        "vhost": vhost,
        "destination": binding.destination.name,
        "destination_type": "exchange" if binding.destination.is_exchange else "queue",
        "routing_key": binding.routing_key,
        "arguments": plain_table(binding.arguments),
    }


def _leads_to_exported(vhost: VHost, destination: Destination) -> bool:
    if destination.is_exchange:
        return True
    queue = vhost.queues.get(destination.name)
    return queue is not None and _is_exported(queue)


def _is_exported(queue: Queue) -> bool:
    """Not those of one connection, and none whose name no import may take."""
    return queue.exclusive_owner is None and not queue.name.startswith(_RESERVED)


def _is_reserved_exchange(name: str) -> bool:
    return name == "" or name.startswith(_RESERVED)


def _metadata(item: Item) -> Item:
    return Item(f"{item.place}.metadata", item.object("metadata"))


def _default_queue_type(item: Item) -> str | None:
    """RabbitMQ writes rabbit_quorum_queue, quorum or undefined, here or there."""
    text = item.text_or("default_queue_type", _metadata(item).text_or("default_queue_type", "undefined"))
    name = text.removeprefix("rabbit_").removesuffix("_queue")
    return None if name in ("undefined", "") else name
