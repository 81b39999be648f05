"""What a definitions file makes of a broker, for those who only want to ask it: nodes in memory, names as numbers.

The file is RabbitMQ's export: a path, a JSON text or a dict. It is checked by the broker's own import, which says
where a wrong one is wrong. Every node made from the same file numbers its queues and exchanges alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

from warren.broker.exchanges.base import Exchange
from warren.broker.exchanges.random import RandomExchange
from warren.broker.node import Node
from warren.broker.operate.definitions import DefinitionsError, import_
from warren.broker.operate.first_start import make_defaults
from warren.broker.queue.queue import Queue
from warren.broker.queue.schedule import Schedule, schedule_of
from warren.broker.queue.store import Store
from warren.broker.rules.hashing import SHA256
from warren.broker.session.interceptors import PUBLISH
from warren.broker.settings import Settings
from warren.broker.world import Host
from warren.errors import WarrenError
from warren.plugins import install
from warren.spark.path.given import read_given
from warren.spark.path.host import StillHost

# Sections whose items name their vhost, except in the export of a single one.
_PLACED: Final = ("queues", "exchanges", "bindings", "policies")

Name = tuple[str, str]


class _NoPasswords:
    """Nobody logs in with one here, so a plain password in the file is dropped, not hashed."""

    def hash(self, password: str) -> tuple[str, str]:
        return SHA256, ""


@dataclass(frozen=True)
class Topology:
    """`text` is the definitions as JSON: what travels to the workers, once per task."""

    text: str
    max_message_size: int
    # As the configuration of a broker names them.
    interceptors: tuple[str, ...] = ()
    exchange_decorators: tuple[str, ...] = ()

    def node(self, host: Host | None = None, store: Store | None = None, now_ms: int = 0) -> Node:
        # Each publish is judged by itself: strangers do not lock out others.
        # Nobody reads what it answers, and that is all right here.
        settings = Settings(max_message_size=self.max_message_size, login_failures_max=0, unread_max=2**62)
        node = Node(StillHost() if host is None else host, settings, None, store, now_ms)
        install(node, self.interceptors, self.exchange_decorators)
        # Publishes come to it as their interceptor left them (interception.py).
        node.intercepts_publish = False
        document = json.loads(self.text)
        if not document.get("users"):
            # As a broker that starts for the first time, which is what such a file is imported into.
            make_defaults(node, _NoPasswords())
        import_(node, document, _only_vhost(document), _NoPasswords())
        if not document.get("users"):
            for vhost in node.vhosts:
                node.access.set_permission(settings.default_user, vhost, ".*", ".*", ".*")
        return node

    @cached_property
    def sample(self) -> Node:
        """A node that is only looked at."""
        return self.node()

    @cached_property
    def queues(self) -> list[Name]:
        """(vhost, queue); the place in this list is the queue's number."""
        return [name_of_queue(queue) for queue in queues_of(self.sample)]

    @cached_property
    def exchanges(self) -> list[Name]:
        return [(vhost.name, name) for vhost in self.sample.vhosts.values() for name in vhost.exchanges]

    @cached_property
    def looks_beyond_keys(self) -> bool:
        """Whether any exchange asks for more of a message than its keys."""
        return any(
            exchange.decorators
            or (exchange.looks_beyond_keys and (exchange.bindings or schedule_of(exchange) is not None))
            for exchange in self._exchanges
        )

    @cached_property
    def draws(self) -> bool:
        """Whether any exchange picks at random, or may: a decorator is shown the draw."""
        return any(exchange.decorators or isinstance(exchange, RandomExchange) for exchange in self._exchanges)

    @property
    def _exchanges(self) -> Iterator[Exchange]:
        return (exchange for vhost in self.sample.vhosts.values() for exchange in vhost.exchanges.values())

    @cached_property
    def intercepts(self) -> bool:
        """Whether publishes are changed or refused before they are judged."""
        return PUBLISH in self.sample.interceptors

    @cached_property
    def changes(self) -> bool:
        """Whether queues go by themselves (x-expires), so that routes depend on the time."""
        return any(queue.options.expires >= 0 for queue in queues_of(self.sample))

    def __getstate__(self) -> tuple[object, ...]:
        """Without the sample: workers make their own."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for field, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)


def read_topology(
    definitions: object,
    max_message_size: int | None = None,
    interceptors: Sequence[str] = (),
    exchange_decorators: Sequence[str] = (),
) -> Topology:
    """From a path, a JSON text or a dict. A file that no broker would import is refused with the JSON path."""
    text = json.dumps(_document(definitions))
    topology = Topology(
        text,
        Settings().max_message_size if max_message_size is None else max_message_size,
        _names("interceptors", interceptors),
        _names("exchange_decorators", exchange_decorators),
    )
    topology.queues  # noqa: B018 - loads it, so that a mistake is told here and not by a worker
    return topology


def _names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise WarrenError(f"{option}: must be a list of names of the form package.module:Class")
    return tuple(names)


def queues_of(node: Node) -> list[Queue]:
    """Those of delayed exchanges, where messages wait until they are routed, are among them."""
    found: list[Queue] = []
    for vhost in node.vhosts.values():
        found.extend(vhost.queues.values())
        schedules = [schedule_of(exchange) for exchange in vhost.exchanges.values()]
        found.extend(schedule for schedule in schedules if schedule is not None)
    return found


def name_of_queue(queue: Queue) -> Name:
    return queue.vhost, f"{queue.name} (scheduled)" if isinstance(queue, Schedule) else queue.name


def _document(definitions: object) -> dict[str, object]:
    try:
        definitions = read_given(definitions)
    except ValueError as error:
        raise DefinitionsError("", f"not JSON: {error}") from None
    if not isinstance(definitions, dict):
        raise DefinitionsError("", f"must be an object, a JSON text or a path, not {type(definitions).__name__}")
    return definitions


def _only_vhost(document: dict[str, object]) -> str | None:
    """The export of a single vhost names none: it is imported into the default one."""
    if document.get("vhosts") or document.get("users"):
        return None
    for section in _PLACED:
        items = document.get(section)
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and "vhost" in item:
                return None
    return Settings().default_vhost
