"""Dead letters: why, where to, what the headers tell, and when a circle is cut."""

from __future__ import annotations

import pytest

from tests.broker.harness import START, ChannelClient, FakeBacking, Seen, World, frame, publish_frames
from warren.amqp import methods
from warren.amqp.fields import Field, Table, plain_table, table_of
from warren.amqp.frames import content_frames
from warren.amqp.properties import Properties, encode_properties
from warren.broker.queue.deadletter import LINE_BYTES
from warren.broker.queue.declaration import Declaration
from warren.broker.queue.errands import UNITS

TO_DEAD: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def channel(world: World) -> ChannelClient:
    channel = world.channel()
    channel.declare("dead")
    return channel


def deaths(seen: Seen) -> list[dict[str, object]]:
    """x-death, as plain values."""
    field = seen.received.header("x-death")
    assert isinstance(field, list)
    found: list[dict[str, object]] = []
    for item in field:
        assert isinstance(item, Field)
        assert isinstance(item.value, dict)
        table: Table = item.value
        found.append(plain_table(table))
    return found


def kill(channel: ChannelClient, world: World, reason: str) -> None:
    """Let the message `m` die in a new queue `q` for this reason."""
    if reason == "rejected":
        channel.declare("q", more=TO_DEAD)
        channel.publish("m", "q")
        channel.get("q")
        channel.reject(1)
    elif reason == "expired":
        channel.declare("q", x_message_ttl=10, more=TO_DEAD)
        channel.publish("m", "q")
        world.advance(10)
    elif reason == "maxlen":
        channel.declare("q", x_max_length=1, more=TO_DEAD)
        channel.publish("m", "q")
        channel.publish("n", "q")
    else:
        channel.declare("q", durable=True, x_queue_type="quorum", x_delivery_limit=0, more=TO_DEAD)
        channel.publish("m", "q")
        channel.get("q")
        channel.nack(1)


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_every_reason_is_told(world: World, channel: ChannelClient, reason: str) -> None:
    kill(channel, world, reason)
    seen = channel.got("dead")
    assert (seen.body, seen.exchange, seen.routing_key) == (b"m", "", "dead")
    (death,) = deaths(seen)
    assert death == {
        "count": 1,
        "reason": reason,
        "queue": "q",
        "time": world.node.now // 1000,
        "exchange": "",
        "routing-keys": ["q"],
    }
    for when in ("first", "last"):
        assert seen.received.header(f"x-{when}-death-reason") == reason
        assert seen.received.header(f"x-{when}-death-queue") == "q"
        assert seen.received.header(f"x-{when}-death-exchange") == ""
    assert world.queue("q").counters.dead_lettered == 1
    assert world.queue("q").unacked == 0


@pytest.mark.parametrize("reason", ["rejected", "expired", "maxlen", "delivery_limit"])
def test_without_a_dead_letter_exchange_it_is_just_gone(
    world: World, channel: ChannelClient, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TO_DEAD, "x-dead-letter-exchange", "missing")
    kill(channel, world, reason)
    assert channel.bodies_in("dead") == []
    assert b"m" not in channel.bodies_in("q")


def test_the_types_of_x_death_are_rabbitmqs(world: World, channel: ChannelClient) -> None:
    kill(channel, world, "rejected")
    field = (channel.got("dead").received.properties.headers or {})["x-death"]
    assert field.tag == "A"
    assert isinstance(field.value, list)
    death = field.value[0].value
    assert isinstance(death, dict)
    tags = {key: item.tag for key, item in death.items()}
    assert tags == {"count": "l", "reason": "S", "queue": "S", "time": "T", "exchange": "S", "routing-keys": "A"}


def test_properties_and_headers_of_the_message_stay(channel: ChannelClient) -> None:
    channel.declare("q", more=TO_DEAD)
    properties = Properties(
        content_type="text/plain", headers=table_of({"mine": 1}), delivery_mode=2, priority=4, correlation_id="c"
    )
    channel.publish("m", "q", properties=properties)
    channel.get("q")
    channel.reject(1)
    got = channel.got("dead").received.properties
    assert (got.content_type, got.delivery_mode, got.priority, got.correlation_id) == ("text/plain", 2, 4, "c")
    assert (got.headers or {})["mine"].value == 1


