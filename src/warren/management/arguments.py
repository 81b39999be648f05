"""What a request's body says about something that is to be declared."""

from __future__ import annotations

from warren.amqp.fields import Table, table_of
from warren.management.listing import Item
from warren.management.refusals import bad_request

_FLAGS = {True: True, False: False, "true": True, "false": False}


def flag_in(body: Item, name: str) -> bool:
    """False when it is not there, as in the protocol."""
    value = body.get(name, False)
    if not isinstance(value, (bool, str)) or value not in _FLAGS:
        raise bad_request(["not_boolean", value])
    return _FLAGS[value]


def arguments_in(body: Item) -> Table:
    value = body.get("arguments", {})
    # Some languages write an empty object as an empty list.
    if value == []:
        return {}
    if not isinstance(value, dict):
        raise bad_request("arguments must be an object")
    if _has_null(value):
        raise bad_request("null_not_allowed")
    return table_of(value)


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_null(inner) for inner in value.values())
    if isinstance(value, list):
        return any(_has_null(inner) for inner in value)
    return value is None
