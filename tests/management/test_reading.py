"""What the API shows of queues, exchanges, bindings, connections, channels and consumers."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker

from tests.management.asking import Asking
from warren import Broker

MISSING = {"error": "Object Not Found", "reason": "Not Found"}


def test_a_queue_is_shown_as_it_is_now(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 10})
    for _ in range(3):
        channel.basic_publish("", "q", b"four")
    channel.basic_get("q")
    shown = api.get("/api/queues/%2F/q").json
    assert (shown["name"], shown["vhost"], shown["durable"], shown["type"]) == ("q", "/", True, "classic")
    assert shown["arguments"] == {"x-max-length": 10}
    assert (shown["messages"], shown["messages_ready"], shown["messages_unacknowledged"]) == (3, 2, 1)
    assert (shown["message_bytes"], shown["message_bytes_ready"]) == (12, 8)
    assert (shown["message_stats"]["publish"], shown["message_stats"]["get"]) == (3, 1)
    assert shown["messages_details"] == {"rate": 0.0}


def test_queues_are_listed_for_all_and_for_one_virtual_host(broker: Broker, api: Asking) -> None:
    broker.add_vhost("a/b")
    broker.call(lambda node: node.vhosts["a/b"].add_queue("far", True, False, {}))
    assert "far" in [queue["name"] for queue in api.get("/api/queues").json]
    assert [queue["name"] for queue in api.get("/api/queues/a%2Fb").json] == ["far"]
    assert "far" not in [queue["name"] for queue in api.get("/api/queues/%2F").json]


def test_names_may_hold_anything(broker: Broker, api: Asking) -> None:
    for name, path in [("a/b", "a%2Fb"), ("ä ?#", "%C3%A4%20%3F%23"), ("%2F", "%252F"), ("a+b", "a+b")]:
        add_queue(broker, name)
        assert api.get(f"/api/queues/%2F/{path}").json["name"] == name


def add_queue(broker: Broker, name: str) -> None:
    broker.call(lambda node: node.vhosts["/"].add_queue(name, True, False, {}))


@pytest.mark.parametrize(
    "path",
    [
        "/api/queues/%2F/nope", "/api/queues/nope", "/api/queues/nope/q", "/api/exchanges/%2F/nope", "/api/nope",
        "/api/connections/nope", "/api/channels/nope", "/api/users/nope", "/api/vhosts/nope", "/api/nodes/nope",
        "/api/permissions/%2F/nope", "/api/policies/%2F/nope", "/api/bindings/%2F/x/y", "/nope", "/api",
    ],
)  # fmt: skip
def test_what_is_not_there_is_404_with_a_reason(api: Asking, path: str) -> None:
    answer = api.get(path)
    assert (answer.status, answer.json) == (404, MISSING)


def test_a_method_that_a_path_does_not_have_is_405(api: Asking) -> None:
    answer = api.post("/api/overview")
    assert (answer.status, set(answer.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


def test_exchanges_are_shown(api: Asking, channel: BlockingChannel) -> None:
    channel.exchange_declare("x", "topic", durable=True, arguments={"alternate-exchange": "y"})
    shown = api.get("/api/exchanges/%2F/x").json
    assert (shown["name"], shown["type"], shown["durable"], shown["internal"]) == ("x", "topic", True, False)
    assert shown["arguments"] == {"alternate-exchange": "y"}
    names = [exchange["name"] for exchange in api.get("/api/exchanges/%2F").json]
    assert {"", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic", "x"} <= set(names)
    assert api.get("/api/exchanges/%2F/amq.default").json["name"] == ""


def test_bindings_are_shown_with_their_key(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("bound")
    channel.exchange_declare("source", "topic")
    channel.queue_bind("bound", "source", "a.*")
    channel.queue_bind("bound", "source", "a b", arguments={"x": 1})
    shown = api.get("/api/bindings/%2F/e/source/q/bound").json
    assert [(each["routing_key"], each["arguments"]) for each in shown] == [("a.*", {}), ("a b", {"x": 1})]
    assert shown[0]["properties_key"] == "a.%2A"
    assert shown[1]["properties_key"].startswith("a+b~")
    assert api.get("/api/queues/%2F/bound/bindings").json[0]["source"] == ""
    assert len(api.get("/api/exchanges/%2F/source/bindings/source").json) == 2
    assert "bound" in [each["destination"] for each in api.get("/api/bindings").json]


def test_connections_are_shown(api: Asking, connection: pika.BlockingConnection) -> None:
    (shown,) = api.get("/api/connections").json
    assert (shown["user"], shown["vhost"], shown["state"], shown["protocol"]) == ("guest", "/", "running", "AMQP 0-9-1")
    assert shown["client_properties"]["product"] == "Pika Python Client Library"
    assert shown["recv_oct"] > 0
    assert api.get(f"/api/connections/{shown['name'].replace(' ', '%20')}").json["name"] == shown["name"]


def test_channels_and_consumers_are_shown(api: Asking, channel: BlockingChannel) -> None:
    channel.queue_declare("consumed")
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("consumed", lambda *_: None, consumer_tag="tag")
    (shown,) = api.get("/api/channels").json
    assert (shown["number"], shown["confirm"], shown["consumer_count"], shown["prefetch_count"]) == (1, True, 1, 7)
    (consumer,) = api.get("/api/consumers").json
    assert (consumer["consumer_tag"], consumer["queue"]["name"], consumer["prefetch_count"]) == ("tag", "consumed", 7)
    assert consumer["channel_details"]["name"] == shown["name"]
    (details,) = api.get("/api/queues/%2F/consumed").json["consumer_details"]
    assert details["consumer_tag"] == "tag"


def test_an_administrator_closes_a_connection(broker: Broker, api: Asking) -> None:
    unlucky = pika.BlockingConnection(pika.URLParameters(broker.url))
    (shown,) = api.get("/api/connections").json
    path = f"/api/connections/{shown['name'].replace(' ', '%20')}"
    assert api.delete(path, X_Reason="tidying %s up").status == 204
    with pytest.raises(ConnectionClosedByBroker) as caught:
        unlucky.process_data_events(20)
    assert (caught.value.reply_code, caught.value.reply_text) == (320, "CONNECTION_FORCED - tidying %s up")


def test_a_user_sees_only_the_users_own_connections(broker: Broker, connection: pika.BlockingConnection) -> None:
    broker.add_user("alone", "secret", ["management"])
    broker.set_permission("alone")
    asking = Asking(broker, "alone:secret")
    assert asking.get("/api/connections").json == []
    assert asking.get("/api/channels").json == []


def test_the_overview_sums_up(api: Asking, channel: BlockingChannel) -> None:
    before = api.get("/api/overview").json
    channel.queue_declare("summed")
    channel.basic_publish("", "summed", b"")
    after = api.get("/api/overview").json
    assert after["object_totals"]["queues"] == before["object_totals"]["queues"] + 1
    assert after["queue_totals"]["messages"] == before["queue_totals"]["messages"] + 1
    assert after["message_stats"]["publish"] == before["message_stats"]["publish"] + 1
    assert after["object_totals"]["connections"] == 1
    assert {"amqp", "http"} <= {each["protocol"] for each in after["listeners"]}
    assert "direct" in [each["name"] for each in after["exchange_types"]]


def test_latency_is_measured_on_messages_that_consumers_get(broker: Broker, api: Asking) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("followed")
        channel.basic_consume("followed", lambda *_: None, auto_ack=True)
        before = api.get("/api/overview").json["delivery_latency"]["samples"]
        channel.basic_publish("", "followed", b"m")
        channel.queue_declare("followed", passive=True)
        found = api.get("/api/overview").json["delivery_latency"]
        channel.queue_delete("followed")
    assert found["samples"] == before + 1
    assert 0 < found["last_ms"] < 1000
    assert found["waiting_ms"] is None