def test_a_message_whose_property_flags_go_on_dies_like_others(channel: ChannelClient) -> None:
    channel.declare("q", more=TO_DEAD)
    encoded = encode_properties(Properties(content_type="text/plain", headers={}, correlation_id="c"))
    # A second word of flags that says nothing: hardly anybody sends it, and the specification allows it.
    encoded = bytes([encoded[0], encoded[1] | 1, 0, 0]) + encoded[2:]
    method = frame(methods.BasicPublish(routing_key="q"), channel.number)
    channel.client.feed(method + content_frames(channel.number, encoded, b"m", 4096))
    channel.get("q")
    channel.reject(1)
    seen = channel.got("dead")
    assert (seen.received.properties.content_type, seen.received.properties.correlation_id) == ("text/plain", "c")
    assert deaths(seen)[0]["reason"] == "rejected"


def test_a_message_with_a_ttl_loses_it_and_keeps_it_in_the_story(world: World, channel: ChannelClient) -> None:
    channel.declare("q", more=TO_DEAD)
    channel.publish("m", "q", properties=Properties(expiration="50"))
    world.advance(50)
    world.advance(100_000)
    seen = channel.got("dead")
    assert seen.received.properties.expiration is None
    assert deaths(seen)[0]["original-expiration"] == "50"


def test_the_routing_key_is_kept_unless_another_is_set(world: World, channel: ChannelClient) -> None:
    channel.bind("dead", "amq.topic", "#")
    channel.declare("q", x_dead_letter_exchange="amq.topic")
    channel.bind("q", "amq.direct", "original")
    channel.publish("m", "original", "amq.direct")
    channel.get("q")
    channel.reject(1)
    seen = channel.got("dead")
    assert (seen.exchange, seen.routing_key) == ("amq.topic", "original")
    assert (deaths(seen)[0]["exchange"], deaths(seen)[0]["routing-keys"]) == ("amq.direct", ["original"])


def test_cc_and_bcc_route_the_dead_too_but_only_cc_is_told(channel: ChannelClient) -> None:
    channel.declare_exchange("graves", "direct")
    for key in ("q", "one", "two"):
        channel.declare(f"grave of {key}")
        channel.bind(f"grave of {key}", "graves", key)
    channel.declare("q", x_dead_letter_exchange="graves")
    headers = table_of({"CC": ["one"], "BCC": ["two"]})
    channel.publish("m", "q", properties=Properties(headers=headers))
    channel.get("q")
    channel.reject(1)
    for key in ("q", "one", "two"):
        seen = channel.got(f"grave of {key}")
        assert deaths(seen)[0]["routing-keys"] == ["q", "one"]
        assert seen.received.header("CC") is not None


def test_a_dead_letter_routing_key_replaces_cc_as_well(channel: ChannelClient) -> None:
    channel.declare("copy")
    channel.declare("q", more=TO_DEAD)
    channel.publish("m", "q", properties=Properties(headers=table_of({"CC": ["copy"]})))
    assert channel.bodies_in("copy") == [b"m"]
    channel.get("q")
    channel.reject(2)
    seen = channel.got("dead")
    assert seen.received.header("CC") is None
    assert channel.bodies_in("copy") == []


def test_a_missing_exchange_lets_the_message_go(world: World, channel: ChannelClient) -> None:
    channel.declare("q", x_dead_letter_exchange="missing")
    channel.publish("m", "q")
    channel.get("q")
    channel.reject(1)
    assert channel.take() == []
    assert (world.queue("q").backing.length, world.queue("q").unacked) == (0, 0)


def test_the_exchange_and_key_may_come_from_a_policy_and_arguments_win(world: World, channel: ChannelClient) -> None:
    channel.declare("other")
    channel.declare("q")
    channel.declare("fixed", more=TO_DEAD)
    policy: dict[str, object] = {"dead-letter-exchange": "", "dead-letter-routing-key": "other"}
    world.set_policy("^(q|fixed)$", policy)
    for name in ("q", "fixed"):
        channel.publish(name, name)
        seen = channel.get(name)
        assert seen is not None
        channel.reject(seen.tag)
    assert channel.bodies_in("other") == [b"q"]
    assert channel.bodies_in("dead") == [b"fixed"]


