"""Virtual hosts, exchanges, queues and bindings in a definitions file.

What is there already stays as it is, also when the file says otherwise: an import adds and never replaces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from warren.broker.exchanges.base import Binding, Destination
from warren.broker.exchanges.types import create
from warren.broker.operate import administer
from warren.broker.operate.definitions.section import Names, Section
from warren.broker.rules.arguments import check_queue_arguments, queue_type
from warren.broker.rules.document import Item
from warren.broker.rules.queue_settings import CLASSIC, QUEUE_TYPES
from warren.broker.vhost.shapes import (
    BindingRead,
    QueueRead,
    VHostRead,
    binding_item,
    exchange_from,
    exchange_item,
    queue_item,
    vhost_item,
)
from warren.broker.vhost.vhost import PREDECLARED, VHost
from warren.errors import AmqpError

if TYPE_CHECKING:
    from warren.broker.node import Node
    from warren.broker.queue.queue import Queue

_RESERVED: Final = "amq."


class VHosts(Section):
    def check(self, item: Item, names: Names) -> bool:
        vhost = VHostRead(item)
        name, type_ = vhost.name, vhost.default_queue_type
        if not name:
            raise item.error("name", "is empty")
        if type_ is not None and type_ not in QUEUE_TYPES:
            raise item.error("default_queue_type", f"{type_} is not a valid queue type")
        if name not in names.vhosts:
            names.vhosts.add(name)
            for exchange, kind, internal in PREDECLARED:
                names.exchanges[(name, exchange)] = create(kind, name, exchange, True, False, internal)
        return True

    def apply(self, item: Item, node: Node) -> None:
        vhost = VHostRead(item)
        administer.update_vhost(node, vhost.name, vhost.description, vhost.tags, vhost.default_queue_type)

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        return [vhost_item(vhost)]


class Exchanges(Section):
    def check(self, item: Item, names: Names) -> bool:
        vhost = names.vhost(item)
        try:
            exchange = exchange_from(item)
        except AmqpError as error:
            raise item.refused(error.explanation) from None
        if _is_reserved_exchange(exchange.name):
            return False
        names.exchanges.setdefault((vhost, exchange.name), exchange)
        return True

    def apply(self, item: Item, node: Node) -> None:
        vhost = administer.vhost_of(node, item.text("vhost"))
        vhost.install_exchange(exchange_from(item), item.text_or("incarnation", ""))

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        for exchange in [vhost.exchanges[name] for name in sorted(vhost.exchanges)]:
            if not _is_reserved_exchange(exchange.name):
                yield exchange_item(exchange)


class Queues(Section):
    def check(self, item: Item, names: Names) -> bool:
        vhost = names.vhost(item)
        if item.name("name").startswith(_RESERVED):
            names.passed_over.add((vhost, item.name("name")))
            return False
        queue = QueueRead(item)
        if not queue.name:
            raise item.error("name", "is empty")
        type_ = queue_type(queue.arguments)
        if type_ not in QUEUE_TYPES:
            raise item.error("arguments.x-queue-type", f"unsupported queue type '{type_}'")
        try:
            check_queue_arguments(queue.arguments, type_, queue.name, vhost)
        except AmqpError as error:
            raise item.error("arguments", error.explanation) from None
        if type_ != CLASSIC and (not queue.durable or queue.auto_delete):
            key = "auto_delete" if queue.durable else "durable"
            raise item.error(key, f"a {type_} queue is durable and never deleted automatically")
        if not names.has_queue(vhost, queue.name):
            names.queues.add((vhost, queue.name))
            names.coming[vhost] = names.coming.get(vhost, 0) + 1
            self._check_limit(item, names, vhost)
        return True

    def _check_limit(self, item: Item, names: Names, vhost: str) -> None:
        place = names.node.vhosts.get(vhost)
        limit = -1 if place is None else place.limits.get("max-queues", -1)
        if place is None or limit < 0:
            return
        if len(place.queues) + names.coming[vhost] > limit:
            raise item.refused(f"would exceed the limit of {limit} queue(s) in vhost '{vhost}'")

    def apply(self, item: Item, node: Node) -> None:
        vhost, queue = administer.vhost_of(node, item.text("vhost")), QueueRead(item)
        arguments = vhost.with_default_type(queue.arguments, queue.durable, False, queue.auto_delete)
        vhost.add_queue(queue.name, queue.durable, queue.auto_delete, arguments, queue.incarnation)

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        for queue in [vhost.queues[name] for name in sorted(vhost.queues)]:
            if _is_exported(queue):
                yield queue_item(queue)


class Bindings(Section):
    def check(self, item: Item, names: Names) -> bool:
        vhost, read = names.vhost(item), BindingRead(item)
        if read.kind not in ("queue", "exchange"):
            raise item.error("destination_type", "must be queue or exchange")
        # Those of the default exchange are there by themselves.
        if (vhost, read.destination) in names.passed_over or read.source == "":
            return False
        exchange = names.exchange(vhost, read.source)
        if exchange is None:
            raise item.error("source", f"no exchange '{read.source}' in vhost '{vhost}'")
        to_exchange = read.kind == "exchange"
        if not (names.exchange(vhost, read.destination) if to_exchange else names.has_queue(vhost, read.destination)):
            raise item.error("destination", f"no {read.kind} '{read.destination}' in vhost '{vhost}'")
        try:
            target = Destination(vhost, read.destination, to_exchange)
            exchange.check_binding(Binding(read.source, target, read.routing_key, read.arguments))
        except AmqpError as error:
            raise item.refused(error.explanation) from None
        return True

    def apply(self, item: Item, node: Node) -> None:
        vhost, read = administer.vhost_of(node, item.text("vhost")), BindingRead(item)
        vhost.add_binding(read.source, read.kind, read.destination, read.routing_key, read.arguments)

    def export_of(self, vhost: VHost) -> Iterable[dict[str, object]]:
        for exchange in [vhost.exchanges[name] for name in sorted(vhost.exchanges) if name]:
            for binding in list(exchange.bindings.values()):
                if _leads_to_exported(vhost, binding.destination):
                    yield binding_item(binding)


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
