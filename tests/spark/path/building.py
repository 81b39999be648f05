"""Small definitions and publishes, written by hand."""

from __future__ import annotations

from typing import Any

from tests.spark.path.traffic import START, Sent
from warren.amqp.fields import table_of

Definition = tuple[str, dict[str, Any]]


def queue(name: str, **arguments: Any) -> Definition:
    """x_max_length=1 is the argument x-max-length."""
    return "queues", {"name": name, "vhost": "/", "durable": True, "arguments": _named(arguments)}


def exchange(name: str, type: str = "direct", internal: bool = False, **arguments: Any) -> Definition:
    return "exchanges", {
        "name": name, "vhost": "/", "type": type, "internal": internal,
        "arguments": {key.replace("_", "-"): value for key, value in arguments.items()},
    }  # fmt: skip


def binding(source: str, destination: str, key: str = "", to: str = "queue", **arguments: Any) -> Definition:
    return "bindings", {
        "source": source, "vhost": "/", "destination": destination, "destination_type": to, "routing_key": key,
        "arguments": _named(arguments),
    }  # fmt: skip


def policy(pattern: str, **definition: Any) -> Definition:
    return "policies", {
        "vhost": "/", "name": pattern or "all", "pattern": pattern, "apply-to": "all", "priority": 0,
        "definition": _named(definition),
    }  # fmt: skip


def user(name: str, write: str = ".*", tags: str = "") -> list[Definition]:
    return [
        ("users", {"name": name, "password_hash": "", "tags": tags}),
        ("permissions", {"user": name, "vhost": "/", "configure": "", "write": write, "read": ".*"}),
    ]


def topic_permission(name: str, exchange: str, write: str) -> Definition:
    return "topic_permissions", {"user": name, "vhost": "/", "exchange": exchange, "write": write, "read": ".*"}


def definitions(*items: Definition | list[Definition]) -> dict[str, Any]:
    made: dict[str, Any] = {"vhosts": [{"name": "/"}]}
    for item in [*user("guest"), *items]:
        for section, value in item if isinstance(item, list) else [item]:
            made.setdefault(section, []).append(value)
    return made


def send(sequence: int, exchange: str, key: str = "", after: int = 0, **more: Any) -> Sent:
    """`after` milliseconds from the start; `headers` are plain values."""
    headers = more.pop("headers", None)
    properties = {name: more.pop(name) for name in list(more) if name not in _OF_THE_ROW}
    return Sent(
        "p", sequence, START + after, exchange, key, properties=properties,
        headers=None if headers is None else table_of(headers), **more,
    )  # fmt: skip


_OF_THE_ROW = ("vhost", "user", "mandatory", "body_size")


def _named(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in arguments.items()}