def test_deaths_are_told_newest_first_and_counted_by_queue_and_reason(world: World, channel: ChannelClient) -> None:
    channel.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="wait")
    channel.declare("wait", x_message_ttl=1000, x_dead_letter_exchange="", x_dead_letter_routing_key="q")
    channel.publish("m", "q")
    for _ in range(3):
        seen = channel.get("q")
        assert seen is not None
        channel.reject(seen.tag)
        world.advance(1000)
    story = deaths(channel.got("q"))
    assert [(death["queue"], death["reason"], death["count"]) for death in story] == [
        ("wait", "expired", 3),
        ("q", "rejected", 3),
    ]
    assert story[1]["time"] == START // 1000
    assert story[0]["time"] == START // 1000 + 1


def test_first_death_stays_and_last_death_moves(world: World, channel: ChannelClient) -> None:
    channel.declare("b", x_message_ttl=10, more=TO_DEAD)
    channel.declare("a", x_dead_letter_exchange="", x_dead_letter_routing_key="b")
    channel.publish("m", "a")
    channel.get("a")
    channel.reject(1)
    world.advance(10)
    seen = channel.got("dead")
    assert (seen.received.header("x-first-death-queue"), seen.received.header("x-last-death-queue")) == ("a", "b")
    assert (seen.received.header("x-first-death-reason"), seen.received.header("x-last-death-reason")) == (
        "rejected",
        "expired",
    )


