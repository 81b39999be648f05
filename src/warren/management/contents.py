"""/api/queues/V/Q/messages: looking into a queue without taking anything: peek, and search with a cursor.

A backlog may be far longer than memory, so a search goes in steps: between two steps the broker does its other work,
and after a bounded number of messages the answer says where to go on. Not in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from starlette.responses import Response

from warren.amqp.fields import Table, plain_body, plain_table
from warren.broker.message import NEVER
from warren.broker.operate import relocate
from warren.broker.queue.entry import Entry
from warren.broker.queue.queue import Queue
from warren.broker.rules.queue_settings import STREAM
from warren.errors import ResourceLocked
from warren.management import queues
from warren.management.calls import Call, deleted, found, route
from warren.management.listing import Item
from warren.management.messages import GET_BYTES, MESSAGE, body_chunks, properties_to
from warren.management.pieces import Pace, encode, encoding_units, respond
from warren.management.refusals import bad_request
from warren.management.spec import FLAG, NUMBER, TEXT, asks, gives, list_of, shape
from warren.management.times import iso

# Messages that one step looks at, one request looks at, and one answer shows.
STEP: Final = 100
STEP_BYTES: Final = 1024 * 1024
_LOOK_UNITS: Final = 15
_BYTES_PER_UNIT: Final = 1000
# No filter is longer: what it is compared with is a key or a header, or what somebody typed of a body.
FILTER_MAX: Final = 512
SCAN_MAX: Final = 20_000
COUNT_DEFAULT: Final = 50
COUNT_MAX: Final = 500
BODY_SHOWN: Final = 50_000
_STAMP: Final = "timestamp_in_ms"

_MESSAGE: Final = shape((*MESSAGE, "sequence"), **MESSAGE, sequence=NUMBER)
_FILTERS: Final = {
    "routing_key": TEXT,
    "header": TEXT,
    "body": TEXT,
    "older_than": NUMBER,
    "newer_than": NUMBER,
    "redelivered": FLAG,
}


@dataclass
class Filter:
    """What a message must be like; None asks for nothing."""

    routing_key: str | None = None
    header: tuple[str, str | None] | None = None
    body: bytes | None = None
    older_than: int | None = None
    newer_than: int | None = None
    redelivered: bool | None = None

    def takes(self, entry: Entry, now: int) -> bool:
        message = entry.message
        if self.redelivered is not None and entry.redelivered != self.redelivered:
            return False
        if self.routing_key is not None and not fnmatchcase(message.origin.keys[0], self.routing_key):
            return False
        if self.body is not None and not has_in_body(message.content, self.body):
            return False
        return self._takes_properties(entry, now)

    def _takes_properties(self, entry: Entry, now: int) -> bool:
        if self.header is None and self.older_than is None and self.newer_than is None:
            return True
        properties = entry.message.properties()
        if self.header is not None and not _has_header(properties.headers, *self.header):
            return False
        if self.older_than is None and self.newer_than is None:
            return True
        sent = _sent_at(properties.headers, properties.timestamp)
        if sent is None:
            # Nobody said when it was published, so it is neither older nor newer.
            return False
        age = (now - sent) / 1000
        return (self.older_than is None or age >= self.older_than) and (
            self.newer_than is None or age <= self.newer_than
        )


def has_in_body(content: bytes, text: bytes) -> bool:
    end = b""
    for chunk in body_chunks(content, len(content)):
        # What lies across two chunks is in both.
        looked_at = end + chunk
        if text in looked_at:
            return True
        end = looked_at[-len(text) :]
    return not text


def filter_from(values: Any) -> Filter:
    """From a query string, or from the `filter` of a request's body."""
    if not isinstance(values, dict):
        raise bad_request("filter must be an object")
    unknown = sorted(set(values) - set(_FILTERS))
    if unknown:
        raise bad_request(f"{unknown[0]} is no filter: take {', '.join(_FILTERS)}")
    header = _text_in(values, "header")
    body = _text_in(values, "body")
    name, sign, value = (header or "").partition("=")
    redelivered = values.get("redelivered")
    return Filter(
        routing_key=_text_in(values, "routing_key"),
        header=None if header is None else (name, value if sign else None),
        body=None if body is None else body.encode(errors="surrogatepass"),
        older_than=_number_in(values, "older_than"),
        newer_than=_number_in(values, "newer_than"),
        redelivered=None if redelivered is None else redelivered in (True, "true"),
    )


@asks(count=NUMBER, after=NUMBER, truncate=NUMBER, **_FILTERS)
@gives({200: shape(("messages", "next", "scanned"), messages=list_of(_MESSAGE), scanned=NUMBER)})
async def browse(call: Call) -> Response:
    """Look at messages without taking them. `next`, when it is not null, is the `after` of the next question."""
    queue = readable(call)
    query = call.query
    wanted = filter_from({name: query[name] for name in _FILTERS if name in query})
    count = min(number_in_query(call, "count", COUNT_DEFAULT), COUNT_MAX)
    after = number_in_query(call, "after", 0)
    truncate = min(number_in_query(call, "truncate", BODY_SHOWN), BODY_SHOWN)
    found, scanned, reached = await search(call, queue, wanted, after, count)
    shown = (describe(entry, truncate) for entry in found)
    return await respond(listed(call.pace, shown, {"next": reached, "scanned": scanned}))


