"""The journey of a message: what is noted at each stage, for which publishes, and that watching changes nothing."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import plain_table, table_of
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.amqp.replies import frame
from warren.broker.operate import administer
from warren.broker.queue.store import Store
from warren.broker.session.channel import Channel
from warren.broker.session.interceptors import Interceptor
from warren.broker.session.tracer import Tracer
from warren.broker.watch.journey import Journey
from warren.broker.watch.rehearsal import rehearse
from warren.errors import PreconditionFailed


def asked(**headers: object) -> Properties:
    return Properties(headers=table_of({"x-warren-trace": True, **headers}), delivery_mode=2)


def only_journey(world: World) -> Journey:
    (journey,) = world.node.journeys.kept
    return journey


def texts(journey: Journey, stage: str) -> list[str]:
    return [each.text for each in journey.stages if each.name == stage]


def publish_frames(channel: ChannelClient, method: methods.BasicPublish) -> bytes:
    content = content_frames(channel.number, encode_properties(asked()), b"body", 4096)
    return frame(channel.number, method) + content


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
        "reader", "interceptor", "size", "permission", "exchange", "properties", "topic permission", "route", "queue",
        "queue", "store", "confirm",
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
        "'full' is full and refused it; at most 0 messages (reject-publish)",
        "'short' took it as number 2, and dropped its head: it may hold no more; at most 1 messages (drop-head)",
        "'eager' handed it straight to a consumer",
    ]
    assert (journey.outcome, texts(journey, "confirm")) == ("refused", ["basic.nack for number 2"])


def names(journey: Journey) -> list[str]:
    return [stage.name for stage in journey.stages]


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize(
    ("user", "exchange", "passed", "refusal"),
    [
        ("guest", "missing", ["size", "permission"], "404 NOT_FOUND: no exchange 'missing' in vhost '/'"),
        ("reader", "amq.direct", ["size"], "403 ACCESS_REFUSED: "),
        ("guest", "inside", ["size", "permission"], "403 ACCESS_REFUSED: cannot publish to internal exchange 'inside'"),
    ],
)
def test_a_refusal_ends_the_journey_where_it_happened(
    world: World, is_asked: bool, user: str, exchange: str, passed: list[str], refusal: str
) -> None:
    world.channel().declare_exchange("inside", "direct", internal=True)
    world.add_user("reader", write="")
    world.node.journeys.want(0 if is_asked else 1, None)
    channel = world.connect(user).channel()
    channel.publish("m", "k", exchange, properties=asked() if is_asked else None)
    channel.expect(methods.ChannelClose)
    journey = only_journey(world)
    assert (journey.outcome, journey.exchange, journey.routing_key) == ("refused", exchange, "k")
    assert names(journey) == ["reader", "interceptor", *passed, "refused"]
    assert texts(journey, "refused")[0].startswith(refusal)


def test_late_refusals_are_told_after_what_held(world: World) -> None:
    channel = world.channel()
    properties = asked()
    properties.user_id = "somebody"
    channel.publish("m", "k", "amq.topic", properties=properties)
    channel.expect(methods.ChannelClose)
    assert names(only_journey(world))[-3:] == ["properties", "topic permission", "refused"]
    assert texts(only_journey(world), "refused")[0].startswith("406 PRECONDITION_FAILED: user_id property")


def test_a_message_that_is_too_large_and_one_that_closes_the_connection_have_journeys(world: World) -> None:
    world.node.settings.max_message_size = 4
    channel = world.channel()
    channel.publish("too large", "k", properties=asked())
    channel.expect(methods.ChannelClose)
    assert names(only_journey(world)) == ["reader", "interceptor", "refused"]
    world.node.journeys.kept.clear()
    channel = world.channel()
    channel.client.feed(publish_frames(channel, methods.BasicPublish(routing_key="k", immediate=True)))
    assert texts(only_journey(world), "refused") == ["540 NOT_IMPLEMENTED: immediate=true"]


def test_a_refused_publish_that_did_not_ask_leaves_no_journey(world: World) -> None:
    channel = world.channel()
    channel.publish("m", "k", "missing", properties=Properties(headers=table_of({"a": 1})))
    channel.expect(methods.ChannelClose)
    assert not world.node.journeys.kept


class Gate(Interceptor):
    """Refuses bodies that say so, and asks for the journey of others."""

    def applies_to(self) -> list[str]:
        return ["basic.publish"]

    def intercept_content(self, channel: Channel, properties: bytes, body: bytes) -> tuple[bytes, bytes]:
        if body == b"refuse":
            raise PreconditionFailed("not here")
        if body == b"trace":
            return encode_properties(asked()), body
        return properties, body + b"!"


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_journey_begins_before_the_interceptor(world: World, is_asked: bool) -> None:
    world.node.install_interceptor(Gate())
    world.node.journeys.want(0 if is_asked else 2, None)
    channel = world.channel()
    properties = asked() if is_asked else None
    channel.publish("m", "nowhere", properties=properties)
    channel.publish("refuse", "nowhere", properties=properties)
    channel.expect(methods.ChannelClose)
    first, second = world.node.journeys.kept
    assert texts(first, "interceptor") == ["Gate let it pass with a body of 2 bytes"]
    assert (names(first)[:3], first.outcome) == (["reader", "interceptor", "size"], "dropped")
    assert (names(second), second.outcome) == (["reader", "refused"], "refused")


def test_an_interceptor_may_ask_for_the_journey(world: World) -> None:
    world.node.install_interceptor(Gate())
    channel = world.channel()
    channel.publish("other", "nowhere")
    channel.publish("trace", "nowhere")
    assert texts(only_journey(world), "interceptor") == ["Gate asked for the journey"]


def test_times_count_from_the_read_that_brought_the_first_frame(world: World) -> None:
    channel = world.channel()
    for name in ("a", "b"):
        channel.declare(name)
        channel.bind(name, "amq.fanout")
    world.host.arrived, world.host.nanoseconds = 1_000, 5_000
    channel.publish("m", "", "amq.fanout", properties=asked())
    journey = only_journey(world)
    times = [int(stage.nanoseconds) for stage in journey.stages]
    assert times[0] == 4_001
    # Each stage is timed for itself, every queue too.
    assert times == sorted(set(times))
    assert "more than one read" not in texts(journey, "reader")[0]


def test_a_body_that_comes_late_is_the_reader_s_time(world: World) -> None:
    channel = world.channel()
    frames = publish_frames(channel, methods.BasicPublish(routing_key="nowhere"))
    world.host.arrived = 1_000
    channel.client.feed(frames[:-3])
    world.host.arrived = world.host.nanoseconds = 9_000
    channel.client.feed(frames[-3:])
    journey = only_journey(world)
    assert journey.stages[0].nanoseconds == 8_001
    assert texts(journey, "reader")[0].endswith("in more than one read")


@pytest.mark.parametrize(
    ("end", "outcome", "last"),
    [
        (methods.TxCommit(), "routed", "confirm"),
        (methods.TxRollback(), "rolled back", "transaction"),
        (methods.ChannelClose(), "never committed", "transaction"),
    ],
)
def test_a_journey_in_a_transaction_ends_with_it(world: World, end: methods.Method, outcome: str, last: str) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.call(methods.TxSelect(), methods.TxSelectOk)
    channel.publish("m", "q", properties=asked())
    journey = only_journey(world)
    assert journey.outcome == "in a transaction"
    channel.send(end)
    assert (journey.outcome, names(journey)[-1]) == (outcome, last)


def test_a_message_held_back_is_scheduled_not_dropped(world: World) -> None:
    channel = world.channel()
    arguments = table_of({"x-delayed-type": "direct"})
    channel.call(
        methods.ExchangeDeclare(exchange="later", type="x-delayed-message", arguments=arguments),
        methods.ExchangeDeclareOk,
    )
    channel.publish("m", "k", "later", properties=asked(**{"x-delay": 1000}))
    journey = only_journey(world)
    assert (journey.outcome, journey.queues) == ("scheduled", [])
    assert texts(journey, "queue") == ["it waits in the schedule of exchange 'later', as number 1"]


class Routes(Tracer):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[list[str]] = []

    def routed(self, queues: list[str]) -> None:
        self.told.append(queues)


def test_nobody_takes_a_schedule_for_a_queue(world: World) -> None:
    tracer = Routes()
    world.node.install_tracer(tracer)
    administer.set_tracing(world.node, "/", True)
    channel = world.channel()
    channel.declare("firehose")
    channel.bind("firehose", "amq.rabbitmq.trace", "publish.later")
    arguments = table_of({"x-delayed-type": "direct"})
    channel.call(
        methods.ExchangeDeclare(exchange="later", type="x-delayed-message", arguments=arguments),
        methods.ExchangeDeclareOk,
    )
    held_back = Properties(headers=table_of({"x-delay": 1000}))
    channel.publish("m", "k", "later", properties=held_back)
    assert tracer.told == [[]]
    assert plain_table(channel.got("firehose").received.properties.headers or {})["routed_queues"] == []
    journey = rehearse(world.node.watch, world.vhost, "guest", "later", "k", held_back)
    assert (journey.outcome, journey.queues) == ("would be scheduled", [])
    assert texts(journey, "queue") == ["it would wait in the schedule of exchange 'later', with 1 others"]


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


def test_one_that_asks_is_traced_whatever_else_is_watched(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    world.node.journeys.sample(1000)
    channel.publish("m", "q")
    channel.publish("m", "q", properties=asked())
    assert only_journey(world).outcome == "routed"


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
    journey = rehearse(world.node.watch, world.vhost, "guest", "events", "order.new", Properties())
    assert sorted(journey.queues) == ["audit", "orders"]
    assert journey.outcome == "would be routed"
    assert channel.get("orders") is None
    assert len(world.node.journeys.kept) == 0
    assert rehearse(world.node.watch, world.vhost, "guest", "events", "", Properties()).queues == ["audit"]


def test_a_rehearsal_is_refused_as_the_publish_would_be(world: World) -> None:
    world.add_user("reader", write="")
    assert rehearse(world.node.watch, world.vhost, "reader", "amq.topic", "k", Properties()).outcome == "refused"
    assert rehearse(world.node.watch, world.vhost, "guest", "missing", "k", Properties()).outcome == "refused"


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
    journey = rehearse(world.node.watch, world.vhost, "guest", "x", "k", Properties(headers=table_of({"a": 1})))
    (step,) = next(stage for stage in journey.stages if stage.name == "route").steps
    assert [match.why for match in step.matches] == [why]


def test_what_is_durable_is_told_where_it_is(world: World) -> None:
    channel = world.channel()
    channel.declare("q", durable=True)
    channel.publish("m", "q", properties=asked())
    assert texts(only_journey(world), "store")[0].startswith("position ")
    memory = World()
    memory.node.store = Store()
    own = memory.channel()
    own.declare("q", durable=True)
    own.publish("m", "q", properties=asked())
    assert texts(only_journey(memory), "store") == ["in memory only: this broker has no data folder"]
