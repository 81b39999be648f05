"""/api/traces: journeys asked for, listed and shown, and rehearsals."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel as Channel

from tests.management.asking import Asking
from warren import Broker


@pytest.fixture(autouse=True)
def clean(api: Asking) -> Iterator[None]:
    yield
    api.put("/api/traces/settings", {"sample_every": 0, "next": 0})
    api.delete("/api/traces")


def test_the_next_publish_is_traced(api: Asking, channel: Channel) -> None:
    channel.queue_declare("q")
    settings = api.put("/api/traces/settings", {"next": 1}).json
    assert settings == {"sample_every": 0, "next": 1, "exchange": None}
    channel.basic_publish("", "q", b"body", pika.BasicProperties(message_id="m1"))
    channel.basic_publish("", "q", b"body")
    (journey,) = api.get("/api/traces").json
    assert (journey["message_id"], journey["queues"], journey["outcome"]) == ("m1", ["q"], "routed")
    times = [stage["microseconds"] for stage in journey["stages"]]
    assert times == sorted(times)
    assert times[-1] > 0
    assert api.get(f"/api/traces/{journey['id']}").json == journey
    assert api.get("/api/traces/settings").json["next"] == 0


def test_a_header_asks_for_it_too(api: Asking, channel: Channel) -> None:
    channel.basic_publish("amq.topic", "a.b", b"", pika.BasicProperties(headers={"x-warren-trace": True}))
    (journey,) = api.get("/api/traces").json
    assert journey["outcome"] == "dropped"


def test_a_rehearsal_answers_where_it_would_go(api: Asking, channel: Channel) -> None:
    channel.queue_declare("rehearsed")
    channel.queue_bind("rehearsed", "amq.headers", "", {"x-match": "all", "kind": "big"})
    body = {"exchange": "amq.headers", "headers": {"kind": "big"}}
    journey = api.post("/api/traces/dry-run", body).json
    assert journey["queues"] == ["rehearsed"]
    route = next(stage for stage in journey["stages"] if stage["stage"] == "route")
    assert route["steps"][0]["matched"][0]["why"] == "x-match=all of kind=big: met"
    assert api.post("/api/traces/dry-run", {**body, "headers": {"kind": "small"}}).json["queues"] == []
    assert api.get("/api/queues/%2F/rehearsed").json["messages"] == 0


@pytest.mark.parametrize("body", [{"exchange": 5}, {"headers": []}, {"vhost": None}])
def test_a_rehearsal_of_nonsense_is_refused(api: Asking, body: dict[str, object]) -> None:
    assert api.post("/api/traces/dry-run", body).status == 400


@pytest.mark.parametrize("body", [{"next": -1}, {"sample_every": "x"}, {"next": 1, "exchange": 1}, {"next": 10**6}])
def test_settings_that_make_no_sense_are_refused(api: Asking, body: dict[str, object]) -> None:
    assert api.put("/api/traces/settings", body).status == 400


@pytest.mark.parametrize("number", ["0", "x", "99999999999999999999"])
def test_a_journey_that_is_not_there_is_not_found(api: Asking, number: str) -> None:
    assert api.get(f"/api/traces/{number}").status == 404


def test_journeys_are_for_monitors(broker: Broker) -> None:
    broker.add_user("clerk", "secret", ["management"])
    broker.set_permission("clerk")
    asking = Asking(broker, "clerk:secret")
    assert asking.get("/api/traces").status == 401
    assert asking.post("/api/traces/dry-run", {"exchange": "amq.topic"}).status == 200


def test_the_firehose_is_turned_on_with_the_vhost(api: Asking, channel: Channel) -> None:
    channel.queue_declare("seen")
    channel.queue_bind("seen", "amq.rabbitmq.trace", "publish.#")
    api.put("/api/vhosts/%2F", {"tracing": True})
    assert api.get("/api/vhosts/%2F").json["tracing"] is True
    channel.basic_publish("amq.topic", "k", b"copied")
    api.put("/api/vhosts/%2F", {"tracing": False})
    channel.basic_publish("amq.topic", "k", b"not copied")
    assert [channel.basic_get("seen", auto_ack=True)[2] for _ in range(2)] == [b"copied", None]