async def listed(pace: Pace, messages: Iterator[Item], rest: Item) -> AsyncIterator[bytes]:
    """An object of a list that may be long, and a few things more."""
    before = b'{"messages":['
    for message in messages:
        piece = encode(message)
        yield before + piece
        before = b","
        await pace.spend(encoding_units(piece))
    yield (b"" if before == b"," else before) + b"]," + encode(rest)[1:]


async def search(
    call: Call, queue: Queue, wanted: Filter, after: int, count: int
) -> tuple[list[Entry], int, int | None]:
    """Those found, how many were looked at, and the sequence to go on behind; None at the end of the queue."""
    found: list[Entry] = []
    scanned = found_bytes = 0
    # How large they are is not known before the first.
    step = 1
    while count > 0 and scanned < SCAN_MAX and not queue.deleted:
        entries = queue.browse(after, step)
        size = 0
        for entry in entries:
            scanned += 1
            after = int(entry.sequence)
            size += len(entry.message.content)
            if wanted.takes(entry, call.now):
                found.append(entry)
                found_bytes += len(entry.message.content)
                if len(found) == count or found_bytes >= GET_BYTES:
                    return found, scanned, after
            # Before the next one is looked at, everybody else's turn.
            await call.pace.spend(_LOOK_UNITS + len(entry.message.content) // _BYTES_PER_UNIT)
        if not entries:
            return found, scanned, None
        # Of large messages fewer are read at once.
        step = max(1, min(STEP, STEP_BYTES * len(entries) // max(size, 1)))
    return found, scanned, after


def describe(entry: Entry, truncate: int) -> Item:
    message = entry.message
    payload, encoding = plain_body(b"".join(body_chunks(message.content, truncate)))
    shown = len(message.origin.keys) - int(message.origin.hidden)
    return {
        "sequence": int(entry.sequence),
        "exchange": message.origin.exchange,
        "routing_key": message.origin.keys[0],
        "routing_keys": message.origin.keys[:shown],
        "redelivered": entry.redelivered,
        "expires_at": None if entry.expires_at == NEVER else iso(int(entry.expires_at)),
        "is_stored": entry.address != 0,
        "properties": properties_to(message.content),
        "payload_bytes": int(message.body_size),
        "payload": payload,
        "payload_encoding": encoding,
    }


@gives({200: _MESSAGE})
async def show(call: Call) -> Response:
    return call.item(describe(found(relocate.find(readable(call), sequence_in(call))), BODY_SHOWN))


async def delete(call: Call) -> Response:
    """Delete this one message. It is not dead-lettered."""
    return deleted(relocate.drop(removable(call), sequence_in(call)))


def readable(call: Call) -> Queue:
    """The queue in the path, for a user who could consume from it."""
    vhost, queue = call.vhost_to_use(), queues.find(call)
    call.node.access.check(call.user.name, vhost.name, "queue", queue.name, "read")
    if queue.exclusive_owner is not None:
        raise ResourceLocked(f"cannot obtain exclusive access to locked queue '{queue.name}' in vhost '{vhost.name}'")
    return queue


def removable(call: Call) -> Queue:
    queue = readable(call)
    if queue.type == STREAM:
        raise bad_request(f"queue '{queue.name}' is a stream, and what is in a stream stays until its time is over")
    return queue


def sequence_in(call: Call) -> int:
    text = call.path("sequence")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise bad_request("a message is named by its sequence, a number")
    return int(text)


def _has_header(headers: Table | None, name: str, value: str | None) -> bool:
    field = None if headers is None else headers.get(name)
    if field is None:
        return False
    if value is None:
        return True
    plain = plain_table({name: field})[name]
    return str(plain).lower() == value.lower() if isinstance(plain, bool) else str(plain) == value


def _sent_at(headers: Table | None, timestamp: int | None) -> int | None:
    """In milliseconds: by the broker's stamp where the stamp extension runs, else as the publisher says."""
    field = None if headers is None else headers.get(_STAMP)
    if field is not None and isinstance(field.value, int):
        return field.value
    return None if timestamp is None else timestamp * 1000


def _text_in(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"{name} must be text")
    if value is not None and len(value) > FILTER_MAX:
        raise bad_request(f"{name} must have at most {FILTER_MAX} characters")
    return value


def _number_in(values: dict[str, Any], name: str) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 18:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18:
        return value
    raise bad_request(f"{name} must be a whole number that is not negative")


def number_in_query(call: Call, name: str, default: int) -> int:
    value = _number_in(call.query, name)
    return default if value is None else value


ROUTES: Final = [
    route("/api/queues/{vhost}/{name}/messages", GET=browse),
    route("/api/queues/{vhost}/{name}/messages/{sequence}", GET=show, DELETE=delete),
]
