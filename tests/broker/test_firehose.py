"""amq.rabbitmq.trace and amq.rabbitmq.event, with the keys and headers that RabbitMQ 3.10.8 sends."""

from __future__ import annotations

import pytest

from tests.broker.harness import World
from warren.amqp import methods
from warren.amqp.fields import plain_table, table_of
from warren.amqp.properties import Properties
from warren.broker.operate import administer
from warren.broker.rules.access import User
from warren.broker.rules.policies import OPERATOR_POLICY
from warren.broker.terms import erlang_address, erlang_argument


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


# Their headers are compared with RabbitMQ's in tests/management/test_watching.py.
EVENTS = """
    queue.created queue.deleted exchange.created exchange.deleted binding.created binding.deleted vhost.created
    vhost.updated
    vhost.deleted vhost.limits.set user.created user.tags.set user.password.changed user.limits.set user.limits.cleared
    user.deleted permission.created permission.deleted topic.permission.created topic.permission.deleted policy.set
    policy.cleared operator.policy.cleared queue.policy.updated queue.policy.cleared parameter.set parameter.cleared
    connection.created connection.closed channel.created channel.closed consumer.created consumer.deleted
    user.authentication.success user.authentication.failure alarm.set alarm.cleared
"""


def happen(world: World) -> None:
    node = world.node
    node.add_vhost("v", "a vhost", ["one"])
    administer.put_user(node, User("u", "first-secret", "plain", ["management"]))
    administer.put_user(node, User("u", "second-secret", "plain", ["management"]))
    administer.set_permission(node, "u", "v", ".*", ".*", ".*")
    administer.set_topic_permission(node, "u", "v", "amq.topic", ".*", ".*")
    administer.set_user_limits(node, "u", {"max-channels": 5})
    administer.set_user_limits(node, "u", {})
    administer.update_vhost(node, "v", "changed", [], None)
    administer.set_vhost_limits(node, "v", {"max-queues": 5})
    node.vhosts["v"].add_queue("of-v", True, False, {})
    administer.set_policy(node, "v", "o", ".*", {"max-length": 1}, 0, "queues", OPERATOR_POLICY)
    administer.delete_policy(node, "v", "o", OPERATOR_POLICY)
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
    assert set(EVENTS.split()) <= set(events)


def test_no_event_tells_a_secret(events: dict[str, dict[str, object]]) -> None:
    assert "-secret" not in str(events)
    assert "wrong" not in str(events)


def test_an_event_names_who_did_it(world: World) -> None:
    world.add_user("worker")
    listener = world.channel()
    listener.declare("events", durable=True)
    listener.bind("events", "amq.rabbitmq.event", "queue.*")
    client = world.connect("worker")
    channel = client.channel()
    channel.declare("asked")
    channel.declare("idle", x_expires=1000)
    channel.declare("own", exclusive=True)
    channel.call(methods.QueueDelete(queue="asked"), methods.QueueDeleteOk)
    world.advance(2000)
    client.lose()
    told = [(key, headers["name"], headers["user_who_performed_action"]) for key, headers, _ in heard(world, "events")]
    assert told[-3:] == [
        ("queue.deleted", "asked", "worker"),
        ("queue.deleted", "idle", "rmq-internal"),
        ("queue.deleted", "own", "rmq-internal"),
    ]


@pytest.mark.parametrize(
    ("address", "term"),
    [
        ("127.0.0.1", "{127,0,0,1}"),
        ("::1", "{0,0,0,0,0,0,0,1}"),
        ("fe80::a:b", "{65152,0,0,0,0,0,10,11}"),
        ("1:2:3:4:5:6:7:8", "{1,2,3,4,5,6,7,8}"),
        ("unknown", "unknown"),
    ],
)
def test_addresses_are_told_as_erlang_writes_them(address: str, term: str) -> None:
    assert erlang_address(address) == term


def test_tables_are_told_as_erlang_writes_them() -> None:
    table = table_of({"a": {"b": [True, 1, "x"]}})
    term = '{<<"a">>,table,[{<<"b">>,array,[{bool,true},{signedint,1},{longstr,<<"x">>}]}]}'
    assert erlang_argument("a", table["a"]) == term


@pytest.mark.parametrize("depth", [13, 14, 15, 16])
def test_headers_that_are_nested_deep_harm_nobody_while_they_are_traced(world: World, depth: int) -> None:
    traced(world)
    channel = world.channel()
    channel.declare("w")
    nested: dict[str, object] = {"bottom": 1}
    for _ in range(depth - 1):
        nested = {"a": nested}
    channel.publish("hello", "w", properties=Properties(headers=table_of(nested)))
    assert channel.got("w").body == b"hello"
    told = [headers["properties"] for _, headers, _ in heard(world, "firehose")]
    assert told == [{"headers": nested if depth <= 14 else "nested too deep"}] * 2
