"""amq.rabbitmq.trace and amq.rabbitmq.event, with the keys and headers that RabbitMQ 3.10.8 sends."""

from __future__ import annotations

import pytest

from tests.broker.harness import World
from warren.amqp import methods
from warren.amqp.fields import plain_table, table_of
from warren.amqp.properties import Properties
from warren.broker import administer
from warren.broker.access import User


def traced(world: World) -> None:
    channel = world.channel()
    channel.declare("firehose")
    channel.bind("firehose", "amq.rabbitmq.trace", "#")
    administer.set_tracing(world.node, "/", True)


def heard(world: World, queue: str) -> list[tuple[str, dict[str, object], bytes]]:
    administer.set_tracing(world.node, "/", False)
    channel = world.channel()
    found = []
    while (seen := channel.get(queue, no_ack=True)) is not None:
        found.append((seen.routing_key, plain_table(seen.received.properties.headers or {}), seen.body))
    return found


def test_publishes_and_deliveries_are_copied_with_rabbitmqs_headers(world: World) -> None:
    traced(world)
    channel = world.channel()
    channel.declare("w")
    channel.publish("hello", "w", properties=Properties(headers=table_of({"a": 1}), message_id="m", delivery_mode=2))
    assert channel.got("w").body == b"hello"
    (published, delivered) = heard(world, "firehose")
    shared = {
        "exchange_name": "",
        "routing_keys": ["w"],
        "properties": {"message_id": "m", "headers": {"a": 1}, "delivery_mode": 2},
        "node": "warren@localhost",
        "vhost": "/",
        "connection": channel.client.connection.name,
        "channel": 1,
        "user": "guest",
    }
    assert published == ("publish.", {**shared, "routed_queues": ["w"]}, b"hello")
    assert delivered == ("deliver.w", {**shared, "redelivered": 0}, b"hello")


def test_what_consumers_get_is_traced_too(world: World) -> None:
    traced(world)
    channel = world.channel()
    channel.declare("w")
    channel.consume("w")
    channel.publish("m", "w")
    (seen,) = channel.deliveries()
    channel.nack(seen.tag)
    channel.deliveries()
    facts = [(key, headers.get("redelivered")) for key, headers, _ in heard(world, "firehose")]
    assert facts == [("publish.", None), ("deliver.w", 0), ("deliver.w", 1)]


def test_what_was_traced_is_not_traced_again(world: World) -> None:
    traced(world)
    channel = world.channel()
    channel.consume("firehose", no_ack=True)
    channel.publish("m", "nowhere", "amq.topic")
    assert [seen.routing_key for seen in channel.deliveries()] == ["publish.amq.topic"]


def test_an_exchange_with_the_longest_name_fits_into_a_key(world: World) -> None:
    traced(world)
    channel = world.channel()
    channel.declare_exchange("x" * 255, "fanout")
    channel.publish("m", "", "x" * 255)
    ((key, headers, _),) = heard(world, "firehose")
    assert len(key) == 255
    assert headers["exchange_name"] == "x" * 255


def test_other_vhosts_are_not_traced(world: World) -> None:
    traced(world)
    world.node.add_vhost("quiet")
    world.node.access.set_permission("guest", "quiet", ".*", ".*", ".*")
    world.connect(vhost="quiet").channel().publish("m", "k", "amq.direct")
    assert heard(world, "firehose") == []


def test_clients_cannot_publish_events_of_their_own(world: World) -> None:
    channel = world.channel()
    channel.publish("m", "queue.created", "amq.rabbitmq.event")
    assert channel.expect(methods.ChannelClose).reply_code == 403


