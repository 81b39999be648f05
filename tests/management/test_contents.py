"""Looking into queues, moving and deleting single messages, sending dead letters back, and what is scheduled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel

from tests.management.asking import Asking
from warren import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(http=True, data_dir=str(tmp_path_factory.mktemp("data"))) as running:
        yield running


@pytest.fixture(autouse=True)
def clean(api: Asking) -> Iterator[None]:
    yield
    for queue in api.get("/api/queues/%2F").json:
        api.delete(f"/api/queues/%2F/{queue['name']}")


def declare(channel: Channel, *names: str, **arguments: Any) -> None:
    for name in names:
        channel.queue_declare(
            name, durable=True, arguments={key.replace("_", "-"): arguments[key] for key in arguments}
        )


def publish(channel: Channel, key: str, body: bytes, exchange: str = "", **properties: Any) -> None:
    channel.basic_publish(exchange, key, body, pika.BasicProperties(delivery_mode=2, **properties))


def peeked(api: Asking, question: str = "", queue: str = "q") -> list[str]:
    answer = api.get(f"/api/queues/%2F/{queue}/messages{question}")
    assert answer.status == 200, answer.text
    return [message["payload"] for message in answer.json["messages"]]


# -- looking -----------------------------------------------------------------------------------------------------------


def test_a_peek_takes_nothing_and_marks_nothing(api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    publish(channel, "q", b"one", headers={"a": 1}, message_id="m1")
    publish(channel, "q", b"two")
    assert peeked(api) == peeked(api) == ["one", "two"]
    first = api.get("/api/queues/%2F/q/messages").json["messages"][0]
    assert (first["exchange"], first["routing_key"], first["redelivered"]) == ("", "q", False)
    assert first["properties"] == {"delivery_mode": 2, "message_id": "m1", "headers": {"a": 1}}
    method, _, body = channel.basic_get("q", auto_ack=True)
    assert (method.redelivered, body) == (False, b"one")


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("?header=kind", ["a", "b"]),
        ("?header=kind=big", ["b"]),
        ("?header=nothing", []),
        ("?body=c", ["c"]),
        ("?routing_key=x*", []),
        ("?routing_key=q", ["a", "b", "c"]),
        ("?older_than=3600", ["b"]),
        ("?newer_than=3600", ["a"]),
        ("?redelivered=true", []),
        ("?redelivered=false&body=a", ["a"]),
        ("?count=2", ["a", "b"]),
        ("?count=0", []),
    ],
)
def test_a_search_finds_by(api: Asking, channel: Channel, question: str, found: list[str]) -> None:
    declare(channel, "q")
    now = int(time.time())
    publish(channel, "q", b"a", headers={"kind": "small"}, timestamp=now)
    publish(channel, "q", b"b", headers={"kind": "big"}, timestamp=now - 7200)
    publish(channel, "q", b"c")
    assert peeked(api, question) == found


@pytest.mark.parametrize("question", ["?count=x", "?after=-1", "?older_than=x", "?truncate=1.5"])
def test_a_question_that_makes_no_sense_is_refused(api: Asking, channel: Channel, question: str) -> None:
    declare(channel, "q")
    assert api.get(f"/api/queues/%2F/q/messages{question}").status == 400


def test_a_long_backlog_on_disk_is_read_page_by_page(broker: Broker, api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    fill(broker, "q", 9_000)
    assert broker.call(lambda node: int(node.vhosts["/"].queues["q"].backing.paged)) > 500
    seen: list[str] = []
    after: int | None = 0
    while after is not None:
        answer = api.get(f"/api/queues/%2F/q/messages?count=500&after={after}").json
        seen += [message["payload"] for message in answer["messages"]]
        after = answer["next"]
    assert seen == [str(number) for number in range(9_000)]
    assert peeked(api, "?body=8765") == ["8765"]


def test_a_search_does_not_hold_up_the_others(broker: Broker, api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    fill(broker, "q", 20_000)
    # A search in one go would never let more than one or two through; this one may be unlucky on a busy machine.
    assert any(answered_beside_a_search(api, channel) > 3 for _ in range(10))


def answered_beside_a_search(api: Asking, channel: Channel) -> int:
    searching = threading.Thread(target=lambda: peeked(api, "?body=never"))
    searching.start()
    answered = 0
    while searching.is_alive():
        channel.queue_declare("q", passive=True)
        answered += 1
    searching.join()
    return answered


def test_who_may_not_read_may_not_peek(broker: Broker, channel: Channel) -> None:
    declare(channel, "q")
    broker.add_user("blind", "secret", ["management"])
    broker.set_permission("blind", "/", read="nothing")
    asking = Asking(broker, "blind:secret")
    for path in ("messages", "messages/1"):
        assert asking.get(f"/api/queues/%2F/q/{path}").status == 401
    assert asking.post("/api/queues/%2F/q/move", {"queue": "q"}).status == 401


def test_a_stream_can_be_looked_into_and_keeps_what_it_has(api: Asking, channel: Channel) -> None:
    declare(channel, "s", x_queue_type="stream")
    for number in range(5):
        publish(channel, "s", b"%d" % number, headers={"number": number})
    assert peeked(api, "?count=2&after=2", "s") == ["2", "3"]
    assert peeked(api, "?header=number=4", "s") == ["4"]
    for method, path in (("DELETE", "messages/1"), ("POST", "move")):
        answer = api.ask(method, f"/api/queues/%2F/s/{path}", {"queue": "s"})
        assert (answer.status, "is a stream" in answer.json["reason"]) == (400, True)


# -- deleting and moving -----------------------------------------------------------------------------------------------


def test_one_message_is_shown_and_deleted(api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    for body in (b"a", b"b", b"c"):
        publish(channel, "q", body)
    second = api.get("/api/queues/%2F/q/messages").json["messages"][1]["sequence"]
    where = f"/api/queues/%2F/q/messages/{second}"
    assert api.get(where).json["payload"] == "b"
    assert api.delete(where).status == 204
    assert api.delete(where).status == 404
    assert api.get("/api/queues/%2F/q/messages/x").status == 400
    assert peeked(api) == ["a", "c"]


def test_one_message_moves_to_another_queue(api: Asking, channel: Channel) -> None:
    declare(channel, "q", "other")
    publish(channel, "q", b"a", headers={"kept": True})
    publish(channel, "q", b"b")
    first = api.get("/api/queues/%2F/q/messages").json["messages"][0]["sequence"]
    where = f"/api/queues/%2F/q/messages/{first}/move"
    assert api.post(where, {"queue": "nowhere"}).status == 404
    assert api.post(where, {}).status == 400
    assert api.post(where, {"queue": "other"}).json == {"moved": 1, "left": 0, "next": None}
    assert api.post(where, {"queue": "other"}).status == 404
    assert (peeked(api), peeked(api, queue="other")) == (["b"], ["a"])
    assert api.get("/api/queues/%2F/other/messages").json["messages"][0]["properties"]["headers"] == {"kept": True}


def test_a_message_that_no_queue_takes_stays(api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    publish(channel, "q", b"a")
    first = api.get("/api/queues/%2F/q/messages").json["messages"][0]["sequence"]
    answer = api.post(f"/api/queues/%2F/q/messages/{first}/move", {"exchange": "amq.fanout"})
    assert (answer.status, answer.json["error"]) == (409, "not_moved")
    assert peeked(api) == ["a"]


def test_many_move_by_number_and_by_filter(api: Asking, channel: Channel) -> None:
    declare(channel, "q", "other")
    for number in range(250):
        publish(channel, "q", b"%d" % number, headers={"even": number % 2 == 0})
    answer = api.post("/api/queues/%2F/q/move", {"queue": "other", "count": 1000, "filter": {"header": "even=true"}})
    assert (answer.json["moved"], answer.json["left"]) == (125, 0)
    assert peeked(api, "?count=500", "other") == [str(number) for number in range(0, 250, 2)]
    assert api.post("/api/queues/%2F/q/move", {"queue": "other", "count": 5}).json["moved"] == 5
    assert len(peeked(api, "?count=500")) == 120


def test_a_move_into_the_same_queue_ends(api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    for number in range(10):
        publish(channel, "q", b"%d" % number)
    assert api.post("/api/queues/%2F/q/move", {"queue": "q", "count": 1000}).json["moved"] == 10
    assert peeked(api) == [str(number) for number in range(10)]


def test_a_key_that_cannot_be_sent_is_refused(api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    publish(channel, "q", b"a")
    answer = api.post("/api/queues/%2F/q/move", {"exchange": "amq.fanout", "routing_key": "k" * 256})
    assert (answer.status, answer.json["reason"]) == (400, "routing_key must have at most 255 bytes")


def test_a_move_is_refused_as_the_publish_would_be(api: Asking, channel: Channel) -> None:
    declare(channel, "q", "other")
    channel.exchange_declare("inside", "topic", internal=True)
    channel.exchange_declare("open", "topic")
    for exchange in ("inside", "open"):
        channel.queue_bind("other", exchange, "#")
    publish(channel, "q", b"a")
    permission = {"exchange": "open", "write": "^mine", "read": ".*"}
    assert api.put("/api/topic-permissions/%2F/guest", permission).status in (201, 204)
    sequence = api.get("/api/queues/%2F/q/messages").json["messages"][0]["sequence"]
    one, many = f"/api/queues/%2F/q/messages/{sequence}/move", "/api/queues/%2F/q/move"
    for where in (one, many):
        assert api.post(where, {"exchange": "inside", "routing_key": "k"}).status == 401
        assert api.post(where, {"exchange": "open", "routing_key": "yours"}).status == 401
        # With the key that it has, which is the queue's name.
        assert api.post(where, {"exchange": "open"}).status == 401
    assert (peeked(api), peeked(api, queue="other")) == (["a"], [])
    assert api.post(many, {"exchange": "open", "routing_key": "mine.too"}).json["moved"] == 1


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '"\\ud800"', '["\\udfff"]'])
def test_what_json_cannot_say_is_refused(api: Asking, value: str) -> None:
    answer = api.ask("PUT", "/api/global-parameters/odd", b'{"value": ' + value.encode() + b"}")
    assert (answer.status, answer.json["reason"]) == (400, "not_json")
    assert api.put("/api/global-parameters/odd", {"value": "\U0001f407"}).status in (201, 204)
    assert api.get("/api/definitions").status == 200


# -- dead letters ------------------------------------------------------------------------------------------------------


def died(channel: Channel) -> None:
    channel.exchange_declare("work", "fanout")
    declare(channel, "q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    declare(channel, "dead", "bystander")
    channel.queue_bind("q", "work")
    channel.queue_bind("bystander", "work")
    publish(channel, "key", b"m", "work")
    method, _, _ = channel.basic_get("q")
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.queue_purge("bystander")


def test_a_dead_letter_goes_back_to_the_queue_it_died_in(api: Asking, channel: Channel) -> None:
    died(channel)
    assert api.post("/api/queues/%2F/dead/redrive", {}).json == {"moved": 1, "left": 0, "next": None}
    assert (peeked(api), peeked(api, queue="dead"), peeked(api, queue="bystander")) == (["m"], [], [])
    headers = api.get("/api/queues/%2F/q/messages").json["messages"][0]["properties"]["headers"]
    assert headers["x-redrive-count"] == 1
    assert headers["x-death"][0]["queue"] == "q"


def test_a_dead_letter_goes_back_to_the_exchange_it_came_from(api: Asking, channel: Channel) -> None:
    died(channel)
    assert api.post("/api/queues/%2F/dead/redrive", {"to": "exchange"}).json["moved"] == 1
    assert (peeked(api), peeked(api, queue="bystander")) == (["m"], ["m"])
    assert api.get("/api/queues/%2F/q/messages").json["messages"][0]["routing_key"] == "key"


def test_what_is_no_dead_letter_or_has_no_origin_stays(api: Asking, channel: Channel) -> None:
    died(channel)
    publish(channel, "dead", b"alive")
    api.delete("/api/queues/%2F/q")
    answer = api.post("/api/queues/%2F/dead/redrive", {}).json
    assert (answer["moved"], answer["left"]) == (0, 2)
    assert peeked(api, queue="dead") == ["m", "alive"]
    assert api.post("/api/queues/%2F/dead/redrive", {"to": "moon"}).status == 400


# -- schedules ---------------------------------------------------------------------------------------------------------


def test_what_is_scheduled_is_listed_and_cancelled(broker: Broker, api: Asking, channel: Channel) -> None:
    declare(channel, "q")
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
    channel.queue_bind("q", "later")
    publish(channel, "k", b"a", "later", headers={"x-delay": 60_000})
    publish(channel, "k", b"b", "later", headers={"x-delay": 30_000})
    assert api.get("/api/scheduled").json == [{"name": "later", "vhost": "/", "messages": 2}]
    rows = api.get("/api/scheduled/%2F/later").json["messages"]
    assert [row["payload"] for row in rows] == ["a", "b"]
    assert rows[1]["due_at"] < rows[0]["due_at"]
    assert api.delete(f"/api/scheduled/%2F/later/{rows[0]['sequence']}").status == 204
    assert api.delete(f"/api/scheduled/%2F/later/{rows[0]['sequence']}").status == 404
    assert api.get("/api/scheduled/%2F/amq.direct").status == 404
    assert api.get("/api/exchanges/%2F/later").json["messages_delayed"] == 1
    broker.advance(60)
    assert peeked(api) == ["b"]
    api.delete("/api/exchanges/%2F/later")


# -- arguments in place ------------------------------------------------------------------------------------------------


def test_safe_arguments_change_in_place_and_stay_after_a_restart(tmp_path: Path) -> None:
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        api = Asking(broker)
        api.put("/api/queues/%2F/q", {"durable": True, "arguments": {"x-max-length": 10}})
        answer = api.ask("PATCH", "/api/queues/%2F/q", {"arguments": {"x-max-length": 3, "x-message-ttl": 60_000}})
        assert answer.json["differences"] == [
            {"argument": "x-max-length", "current": 10, "wanted": 3, "obstacle": ""},
            {"argument": "x-message-ttl", "current": None, "wanted": 60_000, "obstacle": ""},
        ]
        for number in range(5):
            body = {"properties": {}, "routing_key": "q", "payload": str(number), "payload_encoding": "string"}
            api.post("/api/exchanges/%2F/amq.default/publish", body)
        assert peeked(api) == ["2", "3", "4"]
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        found = Asking(broker).get("/api/queues/%2F/q").json
        assert found["arguments"] == {"x-max-length": 3, "x-message-ttl": 60_000}


def test_what_cannot_change_is_told_and_nothing_changes(api: Asking) -> None:
    api.put("/api/queues/%2F/q", {"durable": True})
    wanted = {"x-max-priority": 5, "x-max-length": 3}
    answer = api.ask("PUT", "/api/queues/%2F/q?apply=true", {"durable": True, "arguments": wanted})
    assert answer.status == 409
    assert answer.json["reason"].startswith("x-max-priority cannot change from None to 5: messages lie sorted")
    assert [row["argument"] for row in answer.json["differences"]] == ["x-max-priority"]
    assert api.get("/api/queues/%2F/q").json["arguments"] == {}


def test_a_value_that_cannot_be_is_refused_as_in_a_declaration(api: Asking) -> None:
    api.put("/api/queues/%2F/q", {})
    answer = api.ask("PATCH", "/api/queues/%2F/q", {"arguments": {"x-max-length": -1}})
    assert (answer.status, "value_negative" in answer.json["reason"]) == (400, True)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("x-archive", True, "this broker keeps nothing on disk"),
        ("x-stream-max-segment-size-bytes", 3_000_000_001, "Exceeded max value"),
        ("x-stream-filter-size-bytes", 256, "Invalid value"),
    ],
)
def test_what_no_stream_can_be_declared_with_none_can_be_given(name: str, value: object, reason: str) -> None:
    wanted = {"arguments": {"x-queue-type": "stream", name: value}}
    with Broker(http=True) as broker:
        api = Asking(broker)
        api.put("/api/queues/%2F/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        refusals = [
            api.ask("PATCH", "/api/queues/%2F/s", wanted),
            api.ask("PUT", "/api/queues/%2F/other", {"durable": True, **wanted}),
        ]
        assert api.get("/api/queues/%2F/s").json["arguments"] == {"x-queue-type": "stream"}
    assert [(answer.status, reason in answer.json["reason"]) for answer in refusals] == [(400, True), (400, True)]


def fill(broker: Broker, queue: str, count: int) -> None:
    """Many messages quickly: one client that does not wait for each."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(count):
            channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(delivery_mode=2))
        channel.queue_declare(queue, passive=True)


def test_a_story_that_a_client_made_up_does_no_harm(api: Asking, channel: Channel) -> None:
    declare(channel, "dead")
    forged = {"queue": "q" * 300, "reason": "rejected", "exchange": "", "routing-keys": ["k" * 300]}
    publish(channel, "dead", b"a", headers={"x-death": [forged], "x-first-death-queue": "q" * 300})
    for to in ("queue", "exchange"):
        answer = api.post("/api/queues/%2F/dead/redrive", {"to": to})
        assert (answer.status, answer.json["moved"], answer.json["left"]) == (200, 0, 1)
