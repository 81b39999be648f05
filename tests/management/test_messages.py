"""Messages published and fetched through the API."""

from __future__ import annotations

from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.management.asking import Answer, Asking
from warren import Broker

PUBLISH = "/api/exchanges/%2F/amq.default/publish"


def publish(api: Asking, queue: str, payload: str, encoding: str = "string", **properties: object) -> Answer:
    body = {"properties": properties, "routing_key": queue, "payload": payload, "payload_encoding": encoding}
    return api.post(PUBLISH, body)


def get(api: Asking, queue: str, mode: str = "ack_requeue_true", **more: object) -> Answer:
    return api.post(f"/api/queues/%2F/{queue}/get", {"count": 10, "ackmode": mode, "encoding": "auto", **more})


@pytest.fixture
def queue(api: Asking, request: pytest.FixtureRequest) -> str:
    name = f"of-{request.node.name.partition('[')[0]}"
    api.put(f"/api/queues/%2F/{name}", {"durable": True})
    api.delete(f"/api/queues/%2F/{name}/contents")
    return name


def test_a_message_says_whether_it_was_routed(api: Asking, queue: str) -> None:
    assert publish(api, queue, "hello").json == {"routed": True}
    assert publish(api, "nowhere", "hello").json == {"routed": False}


def test_what_was_published_comes_out_with_its_properties(api: Asking, queue: str, channel: BlockingChannel) -> None:
    sent = {"delivery_mode": 2, "priority": 3, "timestamp": 5, "content_type": "t", "headers": {"a": 1, "b": ["x"]}}
    publish(api, queue, "aGk=", "base64", **sent, unknown="passed over")
    (shown,) = get(api, queue).json
    assert shown == {
        "payload_bytes": 2,
        "redelivered": False,
        "exchange": "",
        "routing_key": queue,
        "message_count": 0,
        "properties": sent,
        "payload": "hi",
        "payload_encoding": "string",
    }
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (method.redelivered, properties.headers, body) == (True, {"a": 1, "b": ["x"]}, b"hi")


@pytest.mark.parametrize(
    ("mode", "left"),
    [("ack_requeue_true", 2), ("reject_requeue_true", 2), ("ack_requeue_false", 0), ("reject_requeue_false", 0)],
)
def test_messages_are_given_back_or_gone(api: Asking, queue: str, mode: str, left: int) -> None:
    for payload in ("one", "two"):
        publish(api, queue, payload)
    assert [each["payload"] for each in get(api, queue, mode).json] == ["one", "two"]
    assert api.get(f"/api/queues/%2F/{queue}").json["messages"] == left


def test_rejected_messages_go_to_the_dead_letters(api: Asking, queue: str) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    api.put("/api/queues/%2F/rejecting", {"arguments": arguments})
    publish(api, "rejecting", "bad")
    get(api, "rejecting", "reject_requeue_false")
    (shown,) = get(api, queue).json
    assert shown["properties"]["headers"]["x-death"][0]["reason"] == "rejected"


@pytest.mark.parametrize("truncate", [4, "4"])
def test_bytes_that_are_no_text_come_as_base64_and_may_be_cut(api: Asking, queue: str, truncate: object) -> None:
    publish(api, queue, "/w==", "base64")
    publish(api, queue, "long text")
    first, second = get(api, queue, truncate=truncate).json
    assert (first["payload"], first["payload_encoding"]) == ("/w==", "base64")
    assert (second["payload"], second["payload_bytes"]) == ("long", 9)
    assert get(api, queue, encoding="base64", count=1).json[0]["payload_encoding"] == "base64"


def test_a_full_queue_refuses(api: Asking) -> None:
    api.put("/api/queues/%2F/full", {"arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}})
    publish(api, "full", "fits")
    answer = publish(api, "full", "does not")
    assert (answer.status, answer.json) == (
        400,
        {"error": "rejected", "reason": "Unable to publish message. Check queue limits."},
    )


def test_a_persistent_message_is_answered_when_it_is_safe(tmp_path: object) -> None:
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        api = Asking(broker)
        api.put("/api/queues/%2F/kept", {"durable": True})
        assert publish(api, "kept", "x", delivery_mode=2).json == {"routed": True}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"properties": None}, "properties must be an object"),
        ({"properties": {"delivery_mode": "2"}}, ["not_int", "delivery_mode"]),
        ({"properties": {"type": 2}}, ["not_text", "type"]),
        ({"properties": {"headers": []}}, "headers must be an object"),
        ({"properties": {"expiration": "abc"}}, "406 PRECONDITION_FAILED - invalid expiration 'abc': no_integer"),
        ({"payload": 5}, "payload must be text"),
        ({"payload": "!!", "payload_encoding": "base64"}, ["not_base64", "!!"]),
        ({"payload_encoding": "zip"}, ["unsupported_encoding", "zip"]),
        ({"routing_key": 5}, "routing_key must be text"),
    ],
)
def test_a_message_that_cannot_be_is_refused(api: Asking, change: dict[str, Any], reason: object) -> None:
    body = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string", **change}
    answer = api.post(PUBLISH, body)
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


@pytest.mark.parametrize("missing", ["properties", "routing_key", "payload", "payload_encoding"])
def test_a_part_that_is_missing_is_named(api: Asking, missing: str) -> None:
    body = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    del body[missing]
    assert api.post(PUBLISH, body).json["reason"] == f"[{{key_missing,{missing}}}]"


def test_an_exchange_that_is_not_there_is_refused(api: Asking) -> None:
    body = {"properties": {}, "routing_key": "q", "payload": "", "payload_encoding": "string"}
    answer = api.post("/api/exchanges/%2F/nope/publish", body)
    assert answer.json["reason"] == "404 NOT_FOUND - no exchange 'nope' in vhost '/'"


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"ackmode": "nix"}, 400),
        ({"ackmode": []}, 400),
        ({"encoding": "x"}, 400),
        ({"count": "x"}, 400),
        ({"count": "1"}, 200),
        ({"count": -1}, 200),
    ],
)
def test_what_cannot_be_fetched_is_refused(api: Asking, queue: str, more: dict[str, object], status: int) -> None:
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", **more}
    assert api.post(f"/api/queues/%2F/{queue}/get", body).status == status


def test_a_queue_that_is_not_there_has_no_messages(api: Asking) -> None:
    answer = get(api, "nope")
    assert (answer.status, answer.json["error"]) == (404, "not_found")
