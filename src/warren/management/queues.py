"""/api/queues"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from warren.amqp.fields import Field, Table, plain_table
from warren.amqp.methods import QueueDeclare, QueueDelete, QueuePurge
from warren.broker.metrics import QueueCounters
from warren.broker.operate import change_queue
from warren.broker.queue.queue import Queue
from warren.broker.stream.stream import Stream
from warren.broker.vhost.shapes import queue_item
from warren.management import bindings, consumers
from warren.management.arguments import arguments_in, flag_in
from warren.management.calls import Call, Needs, done, found, route
from warren.management.listing import Item
from warren.management.refusals import bad_request
from warren.management.spec import ARGUMENTS, FLAG, OBJECT, TEXT, asks, gives, list_of, shape, takes
from warren.management.times import iso

# What is counted of a queue, by its name in the API.
COUNTS: Final[dict[str, Callable[[QueueCounters], int]]] = {
    "publish": lambda counted: counted.published,
    "deliver": lambda counted: counted.delivered,
    "deliver_no_ack": lambda counted: counted.delivered_no_ack,
    "deliver_get": lambda counted: counted.delivered + counted.delivered_no_ack + counted.got + counted.got_no_ack,
    "get": lambda counted: counted.got,
    "get_no_ack": lambda counted: counted.got_no_ack,
    "get_empty": lambda counted: counted.got_empty,
    "redeliver": lambda counted: counted.redelivered,
    "ack": lambda counted: counted.acked,
}
_CHANGED: Final = shape(("differences",), error=TEXT, reason=TEXT, differences=list_of(OBJECT))
LEVELS: Final = ("messages", "messages_ready", "messages_unacknowledged", "messages_delayed")


def describe(call: Call, queue: Queue) -> Item:
    paged = int(queue.backing.paged)
    bytes_ready, bytes_unacked = int(queue.backing.body_bytes), int(queue.unacked_bytes)
    key = ("queue", queue.vhost, queue.name)
    active = queue.consumers.active_one() if queue.single_active else None
    item: Item = {
        **queue_item(queue),
        "exclusive": queue.exclusive_owner is not None,
        "node": call.node.settings.node_name,
        "state": "running",
        "policy": queue.policy,
        "operator_policy": queue.operator_policy,
        "effective_policy_definition": queue.effective_policy,
        "consumers": int(queue.consumers.count),
        "consumer_capacity": capacity(queue),
        "consumer_utilisation": capacity(queue),
        "exclusive_consumer_tag": None if queue.exclusive_consumer is None else queue.exclusive_consumer.tag,
        "single_active_consumer_tag": None if active is None else active.tag,
        "head_message_timestamp": None,
        "idle_since": iso(int(queue.last_used)),
        "messages_paged_out": paged,
        "messages_ready_ram": int(queue.backing.length) - paged,
        "messages_unacknowledged_ram": int(queue.unacked),
        "messages_ram": int(queue.backing.length) - paged + int(queue.unacked),
        "message_bytes": bytes_ready + bytes_unacked,
        "message_bytes_ready": bytes_ready,
        "message_bytes_unacknowledged": bytes_unacked,
        "message_stats": call.rates.details(key, stats(queue), call.now, call.history("msg_rates")),
        **call.rates.details(key, levels(queue), call.now, call.history("lengths")),
    }
    if isinstance(queue, Stream):
        item |= _of_stream(queue)
    return item


def levels(queue: Queue) -> dict[str, int]:
    """Messages that wait for their next try are neither ready nor in anybody's hands, but they are there."""
    ready, unacked = int(queue.backing.length), int(queue.unacked)
    return {
        "messages": int(queue.count()),
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        "messages_delayed": int(queue.waiting()),
    }


def _of_stream(stream: Stream) -> Item:
    """The last offset that may be read, as RabbitMQ tells it, and -1 while there is none; then what Warren adds."""
    log = stream.log
    return {
        "committed_offset": int(log.committed) - 1,
        "first_offset": int(log.first_offset),
        "next_offset": int(log.next_offset),
        "segments": int(log.segment_count()),
        "disk_bytes": int(log.disk_bytes()),
        "readers": {reader.tag: {"next_offset": int(reader.cursor.next_offset)} for reader in stream.readers},
        **_of_archive(stream),
    }


def _of_archive(stream: Stream) -> Item:
    """Where retention writes what it takes, and why it cannot at the moment."""
    log = stream.log
    if not log.archives:
        return {}
    return {"archive": f"{log.archive_root}/{log.archive_folder}", "archive_error": log.archive_error}


def stats(queue: Queue) -> dict[str, int]:
    return {name: int(count(queue.counters)) for name, count in COUNTS.items()}


def capacity(queue: Queue) -> float:
    """1.0 while some consumer could take more: the share of time is not measured, its present state is."""
    return 1.0 if queue.is_keeping_up() else 0.0


@asks(type=TEXT)
async def list_queues(call: Call) -> Response:
    """Of one `type` only, if one is asked for; RabbitMQ does not know that question."""
    queues = [queue for vhost in call.vhosts() for queue in vhost.queues.values()]
    wanted = call.query.get("type")
    queues = [queue for queue in queues if wanted is None or queue.type == wanted]
    return await call.listing(queues, partial(describe, call), sortable(call))


