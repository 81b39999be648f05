"""What the interceptor of basic.publish makes of a batch of publishes, before anything is judged.

Each row is shown to it by itself, with its body and at its time: it may look at all of them. What it hands on takes
the row's place, here for the routing and in `changed` for all that comes after.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from warren.amqp.constants import BASIC_PUBLISH
from warren.amqp.frames import content_frames, properties_span
from warren.amqp.methods import BasicPublish, decode_method
from warren.amqp.properties import peek_properties
from warren.client.session import Refused
from warren.errors import AmqpError
from warren.spark.arrow_schema import struct_of
from warren.spark.path.door import Doors, publish_arguments, scope_of
from warren.spark.path.host import StillHost
from warren.spark.path.properties import NO_PROPERTIES, BadTable
from warren.spark.path.topology import Topology

CHANGED_TYPE: Final = struct_of(
    "exchange string, routing_key string, mandatory boolean, body_size bigint, expiration string, encoded binary"
)
# Of a refusal, beside the columns of a question: what Verdict has.
_REFUSED_TYPE: Final = pa.struct([("code", pa.int32()), ("text", pa.string()), ("scope", pa.string())])
_REPLACED: Final = ("exchange", "routing_key", "mandatory")


class Intercepted:
    """A batch as it goes on."""

    def __init__(self, columns: dict[str, Any], encoded: list[bytes | BadTable], changed: pa.StructArray) -> None:
        self.columns = columns
        self.encoded = encoded
        self.changed = changed


class Interception:
    def __init__(self, topology: Topology) -> None:
        self._node = topology.node(StillHost())
        self._doors = Doors(self._node)
        self._size_max = topology.max_message_size
        self._time_routes = topology.changes

    def change(self, columns: dict[str, Any], encoded: list[bytes | BadTable] | None, count: int) -> Intercepted:
        """`columns` are those of a question, `body` and `body_size` among them, which end here."""
        bodies, sizes = columns.pop("body").to_pylist(), columns.pop("body_size").to_pylist()
        before = encoded or [NO_PROPERTIES] * count
        asked = zip(
            *[columns[name].to_pylist() for name in ("problem", "user", "vhost", *_REPLACED, "at")], strict=True
        )
        changed: list[dict[str, Any] | None] = []
        refused: list[dict[str, Any] | None] = []
        for (problem, user, vhost, exchange, key, mandatory, at), properties, body, size in zip(
            asked, before, bodies, sizes, strict=True
        ):
            told: dict[str, Any] | None = None
            no: dict[str, Any] | None = None
            # Of those that no client could have sent something else is told.
            if problem is None and not isinstance(properties, BadTable):
                arguments = publish_arguments(exchange, key, mandatory)
                # Where only its size is known, so many zeros stand for it.
                content = content_frames(1, properties, bytes(size) if body is None else body, 0)
                try:
                    told = self._ask(user, vhost, arguments, content, size, at)
                except Refused as error:
                    no = {"code": error.code, "text": error.text, "scope": "connection"}
                except AmqpError as error:
                    no = {"code": error.code, "text": error.reply_text, "scope": scope_of(error)}
            changed.append(told)
            refused.append(no)
        after = [table if told is None else told["encoded"] for told, table in zip(changed, before, strict=True)]
        return Intercepted(self._replaced(columns, changed, refused), after, pa.array(changed, CHANGED_TYPE))

    def _ask(self, user: str, vhost: str, arguments: bytes, content: bytes, size: int, at: int) -> dict[str, Any]:
        door = self._doors.of(user, vhost)
        if isinstance(door, Refused):
            raise door
        # Rows come in no order, and nothing here waits for a time.
        self._node.now = at
        arguments, content, size = door.intercept(arguments, content, size)
        method = decode_method(BASIC_PUBLISH, arguments, 0, len(arguments))
        assert isinstance(method, BasicPublish)
        start, end = properties_span(content)
        return {
            "exchange": method.exchange,
            "routing_key": method.routing_key,
            "mandatory": method.mandatory,
            "body_size": size,
            "expiration": _expiration(content, start, end),
            "encoded": content[start:end],
        }

    def _replaced(
        self, columns: dict[str, Any], changed: list[dict[str, Any] | None], refused: list[dict[str, Any] | None]
    ) -> dict[str, Any]:
        replaced = dict(columns)
        if not self._time_routes:
            # Routes are the same at any time, and are to be remembered.
            del replaced["at"]
        for name in _REPLACED:
            was = columns[name].to_pylist()
            values = [old if told is None else told[name] for told, old in zip(changed, was, strict=True)]
            replaced[name] = pa.array(values, columns[name].type)
        sizes = [None if told is None or told["body_size"] <= self._size_max else told["body_size"] for told in changed]
        replaced["oversize"] = pa.array(sizes, pa.int64())
        names = [f"refused_{field.name}" for field in _REFUSED_TYPE]
        return replaced | dict(zip(names, pa.array(refused, _REFUSED_TYPE).flatten(), strict=True))


def _expiration(content: bytes, start: int, end: int) -> str | None:
    """What is wrong with the properties is said when they are judged."""
    try:
        return peek_properties(content, start, end).expiration
    except AmqpError:
        return None
