"""Queues and exchanges made and deleted through the API: the rules are those of a client's own channel."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.management.asking import Asking
from warren import Broker

REFUSED = {"error": "not_authorised", "reason": "Access refused."}


def bad(reason: object) -> dict[str, object]:
    return {"error": "bad_request", "reason": reason}


def test_a_queue_is_put_and_deleted(api: Asking) -> None:
    body = {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}
    assert api.put("/api/queues/%2F/made", body).status == 201
    assert api.put("/api/queues/%2F/made", body).status == 204
    shown = api.get("/api/queues/%2F/made?columns=durable,arguments").json
    assert shown == {"durable": True, "arguments": {"x-max-length": 5}}
    assert api.delete("/api/queues/%2F/made").status == 204
    assert api.delete("/api/queues/%2F/made").status == 404


def test_without_a_body_a_queue_is_what_the_protocol_says(api: Asking) -> None:
    assert api.put("/api/queues/%2F/plain").status == 201
    assert api.put("/api/queues/%2F/plain", {"durable": "false", "arguments": []}).status == 204
    assert api.get("/api/queues/%2F/plain?columns=durable,auto_delete").json == {"durable": False, "auto_delete": False}


@pytest.mark.parametrize(
    ("path", "body", "status", "answer"),
    [
        ("plain", {"durable": True}, 400, bad(
            "inequivalent arg 'durable' for queue 'plain' in vhost '/': received 'true' but current is 'false'"
        )),
        ("new", {"durable": "maybe"}, 400, bad(["not_boolean", "maybe"])),
        ("new", {"durable": []}, 400, bad(["not_boolean", []])),
        ("new", {"arguments": 5}, 400, bad("arguments must be an object")),
        ("new", {"arguments": {"x": {"y": [None]}}}, 400, bad("null_not_allowed")),
        ("amq.new", {}, 401, REFUSED),
    ],
)  # fmt: skip
def test_a_queue_that_cannot_be_is_refused(
    api: Asking, path: str, body: object, status: int, answer: dict[str, object]
) -> None:
    api.put("/api/queues/%2F/plain")
    got = api.put(f"/api/queues/%2F/{path}", body)
    assert (got.status, got.json) == (status, answer)


def test_a_virtual_host_that_is_not_there_has_no_queues(api: Asking) -> None:
    answer = api.put("/api/queues/nowhere/q", {})
    assert (answer.status, answer.json) == (404, {"error": "not_found", "reason": "vhost_not_found"})


def test_a_queue_in_use_or_not_empty_can_be_spared(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("spared")
    channel.basic_publish("", "spared", b"")
    answer = api.delete("/api/queues/%2F/spared?if-empty=true")
    assert (answer.status, answer.json) == (400, bad("queue 'spared' in vhost '/' not empty"))
    channel.basic_consume("spared", lambda *_: None)
    answer = api.delete("/api/queues/%2F/spared?if-unused=true")
    assert (answer.status, answer.json) == (400, bad("queue 'spared' in vhost '/' in use"))


def test_a_queue_is_purged(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("purged")
    channel.basic_publish("", "purged", b"")
    assert api.delete("/api/queues/%2F/purged/contents").status == 204
    assert api.get("/api/queues/%2F/purged").json["messages"] == 0
    assert api.delete("/api/queues/%2F/nope/contents").status == 404


@pytest.mark.parametrize(
    ("text", "type_"), [("quorum", "quorum"), ("rabbit_quorum_queue", "quorum"), ("undefined", "classic")]
)
def test_a_virtual_host_s_default_queue_type_is_read_as_rabbitmq_writes_it(api: Asking, text: str, type_: str) -> None:
    assert api.put("/api/vhosts/typed", {"default_queue_type": text}).status == 201
    api.put("/api/queues/typed/q", {"durable": True})
    assert api.get("/api/queues/typed/q").json["type"] == type_
    api.delete("/api/vhosts/typed")


def test_a_virtual_host_has_no_default_queue_type_that_no_queue_has(api: Asking) -> None:
    answer = api.put("/api/vhosts/typed", {"default_queue_type": "nope"})
    assert (answer.status, answer.json) == (400, bad("nope is not a valid queue type"))
    assert api.get("/api/vhosts/typed").status == 404


def test_an_exchange_is_put_and_deleted(api: Asking) -> None:
    assert api.put("/api/exchanges/%2F/made", {"type": "topic", "durable": True}).status == 201
    assert api.put("/api/exchanges/%2F/made", {"type": "topic", "durable": True}).status == 204
    assert api.get("/api/exchanges/%2F/made?columns=type,durable").json == {"type": "topic", "durable": True}
    answer = api.put("/api/exchanges/%2F/made", {"type": "direct", "durable": True})
    assert (answer.status, answer.json) == (
        400,
        bad("inequivalent arg 'type' for exchange 'made' in vhost '/': received 'direct' but current is 'topic'"),
    )
    assert api.delete("/api/exchanges/%2F/made?if-unused=true").status == 204
    assert api.delete("/api/exchanges/%2F/made").status == 404


def test_exchanges_of_the_broker_are_not_touched(api: Asking) -> None:
    for answer in (
        api.put("/api/exchanges/%2F/amq.new", {"type": "direct"}),
        api.delete("/api/exchanges/%2F/amq.direct"),
        api.put("/api/exchanges/%2F/amq.default", {"type": "direct"}),
    ):
        assert (answer.status, answer.json) == (401, REFUSED)


def test_the_api_is_no_way_around_permissions(broker: Broker) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue("theirs", True, False, {}))
    broker.add_user("limited", "secret", ["administrator"])
    broker.set_permission("limited", configure="^mine", write="^mine", read="^mine")
    asking = Asking(broker, "limited:secret")
    assert asking.put("/api/queues/%2F/mine", {"durable": True}).status == 201
    message = {"properties": {}, "routing_key": "theirs", "payload": "", "payload_encoding": "string"}
    get = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    for answer in (
        asking.put("/api/queues/%2F/other", {}),
        asking.delete("/api/queues/%2F/theirs"),
        asking.delete("/api/queues/%2F/theirs/contents"),
        asking.post("/api/queues/%2F/theirs/get", get),
        asking.put("/api/exchanges/%2F/other", {}),
        asking.post("/api/bindings/%2F/e/amq.topic/q/theirs", {}),
    ):
        assert (answer.status, answer.json) == (401, REFUSED)
    refused = asking.post("/api/exchanges/%2F/amq.default/publish", message)
    assert (refused.status, "403 ACCESS_REFUSED" in refused.json["reason"]) == (400, True)


def test_what_the_api_does_leaves_no_connection_behind(broker: Broker, api: Asking) -> None:
    api.put("/api/queues/%2F/passing", {})
    api.delete("/api/queues/%2F/passing")
    assert broker.call(lambda node: len(node.connections)) == 0
    with pika.BlockingConnection(pika.URLParameters(broker.url)):
        assert len(api.get("/api/connections").json) == 1