def sortable(call: Call) -> dict[str, Callable[[Queue], Any]]:
    """What the page sorts by, found without describing ten thousand queues to show fifty."""
    values: dict[str, Callable[[Queue], Any]] = {
        "name": lambda queue: queue.name,
        "consumers": lambda queue: queue.consumers.count,
        "messages": lambda queue: queue.count(),
        "messages_ready": lambda queue: queue.backing.length,
        "messages_unacknowledged": lambda queue: queue.unacked,
        "messages_delayed": lambda queue: queue.waiting(),
    }
    for name in COUNTS:
        values[f"message_stats.{name}_details.rate"] = partial(rate_of, call, name, COUNTS[name])
    return values


def rate_of(call: Call, name: str, count: Callable[[QueueCounters], int], queue: Queue) -> float:
    if count(queue.counters) == 0:
        # As of most of very many queues, which need not be remembered for that.
        return 0.0
    return call.rates.rates(("queue", queue.vhost, queue.name), stats(queue), call.now)[name]


async def show(call: Call) -> Response:
    queue = find(call)
    details = [consumers.describe(call, each) for each in queue.consumers.all()]
    return call.item({**describe(call, queue), "consumer_details": details, "incoming": [], "deliveries": []})


async def list_bindings(call: Call) -> Response:
    queue = find(call)
    return await call.listing(bindings.leading_to(call.vhost(), queue), bindings.describe)


@takes(durable=FLAG, auto_delete=FLAG, arguments=ARGUMENTS)
@asks(apply=FLAG)
@gives({200: _CHANGED, 201: None, 204: None, 409: _CHANGED})
async def put(call: Call) -> Response:
    vhost, name, body = call.vhost_to_use(), call.path("name"), await call.body()
    is_new = name not in vhost.queues
    if call.flag("apply") and not is_new:
        return change(call, arguments_in(body))
    await call.act(
        QueueDeclare(
            queue=name,
            durable=flag_in(body, "durable"),
            auto_delete=flag_in(body, "auto_delete"),
            arguments=arguments_in(body),
        )
    )
    return done(is_new)


@asks(if__empty=FLAG, if__unused=FLAG)
async def delete(call: Call) -> Response:
    name = find(call).name
    await call.act(QueueDelete(queue=name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")))
    return done()


async def purge(call: Call) -> Response:
    await call.act(QueuePurge(queue=find(call).name))
    return done()


@takes("arguments", arguments=ARGUMENTS)
@gives({200: _CHANGED, 409: _CHANGED})
async def patch(call: Call) -> Response:
    """Give the queue these arguments in place; what cannot change is told, and then nothing does."""
    body = call.required(await call.body(), "arguments")
    return change(call, arguments_in(body))


def change(call: Call, arguments: Table) -> Response:
    vhost, queue = call.vhost_to_use(), find(call)
    call.node.access.check(call.user.name, vhost.name, "queue", queue.name, "configure")
    dead_letters = arguments.get("x-dead-letter-exchange")
    if dead_letters is not None and isinstance(dead_letters.value, str):
        call.node.access.check(call.user.name, vhost.name, "queue", queue.name, "read")
        call.node.access.check(call.user.name, vhost.name, "exchange", dead_letters.value, "write")
    found = change_queue.change(vhost, queue, arguments)
    obstacles = [describe_difference(each) for each in found if each.obstacle]
    if obstacles:
        first = obstacles[0]
        reason = (
            f"{first['argument']} cannot change from {first['current']!r} to {first['wanted']!r}: {first['obstacle']}"
        )
        return JSONResponse({"error": "not_changeable", "reason": reason, "differences": obstacles}, 409)
    return JSONResponse({"differences": [describe_difference(each) for each in found]})


def describe_difference(difference: change_queue.Difference) -> Item:
    return {
        "argument": difference.argument,
        "current": value_of(difference.current),
        "wanted": value_of(difference.wanted),
        "obstacle": difference.obstacle,
    }


def value_of(field: Field | None) -> object:
    return None if field is None else plain_table({"value": field})["value"]


@takes("action", action={"type": "string", "enum": ["sync", "cancel_sync"]})
@gives({204: None})
async def act_on_mirrors(call: Call) -> Response:
    """Mirrors come into step by themselves, all queues of a node together: nothing is asked of them."""
    find(call)
    action = call.required(await call.body(), "action")["action"]
    if action not in ("sync", "cancel_sync"):
        raise bad_request(["not_recognised", action])
    return done()


def find(call: Call) -> Queue:
    return found(call.vhost().queues.get(call.path("name")))


ROUTES: Final = [
    route("/api/queues", GET=list_queues),
    route("/api/queues/detailed", GET=list_queues),
    route("/api/queues/{vhost}", GET=list_queues),
    route("/api/queues/{vhost}/{name}", GET=show, PUT=put, PATCH=patch, DELETE=delete),
    route("/api/queues/{vhost}/{name}/contents", DELETE=purge),
    route("/api/queues/{vhost}/{name}/bindings", GET=list_bindings),
    route("/api/queues/{vhost}/{name}/actions", Needs.ADMINISTRATOR, POST=act_on_mirrors),
]
