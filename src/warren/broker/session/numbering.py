"""A connection whose publishes are numbered, so that one that comes again is known: what Spark's sink asks for.

The client property `x-publisher` is a table of a `name` and the `number` of the publish before the first. From there on
every publish of the connection has the next number, and a queue takes it only when the number is above all that it has
had of that name (queue/publishers.py). Whoever sends again, from another process too, sends the same in the same order.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.amqp.constants import PUBLISHER
from warren.amqp.fields import Table
from warren.broker.queue.publishers import key_of

_NAME_MAX: Final = 255
# A number is below it: the store has eight bytes, and one bit is the sign.
_NUMBER_MAX: Final = 1 << 62


class Numbering:
    def __init__(self, user: str, name: str, number: i64) -> None:
        # The user first: nobody can make another's messages look as if they had come before.
        self.key = key_of(f"{len(user)}:{user}:{name}")
        self.number: i64 = number
        # A queue did not take one: those behind it must not pass it, or it would be taken for one that came before.
        self.has_failed = False

    @staticmethod
    def of(user: str, client_properties: Table) -> Numbering | None:
        field = client_properties.get(PUBLISHER)
        if field is None or not isinstance(field.value, dict):
            return None
        name = field.value.get("name")
        number = field.value.get("number")
        if name is None or number is None or not isinstance(name.value, str) or not isinstance(number.value, int):
            return None
        if not 0 < len(name.value) <= _NAME_MAX or not 0 <= number.value < _NUMBER_MAX:
            return None
        return Numbering(user, name.value, number.value)
