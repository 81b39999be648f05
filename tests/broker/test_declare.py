"""Queues, exchanges and bindings as clients declare, compare, lock, purge and delete them."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World
from warren.amqp import methods
from warren.amqp.fields import Field, Table, table_of


def declaration(queue: str = "q", /, **flags: object) -> methods.QueueDeclare:
    """Names that begin with x_ are arguments, the rest are flags."""
    method = methods.QueueDeclare(queue=queue)
    arguments: dict[str, object] = {}
    for name, value in flags.items():
        if name.startswith("x_"):
            arguments[name.replace("_", "-")] = value
        else:
            setattr(method, name, value)
    method.arguments = table_of(arguments)
    return method


LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)


# -- queues ------------------------------------------------------------------------------------------------------------


def test_declare_tells_ready_messages_and_consumers(channel: ChannelClient) -> None:
    assert channel.declare("q").message_count == 0
    channel.publish("a", "q")
    channel.publish("b", "q")
    channel.get("q")
    channel.qos(1)
    channel.consume("q")
    channel.take()
    channel.publish("c", "q")
    ok = channel.declare("q", passive=True)
    assert (ok.message_count, ok.consumer_count) == (1, 1)


def test_a_queue_without_a_name_is_given_one(channel: ChannelClient) -> None:
    first, second = channel.declare("").queue, channel.declare("").queue
    assert first.startswith("amq.gen-")
    assert len(first) == len("amq.gen-") + 22
    assert first != second


def test_names_of_the_broker_are_reserved(channel: ChannelClient) -> None:
    assert channel.refused(declaration("amq.mine")) == (
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    )


def test_a_generated_name_may_be_declared_passively_only(channel: ChannelClient) -> None:
    name = channel.declare("").queue
    assert channel.declare(name, passive=True).queue == name
    assert channel.refused(declaration(name))[0] == 403


def test_line_ends_are_stripped_from_names(world: World) -> None:
    channel = world.channel()
    assert channel.declare("q\r\n").queue == "q"
    channel.declare_exchange("x\n", "fanout")
    channel.bind("q\n", "x\r")
    channel.publish("m", "", "x")
    assert channel.bodies_in("q") == [b"m"]


def test_no_wait_is_not_answered(world: World) -> None:
    channel = world.channel()
    channel.send(methods.QueueDeclare(queue="q", no_wait=True))
    channel.send(methods.ExchangeDeclare(exchange="x", no_wait=True))
    channel.send(methods.QueueBind(queue="q", exchange="x", no_wait=True))
    channel.send(methods.QueuePurge(queue="q", no_wait=True))
    channel.send(methods.QueueDelete(queue="q", no_wait=True))
    channel.send(methods.ExchangeDelete(exchange="x", no_wait=True))
    assert channel.take() == []


def test_passive_declaration_needs_the_queue(channel: ChannelClient) -> None:
    assert channel.refused(declaration(passive=True)) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ({}, {"durable": True}, "'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        ({"durable": True}, {}, "'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"),
        ({}, {"auto_delete": True}, "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        (
            {"x_message_ttl": 60000},
            {},
            (
                "'x-message-ttl' for queue 'q' in vhost '/': "
                "received none but current is the value '60000' of type 'signedint'"
            ),
        ),
        (
            {},
            {"x_max_length": 5},
            "'x-max-length' for queue 'q' in vhost '/': received the value '5' of type 'signedint' but current is none",
        ),
    ],
)
def test_a_declaration_that_differs_is_refused(
    channel: ChannelClient, before: dict[str, object], now: dict[str, object], text: str
) -> None:
    channel.call(declaration(**before), methods.QueueDeclareOk)
    assert channel.refused(declaration(**now)) == (406, f"PRECONDITION_FAILED - inequivalent arg {text}")


def test_widths_of_integers_and_unknown_arguments_make_no_difference(channel: ChannelClient) -> None:
    for tag in "bBsuIilL":
        arguments: Table = {"x-max-length": Field(tag, 5), "x-whatever": Field(tag, ord(tag))}
        channel.call(methods.QueueDeclare(queue="q", arguments=arguments), methods.QueueDeclareOk)
    channel.call(declaration(x_max_length=5, x_queue_type="classic"), methods.QueueDeclareOk)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x_expires": 0}, "'x-expires' for queue 'q' in vhost '/': {value_zero,0}"),
        ({"x_expires": -1}, "'x-expires' for queue 'q' in vhost '/': {value_negative,-1}"),
        ({"x_message_ttl": -1}, "'x-message-ttl' for queue 'q' in vhost '/': {value_negative,-1}"),
        ({"x_max_length": -1}, "'x-max-length' for queue 'q' in vhost '/': {value_negative,-1}"),
        ({"x_max_priority": 256}, "'x-max-priority' for queue 'q' in vhost '/': {max_value_exceeded,256}"),
        (
            {"x_dead_letter_routing_key": "k"},
            "'x-dead-letter-routing-key' for queue 'q' in vhost '/': routing_key_but_no_dlx_defined",
        ),
        (
            {"x_queue_type": "imaginary"},
            "'x-queue-type' for queue 'q' in vhost '/': \"unsupported queue type 'imaginary'\"",
        ),
        ({"x_overflow": "explode"}, "'x-overflow' for queue 'q' in vhost '/': invalid_overflow"),
    ],
)
def test_arguments_that_cannot_be_are_refused(
    world: World, channel: ChannelClient, arguments: dict[str, object], problem: str
) -> None:
    assert channel.refused(declaration(**arguments)) == (406, f"PRECONDITION_FAILED - invalid arg {problem}")
    assert world.vhost.queues == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {"x_message_ttl": "60000"},
        {"x_max_length": 1.5},
        {"x_single_active_consumer": "yes"},
        {"x_dead_letter_exchange": 5},
        {"x_delivery_limit": 5},
    ],
)
def test_arguments_of_a_wrong_type_are_refused(channel: ChannelClient, arguments: dict[str, object]) -> None:
    assert channel.refused(declaration(**arguments))[0] == 406


def test_a_dead_letter_exchange_needs_rights_to_read_and_write(world: World) -> None:
    world.add_user("bob", write="^q$")
    bob = world.connect("bob").channel()
    assert bob.refused(declaration(x_dead_letter_exchange="dlx")) == (
        403,
        "ACCESS_REFUSED - write access to exchange 'dlx' in vhost '/' refused for user 'bob'",
    )


def test_an_exclusive_queue_is_locked_for_all_other_connections(world: World) -> None:
    owner = world.channel()
    owner.declare("q", exclusive=True)
    other = world.connect()
    for number, method in enumerate(
        [
            declaration(),
            declaration(exclusive=True),
            declaration(passive=True),
            methods.BasicConsume(queue="q"),
            methods.BasicGet(queue="q"),
            methods.QueuePurge(queue="q"),
            methods.QueueDelete(queue="q"),
            methods.QueueBind(queue="q", exchange="amq.fanout"),
        ],
        1,
    ):
        code, text = other.channel(number).refused(method)
        assert (code, text) == (405, LOCKED[:255]), method


def test_anybody_may_publish_to_an_exclusive_queue(world: World) -> None:
    owner = world.channel()
    owner.declare("q", exclusive=True)
    world.channel().publish("m", "q")
    assert owner.got("q").body == b"m"


def test_an_owner_must_redeclare_as_exclusive(channel: ChannelClient) -> None:
    channel.declare("q", exclusive=True)
    channel.declare("q", exclusive=True)
    assert channel.refused(declaration())[0] == 405


def test_an_exclusive_queue_is_not_durable_whatever_was_asked(world: World) -> None:
    world.channel().declare("q", exclusive=True, durable=True)
    assert not world.queue("q").durable


def test_delete_tells_how_many_were_ready(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for _ in range(3):
        channel.publish("m", "q")
    channel.get("q")
    assert channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk).message_count == 2
    assert channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk).message_count == 0
    assert world.store.deleted == ["q"]


def test_delete_may_be_conditional(world: World) -> None:
    client = world.connect()
    one, two, three = client.channel(1), client.channel(2), client.channel(3)
    one.declare("q")
    one.publish("m", "q")
    assert two.refused(methods.QueueDelete(queue="q", if_empty=True)) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty",
    )
    one.consume("q")
    assert three.refused(methods.QueueDelete(queue="q", if_unused=True)) == (
        406,
        "PRECONDITION_FAILED - queue 'q' in vhost '/' in use",
    )
    one.take()
    one.call(methods.QueueDelete(queue="q", if_empty=True), methods.QueueDeleteOk)
    one.expect(methods.BasicCancel)


def test_purge_takes_what_is_ready_and_leaves_what_is_held(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    for _ in range(3):
        channel.publish("m", "q")
    channel.get("q")
    assert channel.call(methods.QueuePurge(queue="q"), methods.QueuePurgeOk).message_count == 2
    channel.nack(1)
    assert world.queue("q").backing.length == 1


def test_configuring_needs_permission(world: World) -> None:
    world.add_user("bob", configure="^mine$")
    client = world.connect("bob")
    client.channel(1).declare("mine")
    text = "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'bob'"
    assert client.channel(2).refused(declaration()) == (403, text)
    assert client.channel(3).refused(methods.QueueDelete(queue="q")) == (403, text)
    assert client.channel(4).refused(methods.ExchangeDeclare(exchange="x"))[0] == 403
    assert client.channel(5).refused(methods.ExchangeDelete(exchange="x"))[0] == 403


# -- exchanges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"])
def test_every_vhost_has_the_exchanges_of_the_spec(channel: ChannelClient, name: str) -> None:
    channel.call(methods.ExchangeDeclare(exchange=name, passive=True), methods.ExchangeDeclareOk)


def test_the_default_exchange_cannot_be_touched(world: World) -> None:
    client = world.connect()
    text = "ACCESS_REFUSED - operation not permitted on the default exchange"
    client.channel(1).declare("q")
    for number, method in enumerate(
        [
            methods.ExchangeDeclare(exchange=""),
            methods.ExchangeDelete(exchange=""),
            methods.QueueBind(queue="q", exchange="", routing_key="k"),
            methods.QueueUnbind(queue="q", exchange="", routing_key="k"),
            methods.ExchangeBind(source="", destination="amq.fanout"),
            methods.ExchangeBind(source="amq.fanout", destination=""),
        ],
        2,
    ):
        assert client.channel(number).refused(method) == (403, text), method


def test_exchanges_are_compared_when_declared_again(world: World) -> None:
    client = world.connect()
    client.channel(1).declare_exchange("x", "direct")
    client.channel(2).declare_exchange("x", "direct", whatever=1)
    code, text = client.channel(3).refused(methods.ExchangeDeclare(exchange="x", type="fanout"))
    assert code == 406
    assert text == (
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )
    assert client.channel(4).refused(methods.ExchangeDeclare(exchange="x", internal=True))[0] == 406


def test_an_unknown_type_is_refused(channel: ChannelClient) -> None:
    code, text = channel.refused(methods.ExchangeDeclare(exchange="x", type="imaginary"))
    assert "unknown exchange type 'imaginary'" in text
    assert code in (406, 503)


def test_exchanges_of_the_broker_cannot_be_made_or_deleted(world: World) -> None:
    client = world.connect()
    assert client.channel(1).refused(methods.ExchangeDeclare(exchange="amq.mine")) == (
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    )
    assert client.channel(2).refused(methods.ExchangeDelete(exchange="amq.direct"))[0] == 403


def test_deleting_a_missing_exchange_is_no_error(channel: ChannelClient) -> None:
    channel.call(methods.ExchangeDelete(exchange="missing"), methods.ExchangeDeleteOk)


def test_an_exchange_in_use_is_spared_on_request(channel: ChannelClient) -> None:
    channel.declare("q")
    channel.declare_exchange("x", "fanout")
    channel.bind("q", "x")
    assert channel.refused(methods.ExchangeDelete(exchange="x", if_unused=True)) == (
        406,
        "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use",
    )


def test_auto_delete_exchanges_go_with_their_last_binding_in_chains(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.declare_exchange("first", "fanout", auto_delete=True)
    channel.declare_exchange("second", "fanout", auto_delete=True)
    channel.call(methods.ExchangeBind(source="first", destination="second"), methods.ExchangeBindOk)
    channel.bind("q", "second")
    assert {"first", "second"} <= world.vhost.exchanges.keys()
    channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert not {"first", "second"} & world.vhost.exchanges.keys()


# -- bindings ----------------------------------------------------------------------------------------------------------


def test_binding_needs_both_ends_and_the_source_is_missed_first(world: World) -> None:
    client = world.connect()
    assert client.channel(1).refused(methods.QueueBind(queue="q", exchange="x")) == (
        404,
        "NOT_FOUND - no exchange 'x' in vhost '/'",
    )
    assert client.channel(2).refused(methods.QueueBind(queue="q", exchange="amq.fanout")) == (
        404,
        "NOT_FOUND - no queue 'q' in vhost '/'",
    )


def test_unbinding_what_is_not_there_is_no_error(channel: ChannelClient) -> None:
    channel.declare("q")
    for queue, exchange in (("q", "amq.fanout"), ("q", "missing"), ("missing", "amq.fanout")):
        channel.call(methods.QueueUnbind(queue=queue, exchange=exchange), methods.QueueUnbindOk)
    channel.call(methods.ExchangeUnbind(source="missing", destination="amq.fanout"), methods.ExchangeUnbindOk)


def test_binding_twice_is_binding_once(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.bind("q", "amq.direct", "k")
    channel.bind("q", "amq.direct", "k")
    assert len(world.vhost.exchanges["amq.direct"].bindings) == 1


def test_binding_needs_write_on_the_destination_and_read_on_the_source(world: World) -> None:
    world.add_user("bob", write="^(q|amq.default)$", read="^(q|amq.fanout)$")
    client = world.connect("bob")
    one = client.channel(1)
    one.declare("q")
    one.declare("r")
    one.bind("q", "amq.fanout")
    assert one.refused(methods.QueueBind(queue="r", exchange="amq.fanout"))[1].startswith(
        "ACCESS_REFUSED - write access to queue 'r'"
    )
    assert (
        client.channel(2)
        .refused(methods.QueueBind(queue="q", exchange="amq.direct"))[1]
        .startswith("ACCESS_REFUSED - read access to exchange 'amq.direct'")
    )


def test_bindings_go_with_either_end(world: World) -> None:
    channel = world.channel()
    channel.declare("q")
    channel.declare_exchange("x", "fanout")
    channel.bind("q", "x")
    channel.call(methods.QueueDelete(queue="q"), methods.QueueDeleteOk)
    assert world.vhost.exchanges["x"].bindings == {}
    channel.declare("q")
    channel.bind("q", "x")
    channel.call(methods.ExchangeDelete(exchange="x"), methods.ExchangeDeleteOk)
    assert world.vhost.bindings_to(world.queue("q")) == []
    channel.declare_exchange("x", "fanout")
    channel.publish("m", "", "x")
    assert channel.bodies_in("q") == []
