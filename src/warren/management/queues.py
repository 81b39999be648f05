"""/api/queues"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from warren.amqp.fields import plain_table
from warren.amqp.methods import QueueDeclare, QueueDelete, QueuePurge
from warren.broker.queue import Queue
from warren.broker.stream import Stream
from warren.management import bindings, consumers
from warren.management.arguments import arguments_in, flag_in
from warren.management.calls import Call, done, route
from warren.management.listing import Item
from warren.management.refusals import not_found
from warren.management.times import iso

STATS: Final = (
    "publish", "deliver", "deliver_no_ack", "deliver_get", "get", "get_no_ack", "get_empty", "redeliver", "ack",
)  # fmt: skip


def describe(call: Call, queue: Queue) -> Item:
    ready, unacked = int(queue.backing.length), int(queue.unacked)
    bytes_ready, bytes_unacked = int(queue.backing.body_bytes), int(queue.unacked_bytes)
    key = ("queue", queue.vhost, queue.name)
    # In a stream nothing leaves for being read.
    total = ready if isinstance(queue, Stream) else ready + unacked
    levels = {"messages": total, "messages_ready": ready, "messages_unacknowledged": unacked}
    active = queue.consumers.active_one() if queue.single_active else None
    item: Item = {
        "name": queue.name,
        "vhost": queue.vhost,
        "type": queue.type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.exclusive_owner is not None,
        "arguments": plain_table(queue.arguments),
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
        "message_bytes": bytes_ready + bytes_unacked,
        "message_bytes_ready": bytes_ready,
        "message_bytes_unacknowledged": bytes_unacked,
        "message_stats": call.rates.details(key, stats(queue), call.now),
        **call.rates.details(key, levels, call.now),
    }
    if isinstance(queue, Stream):
        item |= _of_stream(queue)
    return item


def _of_stream(stream: Stream) -> Item:
    """The last offset that may be read, as RabbitMQ tells it, and -1 while there is none; then what Warren adds."""
    log = stream.log
    return {
        "committed_offset": int(log.committed) - 1,
        "first_offset": int(log.first_offset),
        "segments": int(log.segment_count()),
        "disk_bytes": int(log.disk_bytes()),
        "readers": {reader.tag: {"next_offset": int(reader.cursor.next_offset)} for reader in stream.readers},
    }


def stats(queue: Queue) -> dict[str, int]:
    counted = queue.counters
    return {
        "publish": int(counted.published),
        "deliver": int(counted.delivered),
        "deliver_no_ack": int(counted.delivered_no_ack),
        "deliver_get": int(counted.delivered + counted.delivered_no_ack + counted.got + counted.got_no_ack),
        "get": int(counted.got),
        "get_no_ack": int(counted.got_no_ack),
        "get_empty": int(counted.got_empty),
        "redeliver": int(counted.redelivered),
        "ack": int(counted.acked),
    }


def capacity(queue: Queue) -> float:
    """1.0 while some consumer could take more: the share of time is not measured, its present state is."""
    if isinstance(queue, Stream):
        return 1.0 if any(reader.can_take() for reader in queue.readers) else 0.0
    return 1.0 if queue.consumers.count > 0 and queue.backing.length == 0 else 0.0


async def list_queues(call: Call) -> Response:
    return call.listing([describe(call, queue) for vhost in call.vhosts() for queue in vhost.queues.values()])


async def show(call: Call) -> Response:
    queue = find(call)
    item = describe(call, queue)
    item["consumer_details"] = [consumers.describe(call, each) for each in queue.consumers.all()]
    item["incoming"] = []
    item["deliveries"] = []
    return call.item(item)


async def list_bindings(call: Call) -> Response:
    queue = find(call)
    return call.listing([bindings.describe(each) for each in bindings.leading_to(call.vhost(), queue)])


async def put(call: Call) -> Response:
    vhost, name, body = call.vhost_to_use(), call.path("name"), await call.body()
    is_new = name not in vhost.queues
    call.act(
        QueueDeclare(
            queue=name,
            durable=flag_in(body, "durable"),
            auto_delete=flag_in(body, "auto_delete"),
            arguments=arguments_in(body),
        )
    )
    return done(is_new)


async def delete(call: Call) -> Response:
    name = find(call).name
    call.act(QueueDelete(queue=name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")))
    return done()


async def purge(call: Call) -> Response:
    call.act(QueuePurge(queue=find(call).name))
    return done()


def find(call: Call) -> Queue:
    queue = call.vhost().queues.get(call.path("name"))
    if queue is None:
        raise not_found()
    return queue


ROUTES: Final = [
    route("/api/queues", GET=list_queues),
    route("/api/queues/{vhost}", GET=list_queues),
    route("/api/queues/{vhost}/{name}", GET=show, PUT=put, DELETE=delete),
    route("/api/queues/{vhost}/{name}/contents", DELETE=purge),
    route("/api/queues/{vhost}/{name}/bindings", GET=list_bindings),
]