@pytest.mark.parametrize("names", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_circle_that_nobody_rejects_in_is_cut(world: World, channel: ChannelClient, names: list[str]) -> None:
    for name, after in zip(names, names[1:] + names[:1], strict=True):
        channel.declare(name, x_message_ttl=10, x_dead_letter_exchange="", x_dead_letter_routing_key=after)
    channel.publish("m", "a")
    for _ in range(10):
        world.advance(10)
    assert [world.queue(name).backing.length for name in names] == [0] * len(names)


def test_a_circle_with_a_rejection_goes_on(world: World, channel: ChannelClient) -> None:
    channel.declare("a", x_dead_letter_exchange="", x_dead_letter_routing_key="a")
    channel.publish("m", "a")
    for count in range(1, 6):
        seen = channel.get("a")
        assert seen is not None
        channel.reject(seen.tag)
        assert world.queue("a").backing.length == 1
        entry = world.queue("a").backing.peek()
        assert entry is not None
        assert entry.sequence == count + 1
    assert deaths(channel.got("a"))[0]["count"] == 5


def test_only_the_queue_that_closes_the_circle_is_left_out(world: World, channel: ChannelClient) -> None:
    channel.declare("a", x_message_ttl=10, x_dead_letter_exchange="amq.fanout")
    for name in ("a", "dead"):
        channel.bind(name, "amq.fanout")
    channel.publish("m", "a")
    world.advance(10)
    assert channel.bodies_in("dead") == [b"m"]
    assert world.queue("a").backing.length == 0


def test_deletion_purging_and_queue_expiry_make_no_dead_letters(world: World, channel: ChannelClient) -> None:
    for name, arguments in (("purged", {}), ("deleted", {}), ("expired", {"x-expires": 10})):
        channel.declare(name, more={**TO_DEAD, **arguments})
        channel.publish("m", name)
    channel.call(methods.QueuePurge(queue="purged"), methods.QueuePurgeOk)
    channel.call(methods.QueueDelete(queue="deleted"), methods.QueueDeleteOk)
    world.advance(10)
    assert channel.bodies_in("dead") == []


def test_a_dead_letter_reaches_a_waiting_consumer(world: World, channel: ChannelClient) -> None:
    channel.consume("dead")
    channel.declare("q", x_message_ttl=10, more=TO_DEAD)
    channel.publish("m", "q")
    world.advance(10)
    assert channel.delivered() == [b"m"]


def test_a_dead_letter_that_the_next_queue_refuses_is_gone(world: World, channel: ChannelClient) -> None:
    channel.declare("full", x_max_length=0, x_overflow="reject-publish")
    channel.declare("q", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="full")
    channel.confirm()
    channel.publish("a", "q")
    channel.publish("b", "q")
    assert channel.confirms() == [("ack", 1, False), ("ack", 2, False)]


def test_a_chain_of_two_thousand_full_queues_is_a_loop_and_no_recursion(world: World, channel: ChannelClient) -> None:
    length = 2000
    for number in range(length):
        channel.declare(
            f"q{number}",
            x_max_length=1,
            x_dead_letter_exchange="",
            x_dead_letter_routing_key=f"q{number + 1}" if number < length - 1 else "dead",
        )
    for number in range(length - 1, -1, -1):
        channel.publish(f"m{number}", f"q{number}")
    # Every queue is full: one more at the front moves all of them on by one.
    channel.publish("push", "q0")
    assert channel.bodies_in("dead") == [f"m{length - 1}".encode()]
    assert channel.got("q0").body == b"push"
    assert channel.got("q1").body == b"m0"
    assert channel.got(f"q{length - 1}").body == f"m{length - 2}".encode()


def test_a_message_is_in_its_new_queue_before_it_leaves_the_old(world: World, channel: ChannelClient) -> None:
    channel.declare("grave", durable=True)
    channel.declare("q", durable=True, x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    channel.persist("m", "q")
    channel.get("q")
    backing = world.queue("q").backing
    channel.reject(1)
    assert len(backing.settled) == 1  # type: ignore[attr-defined]
    assert world.queue("grave").backing.length == 1


def test_an_x_death_of_another_shape_counts_for_nothing(channel: ChannelClient) -> None:
    channel.declare("q", more=TO_DEAD)
    for odd in ("text", [1, "two"], [{"queue": 5, "reason": None}], [{"queue": "q", "reason": "rejected"}]):
        channel.publish("m", "q", properties=Properties(headers=table_of({"x-death": odd})))
        seen = channel.get("q")
        assert seen is not None
        channel.reject(seen.tag)
        assert deaths(channel.got("dead"))[0]["count"] == 1


def test_a_routing_key_that_cannot_be_sent_is_refused(world: World) -> None:
    channel = world.channel()
    declared = methods.QueueDeclare(
        queue="q", arguments=table_of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k" * 256})
    )
    code, text = channel.refused(declared)
    assert (code, "x-dead-letter-routing-key" in text, "too_long,256" in text) == (406, True, True)
    world.channel().declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="k" * 255)


def test_a_routing_key_that_was_too_long_before_it_was_refused_harms_nobody(world: World) -> None:
    """As a data folder of an earlier version may have it."""
    channel = world.channel()
    channel.declare("dead")
    channel.bind("dead", "amq.fanout")
    arguments = table_of({"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "k" * 300})
    queue = world.vhost.create_queue(Declaration("q", "classic", False, False, arguments))
    assert queue.options.dead_letter_routing_key is None
    channel.publish("m", "q")
    channel.get("q")
    channel.reject(1)
    assert channel.got("dead").routing_key == "q"


@pytest.mark.parametrize("count", [2**63 - 1, -(2**63), "many"])
def test_a_count_of_deaths_that_a_client_has_written_does_no_harm(world: World, count: object) -> None:
    channel = world.channel()
    channel.declare("dead")
    channel.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    forged = [{"queue": "q", "reason": "rejected", "count": count}]
    channel.publish("m", "q", properties=Properties(headers=table_of({"x-death": forged})))
    channel.get("q")
    channel.reject(1)
    assert channel.got("dead").body == b"m"


def make_a_circle(channel: ChannelClient, count: int) -> None:
    """Queues that hold nothing, each of which dead-letters to all of them: `count` factorial letters from a byte."""
    channel.declare_exchange("round", "fanout")
    for number in range(count):
        channel.declare(f"q{number}", x_max_length=0, x_dead_letter_exchange="round")
        channel.bind(f"q{number}", "round")


def test_letters_that_make_letters_by_the_factorial_let_others_have_their_turns(world: World) -> None:
    make_a_circle(world.channel(), 6)
    attacker, other = world.channel(), world.channel()
    other.declare("mine", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="grave")
    other.declare("grave")
    attacker.client.connection.feed(publish_frames(1, "x" * 32768, exchange="round"))
    turns = held = 0
    while world.node.errands.waiting:
        world.node.flush()
        turns += 1
        held = max(held, sum(int(line.count) for line in world.node.dead_letters.lines.values()))
        if turns == 20:
            # In the midst of it somebody else publishes, and what that kills is buried in the same turn.
            other.client.connection.feed(publish_frames(1, "a", "mine") + publish_frames(1, "b", "mine"))
            assert world.queue("grave").backing.length == 1
    # Six queues, and from each on to all those in which it has not been yet: 6 + 6*5 + 6*5*4 + ...
    assert sum(int(world.queue(f"q{number}").counters.dead_lettered) for number in range(6)) == 1956
    assert turns > 30
    # One letter costs at most this much more than what was left when its turn came.
    assert world.node.errands.budget.most < UNITS + 500
    # Without a bound 720 would have waited at once.
    assert 200 < held <= LINE_BYTES // 32768 + 6 * 6
    assert not world.node.dead_letters.lines


def test_who_makes_more_letters_than_can_be_buried_is_not_read_on(world: World) -> None:
    make_a_circle(world.channel(), 4)
    attacker = world.channel()
    for _ in range(50):
        attacker.client.connection.feed(publish_frames(1, "x" * 65536, exchange="round"))
    assert not attacker.client.wire.is_reading()
    assert sum(int(line.count) for line in world.node.dead_letters.lines.values()) <= LINE_BYTES // 65536 + 4
    world.flush()
    assert attacker.client.wire.is_reading()
    assert sum(int(world.queue(f"q{number}").counters.dead_lettered) for number in range(4)) == 50 * (4 + 12 + 24 + 24)


def test_the_letters_of_a_queue_keep_their_order_when_there_are_more_than_a_turn_takes(world: World) -> None:
    channel, other = world.channel(), world.channel()
    channel.declare("end")
    channel.declare("middle", x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key="end")
    channel.declare("start", x_dead_letter_exchange="", x_dead_letter_routing_key="middle")
    for number in range(3000):
        channel.publish(str(number), "start")
        channel.get("start")
    channel.client.connection.feed(frame(methods.BasicNack(delivery_tag=3000, multiple=True, requeue=False), 1))
    while world.queue("end").backing.length < 500:
        world.node.flush()
    waiting = 3000 - int(world.queue("end").backing.length)
    assert waiting > 1000
    # Letters of the same queue wait already: what dies in it now dies behind them.
    other.client.connection.feed(b"".join(publish_frames(1, f"late {number}", "middle") for number in range(200)))
    world.flush()
    found = [body.decode() for body in channel.bodies_in("end")]
    assert [body for body in found if not body.startswith("late")] == [str(number) for number in range(3000)]
    assert [body for body in found if body.startswith("late")] == [f"late {number}" for number in range(200)]
    assert found.index("late 0") >= 3000 - waiting


def test_what_letters_kill_is_still_in_its_queue_for_a_crash_until_it_is_buried(world: World) -> None:
    make_a_circle(world.channel(), 5)
    backings: list[FakeBacking] = [world.queue(f"q{number}").backing for number in range(5)]  # type: ignore[misc]
    channel = world.channel()
    channel.client.connection.feed(publish_frames(1, "x", exchange="round"))
    assert any(line.count for line in world.node.dead_letters.lines.values())
    taken = sum(int(world.queue(f"q{number}").counters.published) for number in range(5))
    settled = sum(len(backing.settled) for backing in backings)
    waiting = sum(int(line.count) for line in world.node.dead_letters.lines.values())
    assert taken == settled + waiting
    world.flush()
    taken = sum(int(world.queue(f"q{number}").counters.published) for number in range(5))
    assert taken == sum(len(backing.settled) for backing in backings)


def test_a_death_without_a_reason_loses_no_message(world: World, channel: ChannelClient) -> None:
    """Whatever a client has written into x-death."""
    channel.declare("q", more=TO_DEAD)
    own = table_of({"x-death": [{"queue": "elsewhere"}, {"reason": 7, "count": "many"}, "no death at all"]})
    channel.publish("m", "q", properties=Properties(headers=own))
    seen = channel.get("q")
    assert seen is not None
    channel.reject(seen.tag)
    dead = channel.got("dead")
    assert dead.body == b"m"
    assert (deaths(dead)[0]["queue"], deaths(dead)[0]["reason"]) == ("q", "rejected")
