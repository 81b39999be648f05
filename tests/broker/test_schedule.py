"""x-delayed-message: messages that are routed later, listed and cancelled meanwhile, and kept over a restart."""

from __future__ import annotations

from pathlib import Path

import pika
import pytest

from tests.broker.harness import World
from warren import Broker
from warren.amqp import methods
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.operate import relocate
from warren.broker.queue.schedule import Schedule, schedule_of


def declare(world: World, inner: str = "direct") -> Schedule:
    channel = world.channel()
    channel.call(
        methods.ExchangeDeclare(
            exchange="later", type="x-delayed-message", durable=True, arguments=table_of({"x-delayed-type": inner})
        ),
        methods.ExchangeDeclareOk,
    )
    channel.declare("q")
    channel.call(methods.QueueBind(queue="q", exchange="later", routing_key="k"), methods.QueueBindOk)
    schedule = schedule_of(world.vhost.exchanges["later"])
    assert schedule is not None
    return schedule


def delayed(delay: object) -> Properties:
    return Properties(headers=table_of({"x-delay": delay}))


def test_a_message_comes_when_its_delay_is_over(world: World) -> None:
    schedule = declare(world)
    channel = world.channel()
    channel.publish("late", "k", "later", properties=delayed(1000))
    channel.publish("now", "k", "later")
    assert channel.bodies_in("q") == [b"now"]
    assert schedule.backing.length == 1
    world.advance(999)
    assert channel.get("q") is None
    world.advance(1)
    seen = channel.got("q")
    assert (seen.body, seen.exchange, seen.routing_key) == (b"late", "later", "k")
    assert seen.received.header("x-delay") == -1000
    assert schedule.backing.length == 0


def test_they_come_in_the_order_of_their_times(world: World) -> None:
    declare(world)
    channel = world.channel()
    for delay in (300, 100, 200):
        channel.publish(str(delay), "k", "later", properties=delayed(delay))
    world.advance(300)
    assert channel.bodies_in("q") == [b"100", b"200", b"300"]


@pytest.mark.parametrize("delay", [0, -5, "soon", True, None])
def test_what_is_no_delay_is_none(world: World, delay: object) -> None:
    declare(world)
    channel = world.channel()
    channel.publish("m", "k", "later", properties=delayed(delay))
    assert channel.bodies_in("q") == [b"m"]


def test_a_delay_of_many_years_is_one(world: World) -> None:
    schedule = declare(world)
    world.channel().publish("m", "k", "later", properties=delayed(2**62))
    world.advance(10**10)
    assert schedule.backing.length == 1


def test_a_delayed_message_counts_as_routed_and_is_confirmed(world: World) -> None:
    declare(world)
    channel = world.channel()
    channel.confirm()
    channel.publish("m", "nowhere", "later", mandatory=True, properties=delayed(10))
    assert channel.confirms() == [("ack", 1, False)]
    world.advance(10)
    assert channel.get("q") is None


def test_a_delayed_topic_matches_as_a_topic(world: World) -> None:
    declare(world, "topic")
    channel = world.channel()
    channel.call(methods.QueueBind(queue="q", exchange="later", routing_key="a.#"), methods.QueueBindOk)
    channel.publish("m", "a.b.c", "later", properties=delayed(10))
    world.advance(10)
    assert channel.bodies_in("q") == [b"m"]


def test_a_cancelled_message_never_comes(world: World) -> None:
    schedule = declare(world)
    channel = world.channel()
    channel.publish("m", "k", "later", properties=delayed(10))
    (entry,) = schedule.backing.browse(0, 10)
    assert relocate.drop(schedule, entry.sequence)
    assert not relocate.drop(schedule, entry.sequence)
    world.advance(1000)
    assert channel.get("q") is None


def test_deleting_the_exchange_forgets_what_it_held(world: World) -> None:
    declare(world)
    channel = world.channel()
    channel.publish("m", "k", "later", properties=delayed(10))
    channel.call(methods.ExchangeDelete(exchange="later"), methods.ExchangeDeleteOk)
    world.advance(1000)
    assert channel.get("q") is None


@pytest.mark.parametrize("inner", [None, "x-delayed-message", "nonsense", 5])
def test_it_must_be_made_of_another_type(world: World, inner: object) -> None:
    channel = world.channel()
    arguments = {} if inner is None else {"x-delayed-type": inner}
    channel.send(methods.ExchangeDeclare(exchange="x", type="x-delayed-message", arguments=table_of(arguments)))
    close = channel.expect(methods.ChannelClose)
    assert (close.reply_code, "x-delayed-type" in close.reply_text) == (406, True)


def test_what_was_scheduled_survives_a_restart(tmp_path: Path) -> None:
    with (
        Broker(data_dir=str(tmp_path)) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "later")
        for number, delay in enumerate((3_600_000, 7_200_000)):
            properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay})
            channel.basic_publish("later", "", str(number).encode(), properties)
        connection.close()
    with Broker(data_dir=str(tmp_path)) as broker:
        broker.advance(3_600)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            assert channel.basic_get("q", auto_ack=True)[2] == b"0"
            assert channel.basic_get("q", auto_ack=True)[2] is None
        broker.advance(3_600)
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            assert connection.channel().basic_get("q", auto_ack=True)[2] == b"1"


def test_what_was_unbound_meanwhile_gets_nothing(world: World) -> None:
    declare(world)
    channel = world.channel()
    channel.publish("m", "k", "later", properties=delayed(100))
    unbind = methods.QueueUnbind(queue="q", exchange="later", routing_key="k")
    channel.call(unbind, methods.QueueUnbindOk)
    world.advance(200)
    assert world.queue("q").backing.length == 0
    assert world.vhost.exchanges["later"].bindings == {}
    # Nor does it get what is published from now on.
    channel.publish("n", "k", "later")
    assert world.queue("q").backing.length == 0
