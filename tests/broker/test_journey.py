"""The journey of a message: what is noted at each stage, for which publishes, and that watching changes nothing."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.journey import Journey
from warren.broker.rehearsal import rehearse


def asked(**headers: object) -> Properties:
    return Properties(headers=table_of({"x-warren-trace": True, **headers}), delivery_mode=2)


def only_journey(world: World) -> Journey:
    (journey,) = world.node.journeys.kept
    return journey


def texts(journey: Journey, stage: str) -> list[str]:
    return [each.text for each in journey.stages if each.name == stage]


def topology(channel: ChannelClient) -> None:
    channel.declare_exchange("events", "topic")
    channel.declare_exchange("all", "fanout")
    channel.declare("orders", durable=True)
    channel.declare("audit")
    channel.declare("other")
    channel.bind("orders", "events", "order.*")
    channel.bind("other", "events", "invoice.*")
    channel.bind("audit", "all")
    channel.call(methods.ExchangeBind(destination="all", source="events", routing_key="#"), methods.ExchangeBindOk)


def test_a_journey_tells_every_stage(world: World) -> None:
    channel = world.channel()
    topology(channel)
    channel.confirm()
    channel.publish("body", "order.new", "events", properties=asked())
    journey = only_journey(world)
    assert [stage.name for stage in journey.stages] == [
        "reader", "interceptor", "size", "permission", "exchange", "properties", "route", "queue", "queue", "store",
        "confirm",
    ]  # fmt: skip
    assert (journey.exchange, journey.routing_key, journey.outcome) == ("events", "order.new", "routed")
    assert sorted(journey.queues) == ["audit", "orders"]
    route = next(stage for stage in journey.stages if stage.name == "route")
    first, second = route.steps
    assert {(match.binding.destination.name, match.why) for match in first.matches} == {
        ("orders", "pattern 'order.*' matches 'order.new'"),
        ("all", "pattern '#' matches 'order.new'"),
    }
    assert [match.why for match in first.misses] == ["pattern 'invoice.*' does not match 'order.new'"]
    assert (second.exchange, [match.binding.destination.name for match in second.matches]) == ("all", ["audit"])


@pytest.mark.parametrize(
    ("mandatory", "outcome", "text"),
    [(False, "dropped", "no queue, and not mandatory: dropped"), (True, "returned", "basic.return, 312 NO_ROUTE")],
)
def test_a_journey_to_no_queue_ends_so(world: World, mandatory: bool, outcome: str, text: str) -> None:
    channel = world.channel()
    channel.publish("m", "nowhere", "", mandatory, asked())
    assert (only_journey(world).outcome, texts(only_journey(world), "answer")) == (outcome, [text])


def test_a_journey_tells_what_each_queue_did(world: World) -> None:
    channel = world.channel()
    channel.confirm()
    channel.declare("full", x_max_length=0, x_overflow="reject-publish")
    channel.declare("short", x_max_length=1)
    channel.declare("eager")
    world.channel().consume("eager")
    for name in ("full", "short", "eager"):
        channel.bind(name, "amq.fanout")
    channel.publish("first", "", "amq.fanout")
    channel.publish("second", "", "amq.fanout", properties=asked())
    journey = only_journey(world)
    assert texts(journey, "queue") == [
        "'full' is full (max-length 0, max-length-bytes -1) and refused it (reject-publish)",
        "'short' took it as number 2, and dropped its head: it may hold no more",
        "'eager' handed it straight to a consumer",
    ]
    assert (journey.outcome, texts(journey, "confirm")) == ("refused", ["basic.nack for number 2"])


def test_a_refusal_ends_the_journey_where_it_happened(world: World) -> None:
    channel = world.channel()
    world.node.journeys.want(1, None)
    channel.publish("m", "k", "missing")
    channel.expect(methods.ChannelClose)
    journey = only_journey(world)
    assert journey.outcome == "refused"
    assert texts(journey, "refused") == ["404 NOT_FOUND: no exchange 'missing' in vhost '/'"]


def test_a_confirm_that_waits_for_the_disk_is_told_when_it_comes(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.confirm()
    world.store.holds = True
    channel.publish("m", "q", properties=asked())
    journey = only_journey(world)
    assert journey.outcome == "waits for the disk"
    world.sync()
    assert journey.outcome == "routed"
    assert texts(journey, "confirm")[0].endswith("acknowledged")


def test_one_in_so_many_is_sampled(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.journeys.sample(3)
    for _ in range(10):
        channel.publish("m", "q")
    assert len(world.node.journeys.kept) == 3
    world.node.journeys.sample(0)
    assert not world.node.is_watched


def test_the_next_ones_of_an_exchange_are_waited_for(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.journeys.want(2, "amq.direct")
    for exchange in ("", "amq.direct", "", "amq.direct", "amq.direct"):
        channel.publish("m", "q", exchange)
    assert [journey.exchange for journey in world.node.journeys.kept] == ["amq.direct", "amq.direct"]
    assert not world.node.is_watched


def test_only_the_latest_are_kept(world: World) -> None:
    channel = world.channel()
    world.node.journeys.sample(1)
    for _ in range(600):
        channel.publish("m", "nowhere")
    assert len(world.node.journeys.kept) == 500
    assert world.node.journeys.kept[-1].number == 600


def test_watched_and_unwatched_publishes_do_the_same(world: World) -> None:
    """The same messages twice: with every stage noted, and on the short way."""
    results = []
    for sampled in (0, 1):
        own = World()
        own.node.journeys.sample(sampled)
        channel = own.channel()
        topology(channel)
        channel.confirm()
        for number in range(20):
            properties = Properties(
                delivery_mode=number % 3 or None, expiration="1000" if number % 4 == 0 else None, priority=number % 5
            )
            key = ("order.new", "invoice.x", "nothing", "")[number % 4]
            channel.publish(str(number), key, ("events", "", "all")[number % 3], number % 2 == 0, properties)
        heard = [(type(each.method), each.body, str(each.method)) for each in channel.take()]
        counters = [own.queue(name).counters.published for name in ("orders", "audit", "other")]
        left = [(name, channel.bodies_in(name)) for name in ("orders", "audit", "other")]
        totals = (own.node.counters.routed, own.node.counters.returned, own.node.counters.dropped)
        results.append((heard, counters, left, totals))
    assert results[0] == results[1]


def test_a_rehearsal_publishes_nothing(world: World) -> None:
    channel = world.channel()
    topology(channel)
    journey = rehearse(world.vhost, "guest", "events", "order.new", {})
    assert sorted(journey.queues) == ["audit", "orders"]
    assert journey.outcome == "would be routed"
    assert channel.get("orders") is None
    assert len(world.node.journeys.kept) == 0
    assert rehearse(world.vhost, "guest", "events", "", {}).queues == ["audit"]


def test_a_rehearsal_is_refused_as_the_publish_would_be(world: World) -> None:
    world.add_user("reader", write="")
    assert rehearse(world.vhost, "reader", "amq.topic", "k", {}).outcome == "refused"
    assert rehearse(world.vhost, "guest", "missing", "k", {}).outcome == "refused"


@pytest.mark.parametrize(
    ("type", "key", "arguments", "why"),
    [
        ("direct", "k", {}, "key 'k' equals 'k'"),
        ("fanout", "", {}, "a fanout exchange sends to every binding"),
        ("headers", "", {"x-match": "any", "a": 1, "b": 2}, "x-match=any of a=1, b=2: met"),
        ("x-consistent-hash", "1", {}, "chosen for this message"),
    ],
)
def test_every_type_tells_why(world: World, type: str, key: str, arguments: dict[str, object], why: str) -> None:
    channel = world.channel()
    channel.declare_exchange("x", type)
    channel.declare("q")
    bind = methods.QueueBind(queue="q", exchange="x", routing_key=key, arguments=table_of(arguments))
    channel.call(bind, methods.QueueBindOk)
    journey = rehearse(world.vhost, "guest", "x", "k", table_of({"a": 1}))
    (step,) = journey.stages[2].steps
    assert [match.why for match in step.matches] == [why]
