"""Every route that carries the bodies of messages: of large ones it says what it says of small ones, in pieces."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from urllib.parse import quote

import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from tests.faults.stalls import Watch
from tests.management.asking import Asking
from warren import Broker

SIZE = 16 * 1024 * 1024
TEXT = ('grüße, "welt" \U0001f430\n' * (SIZE // 20)).encode()[:SIZE].decode(errors="ignore").encode()
BINARY = b"\xff" + bytes(range(256)) * (SIZE // 256 - 1)
# Seconds. Machines differ, so that a turn is held against all turns of a request; tests/faults/stalls.py tells times.
LITTLE = 0.02


def fill(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    channel.queue_declare(queue)
    for body in bodies:
        channel.basic_publish("", queue, body)


def compact(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("body", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("encoding", ["auto", "base64"])
@pytest.mark.parametrize("number", [1, 2], ids=["our channel", "another"])
def test_get_gives_what_was_published_to_the_byte(
    api: Asking, channel: BlockingChannel, body: bytes, encoding: str, number: int
) -> None:
    other = channel.connection.channel()
    other.confirm_delivery()
    fill(channel if number == 1 else other, "large", body, b"small")
    asked = {"count": 2, "ackmode": "ack_requeue_false", "encoding": encoding}
    answer = api.post("/api/queues/%2F/large/get", asked)
    is_text = encoding == "auto" and body is TEXT
    small = "small" if encoding == "auto" else base64.b64encode(b"small").decode()
    told: list[dict[str, object]] = [
        {
            "payload_bytes": len(each),
            "redelivered": False,
            "exchange": "",
            "routing_key": "large",
            "message_count": left,
            "properties": {},
            "payload_encoding": "string" if is_a_text else "base64",
            "payload": shown,
        }
        for each, left, is_a_text, shown in (
            (body, 1, is_text, body.decode() if is_text else base64.b64encode(body).decode()),
            (b"small", 0, encoding == "auto", small),
        )
    ]
    assert answer.status == 200
    assert answer.text.encode() == compact(told)


@pytest.mark.parametrize("encoding", ["string", "base64"])
def test_publish_takes_as_much_as_a_request_may_have(api: Asking, channel: BlockingChannel, encoding: str) -> None:
    channel.queue_declare("published")
    body = TEXT[:4_000_000].decode(errors="ignore")
    payload = body if encoding == "string" else base64.b64encode(body.encode()).decode()
    asked = {"properties": {}, "routing_key": "published", "payload": payload, "payload_encoding": encoding}
    assert api.post("/api/exchanges/%2F/amq.default/publish", asked).json == {"routed": True}
    assert channel.basic_get("published", auto_ack=True)[2] == body.encode()


def get(api: Asking) -> None:
    asked = {"count": 3, "ackmode": "ack_requeue_true", "encoding": "auto"}
    assert len(api.post("/api/queues/%2F/heavy/get", asked).json) == 3


def publish(api: Asking) -> None:
    payload = base64.b64encode(BINARY[:6_000_000]).decode()
    asked = {"properties": {}, "routing_key": "nowhere", "payload": payload, "payload_encoding": "base64"}
    assert api.post("/api/exchanges/%2F/amq.default/publish", asked).json == {"routed": False}


def browse(api: Asking) -> None:
    messages = api.get("/api/queues/%2F/heavy/messages").json["messages"]
    assert [message["payload_bytes"] for message in messages] == [len(TEXT), len(BINARY), len(TEXT)]


def show(api: Asking) -> None:
    first = api.get("/api/queues/%2F/heavy/messages?count=1").json["messages"][0]
    assert api.get(f"/api/queues/%2F/heavy/messages/{first['sequence']}").json["payload"] == first["payload"]


def search(api: Asking) -> None:
    # It lies where two pieces of the body meet, or nowhere.
    at = 3 * 65536 - 5
    sought = TEXT[at : at + 20].decode(errors="ignore").lstrip("\ufffd")
    found = api.get(f"/api/queues/%2F/heavy/messages?body={quote(sought)}").json
    assert [message["payload_bytes"] for message in found["messages"]] == [len(TEXT), len(TEXT)]
    assert api.get("/api/queues/%2F/heavy/messages?body=nothing+like+it").json["messages"] == []


def move(api: Asking) -> None:
    moved = api.post(
        "/api/queues/%2F/heavy/move", {"queue": "heavy", "count": 1, "filter": {"body": "nothing like it"}}
    )
    assert moved.json["moved"] == 0


def scheduled(api: Asking) -> None:
    answer = api.get("/api/scheduled/%2F/late").json
    assert [message["payload_bytes"] for message in answer["messages"]] == [len(BINARY), len(BINARY)]
    assert answer["next"] is None
    assert len(api.get("/api/scheduled/%2F/late?count=1").json["messages"]) == 1


def busy(broker: Broker) -> float:
    """The seconds that its loop has computed."""
    return broker.call(lambda node: time.thread_time())


@pytest.mark.parametrize("ask", [get, publish, browse, show, search, move, scheduled])
def test_no_route_does_all_of_it_in_one_turn(
    broker: Broker, api: Asking, channel: BlockingChannel, ask: Callable[[Asking], None]
) -> None:
    channel.queue_delete("heavy")
    if ask is scheduled:
        channel.exchange_declare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        for _ in range(2):
            channel.basic_publish("late", "", BINARY, BasicProperties(headers={"x-delay": 600_000}))
    else:
        fill(channel, "heavy", TEXT, BINARY, TEXT)
    began = busy(broker)
    watch = Watch(broker)
    ask(api)
    total = busy(broker) - began
    # A get is long by itself, and goes in very many pieces. What hardly computes needs no pieces.
    assert watch.worst < total / 6 if ask is get else watch.worst < total * 3 / 4 or total < LITTLE
    channel.queue_delete("heavy")