# As the plug-in of RabbitMQ 3.10.8 sends them, less pids and who performed the action.
EVENTS = {
    "queue.created": {"name", "vhost", "durable", "auto_delete", "exclusive", "owner_pid", "arguments"},
    "queue.deleted": {"name", "vhost"},
    "exchange.created": {"name", "vhost", "type", "durable", "auto_delete", "internal", "arguments", "policy"},
    "exchange.deleted": {"name", "vhost"},
    "binding.created": {
        "source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments", "vhost",
    },
    "binding.deleted": {
        "source_name", "source_kind", "destination_name", "destination_kind", "routing_key", "arguments", "vhost",
    },
    "vhost.created": {"name", "description", "tags"},
    "vhost.deleted": {"name"},
    "user.created": {"name"},
    "user.tags.set": {"name", "tags"},
    "user.password.changed": {"name"},
    "user.deleted": {"name"},
    "permission.created": {"user", "vhost", "configure", "write", "read"},
    "permission.deleted": {"user", "vhost"},
    "topic.permission.created": {"user", "vhost", "exchange", "write", "read"},
    "topic.permission.deleted": {"user", "vhost", "exchange"},
    "policy.set": {"vhost", "name", "pattern", "apply-to", "definition", "priority"},
    "policy.cleared": {"vhost", "name"},
    "parameter.set": {"component", "name", "value"},
    "parameter.cleared": {"component", "name"},
    "connection.created": {
        "name", "node", "client_properties", "vhost", "user", "protocol", "auth_mechanism", "ssl", "host", "port",
        "peer_host", "peer_port", "channel_max", "frame_max", "timeout", "connected_at", "type",
    },
    "connection.closed": {"name", "node", "client_properties"},
    "channel.created": {"name", "connection", "number", "user", "vhost"},
    "channel.closed": {"name", "connection"},
    "consumer.created": {
        "consumer_tag", "queue", "vhost", "channel", "ack_required", "exclusive", "prefetch_count", "arguments",
    },
    "consumer.deleted": {"consumer_tag", "queue", "vhost", "channel"},
    "user.authentication.success": {
        "name", "connection_name", "connection_type", "protocol", "auth_mechanism", "ssl", "host", "peer_host",
        "peer_port",
    },
    "user.authentication.failure": {
        "name", "connection_name", "connection_type", "protocol", "auth_mechanism", "ssl", "host", "peer_host",
        "peer_port", "error",
    },
    "alarm.set": {"source", "node"},
    "alarm.cleared": {"source", "node"},
}  # fmt: skip


def happen(world: World) -> None:
    node = world.node
    node.add_vhost("v", "a vhost", ["one"])
    administer.put_user(node, User("u", "hash", "plain", ["management"]))
    administer.put_user(node, User("u", "other", "plain", ["management"]))
    administer.set_permission(node, "u", "v", ".*", ".*", ".*")
    administer.set_topic_permission(node, "u", "v", "amq.topic", ".*", ".*")
    administer.clear_topic_permissions(node, "u", "v")
    administer.clear_permission(node, "u", "v")
    administer.delete_user(node, "u")
    administer.set_policy(node, "v", "p", ".*", {"max-length": 1}, 0, "all")
    administer.delete_policy(node, "v", "p")
    administer.set_global_parameter(node, "motto", {"a": [1, None]})
    administer.clear_global_parameter(node, "motto")
    administer.delete_vhost(node, "v")
    client = world.connect()
    channel = client.channel()
    channel.declare_exchange("x", "fanout")
    channel.declare("q", x_max_length=5)
    channel.bind("q", "x")
    channel.cancel(channel.consume("q"))
    channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    channel.call(methods.ExchangeDelete(exchange="x"), methods.ExchangeDeleteOk)
    channel.close()
    client.lose()
    world.dial().log_in("guest", "wrong")
    node.set_alarm("memory", True)
    node.set_alarm("memory", False)
    world.flush()


@pytest.fixture
def events(world: World) -> dict[str, dict[str, object]]:
    world.channel().declare("events", durable=True)
    world.channel().bind("events", "amq.rabbitmq.event", "#")
    happen(world)
    return {key: headers for key, headers, _ in heard(world, "events")}


def test_everything_that_happens_is_told(events: dict[str, dict[str, object]]) -> None:
    assert set(EVENTS) <= set(events)


@pytest.mark.parametrize("key", sorted(EVENTS))
def test_an_event_has_the_headers_of_rabbitmqs(key: str, events: dict[str, dict[str, object]]) -> None:
    found = set(events[key]) - {"timestamp_in_ms"}
    # A parameter of a vhost names it too.
    assert found - {"vhost"} == EVENTS[key] - {"vhost"}


def test_no_event_tells_a_secret(events: dict[str, dict[str, object]]) -> None:
    assert "hash" not in str(events)
    assert "wrong" not in str(events)
