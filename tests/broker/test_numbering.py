"""Publishers that number what they publish: what comes again is answered for and is not queued, by whoever it comes."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp.fields import table_of
from warren.amqp.properties import Properties
from warren.broker.publish.republish import WIDE
from warren.broker.queue.publishers import Publishers, key_of


def publisher(world: World, number: int = 0, name: str = "query/0", user: str = "guest") -> ChannelClient:
    channel = world.connect(user, publisher={"name": name, "number": number}).channel()
    channel.confirm()
    return channel


def publish(channel: ChannelClient, *bodies: str, key: str = "q", exchange: str = "") -> None:
    for body in bodies:
        channel.publish(body, key, exchange=exchange, properties=Properties(delivery_mode=2))


def test_what_another_attempt_sends_again_is_acked_and_not_queued(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    first, again = publisher(world), publisher(world)
    publish(first, "1", "2", "3")
    publish(again, "1", "2", "3", "4")
    assert [kind for kind, *_ in first.confirms()] == ["ack"] * 3
    assert [kind for kind, *_ in again.confirms()] == ["ack"] * 4
    assert channel.bodies_in("q") == [b"1", b"2", b"3", b"4"]


def test_two_attempts_at_once_leave_each_message_once_and_in_order(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    one, other = publisher(world), publisher(world)
    for who, body in ((one, "1"), (one, "2"), (other, "1"), (other, "2"), (other, "3"), (one, "3"), (one, "4")):
        publish(who, body)
    assert channel.bodies_in("q") == [b"1", b"2", b"3", b"4"]


def test_an_attempt_of_an_earlier_batch_comes_too_late(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    zombie = publisher(world, 1 << 32)
    publish(zombie, "a")
    publish(publisher(world, 1 << 32), "a", "b")
    publish(publisher(world, 2 << 32), "c")
    publish(zombie, "b")
    assert channel.bodies_in("q") == [b"a", b"b", b"c"]


def test_another_publisher_is_another(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    publish(publisher(world), "1")
    publish(publisher(world, name="query/1"), "1")
    publish(channel, "1")
    assert channel.bodies_in("q") == [b"1", b"1", b"1"]


def test_nobody_can_speak_for_the_publisher_of_another_user(world: World, channel: ChannelClient) -> None:
    world.add_user("mallory")
    channel.declare("q", durable=True)
    publish(publisher(world, 1 << 60, user="mallory"), "later than all that will ever come")
    publish(publisher(world), "1")
    assert len(channel.bodies_in("q")) == 2


def test_a_queue_that_has_not_had_it_takes_it_and_the_others_leave_it_out(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    channel.declare("s", durable=True, x_queue_type="stream")
    channel.bind("q", "amq.fanout", "")
    publish(publisher(world), "1", exchange="amq.fanout")
    channel.bind("s", "amq.fanout", "")
    publish(publisher(world), "1", "2", exchange="amq.fanout")
    assert channel.bodies_in("q") == [b"1", b"2"]
    assert world.node.vhosts["/"].queues["s"].backing.length == 2


def test_what_is_led_by_chance_is_led_to_the_same_queue_again(world: World, channel: ChannelClient) -> None:
    channel.declare_exchange("picks", "x-random")
    for number in range(8):
        channel.declare(f"q{number}", durable=True)
        channel.bind(f"q{number}", "picks", "")
    for _ in range(3):
        publish(publisher(world), *(str(number) for number in range(40)), exchange="picks")
    found = [body for number in range(8) for body in channel.bodies_in(f"q{number}")]
    assert sorted(found) == sorted(str(number).encode() for number in range(40))


def test_very_many_queues_each_take_it_once(world: World, channel: ChannelClient) -> None:
    """More than are served in one piece, and one of them is full."""
    names = [f"q{number}" for number in range(WIDE * 3)]
    for name in names:
        channel.declare(name, durable=True, x_max_length=2, x_overflow="reject-publish")
        channel.bind(name, "amq.fanout", "")
    first, again = publisher(world), publisher(world)
    publish(first, "1", "2", "3", "4", exchange="amq.fanout")
    publish(again, "1", "2", exchange="amq.fanout")
    assert [kind for kind, *_ in first.confirms()] == ["ack", "ack", "nack", "nack"]
    assert [kind for kind, *_ in again.confirms()] == ["ack", "ack"]
    assert all(channel.bodies_in(name) == [b"1", b"2"] for name in names)
    publish(publisher(world), "1", "2", "3", "4", exchange="amq.fanout")
    assert all(channel.bodies_in(name) == [b"3", b"4"] for name in names)


def test_nothing_passes_a_message_that_a_full_queue_refused(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True, x_max_length=2, x_overflow="reject-publish")
    first = publisher(world)
    publish(first, "1", "2", "3")
    assert channel.bodies_in("q") == [b"1", b"2"]
    # There is room for the fourth, which would make the third one of the past.
    publish(first, "4")
    assert [kind for kind, *_ in first.confirms()] == ["ack", "ack", "nack", "nack"]
    publish(publisher(world), "1", "2", "3", "4")
    assert channel.bodies_in("q") == [b"3", b"4"]


def test_a_repetition_is_confirmed_when_the_first_is_durable(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    world.store.holds = True
    first, again = publisher(world), publisher(world)
    publish(first, "1")
    publish(again, "1")
    assert (first.confirms(), again.confirms()) == ([], [])
    world.sync()
    for each in (first, again):
        each.client.receive()
        assert [kind for kind, *_ in each.confirms()] == ["ack"]


def test_dead_letters_are_not_taken_for_what_came_before(world: World, channel: ChannelClient) -> None:
    channel.declare("dead", durable=True)
    channel.declare("q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    publish(publisher(world), "1", "2", "3")
    # The last one first.
    for tag in [seen.tag for seen in (channel.get("q"), channel.get("q"), channel.get("q")) if seen][::-1]:
        channel.reject(tag, requeue=False)
    assert channel.bodies_in("dead") == [b"3", b"2", b"1"]


def test_those_that_were_silent_longest_are_forgotten() -> None:
    publishers = Publishers(2)
    for name, number in (("one", 1), ("two", 1), ("one", 2), ("three", 1)):
        publishers.note(key_of(name), number)
    assert publishers.notes() == [(b"pone", 2), (b"pthree", 1)]
    assert not publishers.has_passed(key_of("two"), 1)


@pytest.mark.parametrize(
    "property", [{"name": "n"}, {"name": 5, "number": 0}, {"name": "", "number": 0}, {"name": "n", "number": -1}]
)
def test_a_property_that_makes_no_sense_means_nothing(world: World, property: dict[str, object]) -> None:
    client = world.connect(publisher=property)
    assert client.connection.numbering is None


def test_headers_of_the_message_are_left_alone(world: World, channel: ChannelClient) -> None:
    channel.declare("q", durable=True)
    headers = table_of({"x": 1})
    publisher(world).publish("1", "q", properties=Properties(headers=headers))
    seen = channel.get("q")
    assert seen is not None
    assert seen.received.properties.headers == headers
