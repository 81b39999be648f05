"""/api/scheduled: what delayed exchanges hold back, and a way to cancel it. Not in RabbitMQ."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.broker.operate import relocate
from warren.broker.queue.entry import Entry
from warren.broker.queue.schedule import Schedule, schedule_of
from warren.management import contents, exchanges
from warren.management.calls import Call, deleted, found, route
from warren.management.listing import Item
from warren.management.pieces import respond
from warren.management.spec import NUMBER, OBJECT, asks, gives, list_of, shape
from warren.management.times import iso

COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 1000


def describe(entry: Entry) -> Item:
    item = contents.describe(entry, 1000)
    del item["expires_at"]
    return {**item, "due_at": iso(int(entry.expires_at))}


async def list_schedules(call: Call) -> Response:
    """Delayed exchanges, and how much each holds back."""
    items: list[Item] = []
    for vhost in call.vhosts():
        for exchange in vhost.exchanges.values():
            schedule = schedule_of(exchange)
            if schedule is not None:
                items.append({"name": exchange.name, "vhost": vhost.name, "messages": int(schedule.backing.length)})
    return await call.items(items)


@asks(after=NUMBER, count=NUMBER)
@gives({200: shape(("messages", "next"), messages=list_of(OBJECT))})
async def browse(call: Call) -> Response:
    """Messages in the order in which they were published, each with its time."""
    schedule = find(call, "read")
    after = contents.number_in_query(call, "after", 0)
    count = min(contents.number_in_query(call, "count", COUNT_DEFAULT), COUNT_MAX)
    found, _, reached = await contents.search(call, schedule, contents.Filter(), after, count)
    shown = (describe(entry) for entry in found)
    return await respond(contents.listed(call.pace, shown, {"next": reached if found else None}))


async def cancel(call: Call) -> Response:
    """It will never be routed."""
    return deleted(relocate.drop(find(call, "write"), contents.sequence_in(call)))


def find(call: Call, action: str) -> Schedule:
    vhost, exchange = call.vhost_to_use(), exchanges.find(call)
    schedule = found(schedule_of(exchange))
    call.node.access.check(call.user.name, vhost.name, "exchange", exchange.name, action)
    return schedule


ROUTES: Final = [
    route("/api/scheduled", GET=list_schedules),
    route("/api/scheduled/{vhost}", GET=list_schedules),
    route("/api/scheduled/{vhost}/{name}", GET=browse),
    route("/api/scheduled/{vhost}/{name}/{sequence}", DELETE=cancel),
]
