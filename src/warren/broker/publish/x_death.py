"""x-death and its companions: the story of a dead letter, in its headers. Written here, and read here."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from warren.amqp.fields import Field, Table, field_of
from warren.amqp.properties import Properties
from warren.amqp.stamp import HeaderPlace, names_of_plain, with_more_headers
from warren.amqp.tables import encode_table
from warren.broker.message import Message, Obituary, Origin
from warren.broker.queue.deadletter import REASON_REJECTED
from warren.broker.rules.setting_kinds import is_short

_COUNT_MAX: Final = 2**63 - 1
# Headers that a death changes.
_WRITTEN: Final = frozenset(
    [
        b"CC",
        b"x-death",
        b"x-first-death-reason",
        b"x-first-death-queue",
        b"x-first-death-exchange",
        b"x-last-death-reason",
        b"x-last-death-queue",
        b"x-last-death-exchange",
    ]
)


class Address:
    """An exchange and the keys under which a message is to go there."""

    def __init__(self, exchange: str, keys: list[str]) -> None:
        self.exchange = exchange
        self.keys = keys


def record_death(
    headers: Table, queue: str, reason: str, origin: Origin, properties: Properties, now_seconds: i64
) -> None:
    """Newest death first; one entry per (queue, reason), whose count grows."""
    deaths = _deaths(headers)
    is_first = "x-death" not in headers
    again: Table | None = None
    for death in deaths:
        if _text(death, "queue") == queue and _text(death, "reason") == reason:
            again = death
            break
    if again is not None:
        deaths.remove(again)
        count = again.get("count")
        counted = count.value if count is not None and isinstance(count.value, int) else 0
        # A client may have written any number there.
        again["count"] = Field("l", min(counted + 1, _COUNT_MAX))
        deaths.insert(0, again)
    else:
        deaths.insert(0, _death(queue, reason, origin, properties, now_seconds))
    headers["x-death"] = Field("A", [Field("F", death) for death in deaths])
    if is_first:
        _summarise(headers, "x-first-death", queue, reason, origin.exchange)
    _summarise(headers, "x-last-death", queue, reason, origin.exchange)


def spliced_death(old: Message, place: HeaderPlace, obituary: Obituary, now_seconds: i64) -> bytes | None:
    """What `record_death` would make of a first death, without decoding what else there is; None where it must be."""
    names = names_of_plain(old.content, place)
    if names is None or not names.isdisjoint(_WRITTEN):
        return None
    if not obituary.before:
        _write_obituary(obituary, old.origin)
    writer = BytesWriter()
    writer.write(obituary.before)
    write_i64_be(writer, now_seconds)
    writer.write(obituary.behind)
    return with_more_headers(old.content, place, writer.getvalue())


def _write_obituary(obituary: Obituary, origin: Origin) -> None:
    headers: Table = {}
    expiration = obituary.expiration[1:].decode("utf-8", "surrogateescape") if obituary.expiration else None
    record_death(headers, obituary.queue, obituary.reason, origin, Properties(expiration=expiration), 0)
    fields = encode_table(headers)[4:]
    front = {"count": Field("l", 1), "reason": Field("S", obituary.reason), "queue": Field("S", obituary.queue)}
    # Behind the name, tag and size of x-death, the tag and size of its first table, what comes before the time in
    # that, and the time's own name and tag.
    time_at = 13 + 5 + len(encode_table(front)) - 4 + 6
    obituary.before = fields[:time_at]
    obituary.behind = fields[time_at + 8 :]


def _death(queue: str, reason: str, origin: Origin, properties: Properties, now_seconds: i64) -> Table:
    shown = len(origin.keys) - origin.hidden
    death: Table = {
        "count": Field("l", 1),
        "reason": Field("S", reason),
        "queue": Field("S", queue),
        "time": Field("T", now_seconds),
        "exchange": Field("S", origin.exchange),
        "routing-keys": Field("A", [field_of(key) for key in origin.keys[:shown]]),
    }
    if properties.expiration is not None:
        death["original-expiration"] = Field("S", properties.expiration)
    return death


def _summarise(headers: Table, prefix: str, queue: str, reason: str, exchange: str) -> None:
    headers[f"{prefix}-reason"] = Field("S", reason)
    headers[f"{prefix}-queue"] = Field("S", queue)
    headers[f"{prefix}-exchange"] = Field("S", exchange)


def _deaths(headers: Table) -> list[Table]:
    """What x-death says; a header of another shape, which only a client can have made, counts for nothing."""
    field = headers.get("x-death")
    if field is None or not isinstance(field.value, list):
        return []
    return [dict(item.value) for item in field.value if isinstance(item.value, dict)]


def been_in(headers: Table | None) -> set[str | None]:
    """The queues in which it died since somebody last rejected it: to go there again would be to go round for ever."""
    been: set[str | None] = set()
    for death in [] if headers is None else _deaths(headers):
        if _text(death, "reason") == REASON_REJECTED:
            break
        been.add(_text(death, "queue"))
    return been


def origin_queue(headers: Table | None) -> str | None:
    """Where a dead letter first died."""
    name = _text(headers, "x-first-death-queue") or _text(_first_death(headers), "queue")
    return name if name is None or is_short(name) else None


def origin_address(headers: Table | None) -> Address | None:
    """The exchange and keys with which a dead letter was published; None when it is no dead letter."""
    death = _first_death(headers)
    if death is None:
        return None
    exchange = death.get("exchange")
    keys = death.get("routing-keys")
    if exchange is None or keys is None or not isinstance(exchange.value, str) or not isinstance(keys.value, list):
        return None
    texts = [key.value for key in keys.value if isinstance(key.value, str)]
    # A client may have written them, and no key is longer.
    return Address(exchange.value, texts) if texts and all(is_short(text) for text in texts) else None


def redrive_marks(headers: Table | None) -> Table:
    """How often it was sent back, for whoever wonders why it is here again."""
    before = None if headers is None else headers.get("x-redrive-count")
    count = before.value if before is not None and isinstance(before.value, int) else 0
    return {"x-redrive-count": Field("l", min(count + 1, _COUNT_MAX))}


def _first_death(headers: Table | None) -> Table | None:
    """The oldest: deaths are listed newest first."""
    field = None if headers is None else headers.get("x-death")
    if field is None or not isinstance(field.value, list) or not field.value:
        return None
    oldest = field.value[-1].value
    return oldest if isinstance(oldest, dict) else None


def _text(table: Table | None, key: str) -> str | None:
    field = None if table is None else table.get(key)
    return field.value if field is not None and isinstance(field.value, str) else None
