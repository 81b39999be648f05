"""/api/queues/V/Q/move and /redrive: messages to another queue or exchange, or dead letters back to their origin.

For hundreds of messages; millions are a job for Spark. Each message is in its new queues before it leaves the old one,
and the answer comes once that is on disk. Not in RabbitMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from warren.amqp.fields import Table
from warren.broker.operate import relocate
from warren.broker.publish import x_death
from warren.broker.publish.checks import refuse_internal, topic_permission
from warren.broker.publish.x_death import Address
from warren.broker.queue.entry import Entry
from warren.broker.rules.setting_kinds import is_short
from warren.management.calls import Call, found, route
from warren.management.contents import filter_from, removable, search, sequence_in
from warren.management.refusals import Refusal, bad_request
from warren.management.spec import NUMBER, OBJECT, TEXT, gives, shape, takes

COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 10_000
SYNC_SECONDS: Final = 30.0
SYNC_STEP: Final = 0.002
_MOVE_UNITS: Final = 100

_DESTINATION: Final = {"queue": TEXT, "exchange": TEXT, "routing_key": TEXT}
_MOVED: Final = shape(("moved", "left"), moved=NUMBER, left=NUMBER, next={**NUMBER, "nullable": True})


@takes(**_DESTINATION)
@gives({200: _MOVED})
async def move_one(call: Call) -> Response:
    """Move this one message to a queue, or to an exchange with a routing key."""
    queue, sequence = removable(call), sequence_in(call)
    address = address_in(call, await call.body())
    entry = found(relocate.find(queue, sequence))
    address = readdressed(entry, address)
    check_write(call, address)
    if not await move_entry(call, entry, address, {}):
        raise Refusal(409, "not_moved", "no queue took the message, so it stays where it is")
    await synced(call)
    return JSONResponse({"moved": 1, "left": 0, "next": None})


@takes(**_DESTINATION, count=NUMBER, after=NUMBER, filter=OBJECT)
@gives({200: _MOVED})
async def move_many(call: Call) -> Response:
    """Move the first messages, or the first that a filter takes."""
    body = await call.body()
    address = address_in(call, body)
    check_write(call, address)

    def where(entry: Entry) -> tuple[Address | None, Table]:
        own = readdressed(entry, address)
        if own is not address:
            check_write(call, own)
        return own, {}

    return await relocate_many(call, body, where)


@takes(to={"type": "string", "enum": ["queue", "exchange"]}, count=NUMBER, after=NUMBER, filter=OBJECT)
@gives({200: _MOVED})
async def redrive(call: Call) -> Response:
    """Send dead letters back: to the queue in which they first died, or to the exchange they were published to."""
    body = await call.body()
    to = body.get("to", "queue")
    if to not in ("queue", "exchange"):
        raise bad_request("to must be queue or exchange")

    def origin(entry: Entry) -> tuple[Address | None, Table]:
        headers = entry.message.properties().headers
        queue = x_death.origin_queue(headers)
        if to == "exchange":
            address = x_death.origin_address(headers)
        else:
            address = None if queue is None else Address("", [queue])
        if address is not None:
            check_write(call, address)
        return address, x_death.redrive_marks(headers)

    return await relocate_many(call, body, origin)


async def relocate_many(
    call: Call, body: dict[str, Any], where: Callable[[Entry], tuple[Address | None, Table]]
) -> Response:
    queue = removable(call)
    wanted = filter_from(body.get("filter", {}))
    count, after = number_in(body, "count", COUNT_DEFAULT), number_in(body, "after", 0)
    # What the move itself puts at the queue's end is not to be moved again.
    last = int(queue.newest())
    moved = left = 0
    reached: int | None = after
    while moved + left < min(count, COUNT_MAX) and reached is not None:
        step = min(100, min(count, COUNT_MAX) - moved - left)
        entries, _, reached = await search(call, queue, wanted, reached, step)
        for entry in entries:
            if entry.sequence > last:
                reached = None
                break
            # Looked for anew: a consumer may have taken it while others had their turn.
            again = relocate.find(entry.queue, entry.sequence)
            if again is not None and await move_entry(call, again, *where(again)):
                moved += 1
            else:
                left += 1
            await call.pace.spend(_MOVE_UNITS + len(entry.message.content) // 1000)
        call.context.end_turn()
    await synced(call)
    return JSONResponse({"moved": moved, "left": left, "next": reached})


async def move_entry(call: Call, entry: Entry, address: Address | None, marks: Table) -> bool:
    """False when it stays where it is."""
    moving = None if address is None else relocate.move(call.vhost(), entry, address, marks)
    while moving is not None and not moving.is_done:
        await call.pace.next_turn()
    return moving is not None and moving.has_moved


def address_in(call: Call, body: dict[str, Any]) -> Address:
    queue, exchange, key = body.get("queue"), body.get("exchange"), body.get("routing_key", "")
    if (queue is None) == (exchange is None):
        raise bad_request("say where to: queue, or exchange and routing_key")
    if not isinstance(queue, str | None) or not isinstance(exchange, str | None) or not isinstance(key, str):
        raise bad_request("queue, exchange and routing_key must be text")
    if not is_short(key):
        raise bad_request("routing_key must have at most 255 bytes")
    vhost = call.vhost_to_use()
    if queue is not None:
        if queue not in vhost.queues:
            raise Refusal(404, "not_found", f"no queue '{queue}' in vhost '{vhost.name}'")
        return Address("", [queue])
    assert exchange is not None
    if exchange not in vhost.exchanges:
        raise Refusal(404, "not_found", f"no exchange '{exchange}' in vhost '{vhost.name}'")
    return Address(exchange, [key] if "routing_key" in body else [])


def readdressed(entry: Entry, address: Address) -> Address:
    """To an exchange without a key: with the keys it has."""
    return address if address.keys else Address(address.exchange, entry.message.origin.keys)


def check_write(call: Call, address: Address) -> None:
    """What the same user would be refused as a publisher."""
    vhost, user = call.vhost_to_use(), call.user.name
    call.node.access.check(user, vhost.name, "exchange", address.exchange, "write")
    exchange = vhost.exchanges.get(address.exchange)
    if exchange is None:
        return
    if exchange.internal:
        refuse_internal(exchange)
    for key in address.keys:
        topic_permission(vhost, user, exchange, key)


def number_in(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**18:
        raise bad_request(f"{name} must be a whole number that is not negative")
    return value


async def synced(call: Call) -> None:
    """Wait until what was changed is on disk."""
    call.context.end_turn()
    store = call.node.store
    position = store.position
    async with asyncio.timeout(SYNC_SECONDS):
        while store.synced < position:  # noqa: ASYNC110 - the disk tells only whoever asks
            await asyncio.sleep(SYNC_STEP)


ROUTES: Final = [
    route("/api/queues/{vhost}/{name}/messages/{sequence}/move", POST=move_one),
    route("/api/queues/{vhost}/{name}/move", POST=move_many),
    route("/api/queues/{vhost}/{name}/redrive", POST=redrive),
]
