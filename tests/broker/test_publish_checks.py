"""What a publish is asked, and in which order: of two faults the client hears of the one that is asked first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import Field, table_of
from warren.amqp.properties import Properties
from warren.broker.settings import Settings


@dataclass
class Fault:
    """A publish with one thing wrong, and what it is refused with."""

    code: int
    text: str
    exchange: str | None = None
    properties: dict[str, object] = field(default_factory=dict)
    size: int = 1


HEADERS_WITH_WRONG_CC = {"CC": Field("S", "x")}

# In the order in which they are asked. Those on the exchange's name exclude each other and are combined by name below.
FAULTS = {
    "size": Fault(406, "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000", size=2000),
    "permission": Fault(403, "write access to exchange 'forbidden' in vhost '/' refused for user 'alice'", "forbidden"),
    "existence": Fault(404, "NOT_FOUND - no exchange 'missing' in vhost '/'", "missing"),
    "internal": Fault(403, "cannot publish to internal exchange 'internal' in vhost '/'", "internal"),
    "reply-to": Fault(406, "fast reply consumer does not exist", properties={"reply_to": "amq.rabbitmq.reply-to"}),
    "expiration": Fault(406, "invalid expiration 'soon': no_integer", properties={"expiration": "soon"}),
    "CC": Fault(
        406,
        'invalid message: {unacceptable_type_in_header,"CC",longstr}',
        properties={"headers": HEADERS_WITH_WRONG_CC},
    ),
    "topic": Fault(403, "write access to topic 'secret' in exchange 'topics' in vhost '/' refused", "topics"),
    "user_id": Fault(
        406, "user_id property set to 'bob' but authenticated user was 'alice'", properties={"user_id": "bob"}
    ),
}
PAIRS = [
    (first, second)
    for place, first in enumerate(FAULTS)
    for second in list(FAULTS)[place + 1 :]
    if not (FAULTS[first].exchange and FAULTS[second].exchange)
]


@pytest.fixture
def alice() -> ChannelClient:
    world = World(Settings(max_message_size=1000))
    world.add_user("alice", write="^(missing|internal|topics|fine|both|amq.default|.*q)$")
    world.node.access.set_topic_permission("alice", "/", "topics", "^public", ".*")
    guest = world.channel()
    guest.declare_exchange("forbidden", "fanout")
    guest.declare_exchange("internal", "fanout", internal=True)
    guest.declare_exchange("topics", "topic")
    guest.declare_exchange("fine", "fanout")
    return world.connect("alice").channel()


def refusal(channel: ChannelClient, fault: Fault) -> tuple[int, str]:
    properties = replace(Properties(), **fault.properties)  # type: ignore[arg-type]
    channel.publish("x" * fault.size, "secret", fault.exchange or "fine", properties=properties)
    return channel.expect_close()


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_alone_is_refused(alice: ChannelClient, name: str) -> None:
    code, text = refusal(alice, FAULTS[name])
    assert code == FAULTS[name].code
    assert FAULTS[name].text in text


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_faults_the_earlier_is_told(alice: ChannelClient, first: str, second: str) -> None:
    one, two = FAULTS[first], FAULTS[second]
    both = Fault(
        one.code, one.text, one.exchange or two.exchange, {**two.properties, **one.properties}, max(one.size, two.size)
    )
    assert one.text in refusal(alice, both)[1]


def test_permission_is_asked_before_existence(alice: ChannelClient) -> None:
    """Who may not write learns nothing about what exists."""
    alice.publish("m", "", "absent and forbidden")
    assert alice.expect_close()[0] == 403


def test_permission_is_asked_before_internal(world: World) -> None:
    world.add_user("bob", write="^nothing$")
    world.channel().declare_exchange("internal", "fanout", internal=True)
    bob = world.connect("bob").channel()
    bob.publish("m", "", "internal")
    assert "write access to exchange 'internal'" in bob.expect_close()[1]


def test_the_default_exchange_is_asked_for_under_its_own_name(world: World) -> None:
    world.add_user("bob", write="^q$")
    bob = world.connect("bob").channel()
    bob.declare("q")
    bob.publish("m", "q")
    assert bob.expect_close() == (
        403,
        "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'bob'",
    )


def test_a_refused_publish_reaches_nobody(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.publish("m", "q", properties=Properties(user_id="somebody"))
    channel.expect_close()
    assert world.queue("q").backing.length == 0


@pytest.mark.parametrize(
    ("expiration", "reason"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        ("10s", '{leftover_string,"s"}'),
        ("1.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
    ],
)
def test_an_expiration_is_one_whole_number_in_range(channel: ChannelClient, expiration: str, reason: str) -> None:
    channel.publish("m", "q", properties=Properties(expiration=expiration))
    assert channel.expect_close() == (406, f"PRECONDITION_FAILED - invalid expiration '{expiration}': {reason}")


@pytest.mark.parametrize("expiration", ["0", "1", "+5", "315360000000"])
def test_expirations_in_range_are_accepted(channel: ChannelClient, expiration: str) -> None:
    channel.publish("m", "q", properties=Properties(expiration=expiration))
    assert channel.take() == []


def test_the_size_is_that_of_the_body_alone() -> None:
    channel = World(Settings(max_message_size=100)).channel()
    channel.declare("q")
    channel.publish("x" * 100, "q", properties=Properties(headers=table_of({"h": "y" * 500})))
    assert len(channel.got("q").body) == 100
    channel.publish("x" * 101, "q")
    assert channel.expect_close()[1] == (
        "PRECONDITION_FAILED - message size 101 is larger than configured max size 100"
    )


def test_topic_permission_is_asked_of_every_key(alice: ChannelClient) -> None:
    headers = table_of({"CC": ["public.too", "hidden"]})
    alice.publish("m", "public", "topics", properties=Properties(headers=headers))
    assert "topic 'hidden' in exchange 'topics'" in alice.expect_close()[1]


def test_topic_permission_is_asked_of_topic_exchanges_only(alice: ChannelClient) -> None:
    alice.publish("m", "secret", "fine")
    assert alice.take() == []


def test_ones_own_user_id_is_fine(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q", properties=Properties(user_id="guest"))
    assert channel.got("q").received.properties.user_id == "guest"


def test_an_impersonator_may_speak_for_others(world: World) -> None:
    world.add_user("relay").tags.append("impersonator")
    channel = world.connect("relay").channel()
    channel.declare("q")
    channel.publish("m", "q", properties=Properties(user_id="guest"))
    assert channel.got("q").body == b"m"


def brought(*origin: str, **headers: object) -> Properties:
    return Properties(headers=table_of({**headers, "x-warren-origin": list(origin)}))


def test_an_impersonator_may_bring_a_message_with_its_exchange_and_key_into_one_queue(world: World) -> None:
    world.add_user("relay").tags.append("impersonator")
    channel = world.connect("relay").channel()
    channel.declare("q")
    channel.declare("other")
    channel.publish("m", "q", properties=brought("gone", "a.b", CC=["other"], kind="tea"))
    channel.publish("n", "q", properties=brought("", "q"))
    seen = channel.got("q")
    assert (seen.exchange, seen.routing_key, seen.body) == ("gone", "a.b", b"m")
    assert seen.received.properties.headers == table_of({"CC": ["other"], "kind": "tea"})
    seen = channel.got("q")
    assert (seen.exchange, seen.routing_key, seen.received.properties.headers) == ("", "q", None)
    assert channel.bodies_in("other") == []


def test_of_others_an_origin_is_a_header_like_any(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.publish("m", "q", properties=brought("gone", "a.b"))
    seen = channel.got("q")
    assert (seen.exchange, seen.routing_key) == ("", "q")
    assert seen.received.properties.headers == table_of({"x-warren-origin": ["gone", "a.b"]})


def test_an_origin_must_be_an_exchange_and_a_key(world: World) -> None:
    world.add_user("relay").tags.append("impersonator")
    channel = world.connect("relay").channel()
    channel.declare("q")
    channel.publish("m", "q", properties=brought("gone"))
    assert "x-warren-origin must be an exchange and a routing key" in channel.expect_close()[1]


def test_a_permission_taken_away_holds_for_the_next_publish(world: World) -> None:
    world.add_user("bob")
    bob = world.connect("bob").channel()
    bob.declare("q")
    bob.publish("m", "q")
    world.node.access.set_permission("bob", "/", ".*", "^$", ".*")
    bob.publish("m", "q")
    assert bob.expect_close()[0] == 403


def test_an_exchange_deleted_is_missed_by_the_next_publish(channel: ChannelClient) -> None:
    channel.declare_exchange("x", "fanout")
    channel.publish("m", "", "x")
    channel.call(methods.ExchangeDelete(exchange="x"), methods.ExchangeDeleteOk)
    channel.publish("m", "", "x")
    assert channel.expect_close() == (404, "NOT_FOUND - no exchange 'x' in vhost '/'")
