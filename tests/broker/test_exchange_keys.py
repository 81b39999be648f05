"""Exchanges that look at keys as they are (default, direct, fanout), and what bind and unbind promise of every type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.default import DefaultExchange
from warren.broker.exchanges.types import KNOWN_TYPES, create
from warren.errors import PreconditionFailed

QUEUES = {name: Destination("/", name, False) for name in ("q0", "q1", "q2")}
# Serves as the weight of a consistent hash and as any other type's key; x-local-random wants none.
KEY_OF_TYPE = {"x-local-random": ""}
# These lead elsewhere than their bindings: see test_schedule.py and test_exchange_pipeline.py.
PLAIN_TYPES = [type for type in KNOWN_TYPES if type not in ("x-delayed-message", "x-pipeline")]


def names(found: list[Destination]) -> set[str]:
    return {destination.name for destination in found}


binds = st.lists(st.tuples(st.sampled_from(sorted(QUEUES)), st.sampled_from(["", "a", "b"])), max_size=10, unique=True)
keys = st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=3)


@given(binds, keys)
def test_direct_finds_the_queues_of_every_equal_key(bound: list[tuple[str, str]], published: list[str]) -> None:
    exchange = create("direct", "/", "d")
    for queue, key in bound:
        exchange.bind(Binding("d", QUEUES[queue], key, {}))
    assert names(exchange.match(Envelope(published))) == {queue for queue, key in bound if key in published}


@given(binds, keys)
def test_fanout_finds_everything_bound(bound: list[tuple[str, str]], published: list[str]) -> None:
    exchange = create("fanout", "/", "f")
    for queue, key in bound:
        exchange.bind(Binding("f", QUEUES[queue], key, {}))
    assert names(exchange.match(Envelope(published))) == {queue for queue, _ in bound}


@pytest.mark.parametrize("type", ["direct", "fanout", "topic"])
@given(data=st.data())
def test_binds_and_unbinds_in_any_order_leave_what_is_still_bound(type: str, data: st.DataObject) -> None:
    exchange = create(type, "/", "x")
    for queue, key in data.draw(binds):
        exchange.bind(Binding("x", QUEUES[queue], key, {}))
    for identity in data.draw(st.permutations(list(exchange.bindings))):
        exchange.unbind(identity)
        left = exchange.bindings.values()
        expected = {binding.destination.name for binding in left if type == "fanout" or binding.routing_key == "a"}
        assert names(exchange.match(Envelope(["a"]))) == expected


def test_the_default_exchange_finds_queues_by_name_and_sees_new_ones() -> None:
    queues = dict(QUEUES)
    exchange = DefaultExchange("/", queues)
    assert names(exchange.match(Envelope(["q0"]))) == {"q0"}
    assert exchange.match(Envelope(["other"])) == []
    queues["other"] = Destination("/", "other", False)
    assert names(exchange.match(Envelope(["other", "q1", "none"]))) == {"other", "q1"}


@pytest.mark.parametrize("type", PLAIN_TYPES)
def test_binding_twice_is_one_binding(type: str) -> None:
    exchange = create(type, "/", "x")
    key = KEY_OF_TYPE.get(type, "1")
    assert exchange.bind(Binding("x", QUEUES["q0"], key, {}))
    assert not exchange.bind(Binding("x", QUEUES["q0"], key, {}))
    assert len(exchange.bindings) == 1
    assert names(exchange.match(Envelope([key]))) == {"q0"}


@pytest.mark.parametrize("type", PLAIN_TYPES)
def test_unbinding_the_only_binding_leaves_nothing_to_match(type: str) -> None:
    exchange = create(type, "/", "x")
    binding = Binding("x", QUEUES["q0"], KEY_OF_TYPE.get(type, "1"), {})
    exchange.bind(binding)
    assert names(exchange.match(Envelope([binding.routing_key]))) == {"q0"}
    assert exchange.unbind(binding.identity) is binding
    assert exchange.match(Envelope([binding.routing_key])) == []
    assert exchange.unbind(binding.identity) is None


@pytest.mark.parametrize("type", ["direct", "fanout", "topic"])
def test_a_key_bound_with_two_sets_of_arguments_needs_two_unbinds(type: str) -> None:
    exchange = create(type, "/", "x")
    first = Binding("x", QUEUES["q0"], "1", {})
    second = Binding("x", QUEUES["q0"], "1", {"n": Field("I", 1)})
    assert exchange.bind(first)
    assert exchange.bind(second)
    assert [target.name for target in exchange.match(Envelope(["1"]))] == ["q0"]
    exchange.unbind(first.identity)
    assert names(exchange.match(Envelope(["1"]))) == {"q0"}
    exchange.unbind(second.identity)
    assert exchange.match(Envelope(["1"])) == []


def test_the_order_of_arguments_makes_no_second_binding() -> None:
    one, two = Field("I", 1), Field("I", 2)
    exchange = create("headers", "/", "x")
    assert exchange.bind(Binding("x", QUEUES["q0"], "", {"a": one, "b": two}))
    assert not exchange.bind(Binding("x", QUEUES["q0"], "", {"b": two, "a": one}))


def test_a_queue_and_an_exchange_of_one_name_are_two_destinations() -> None:
    exchange = create("fanout", "/", "x")
    assert exchange.bind(Binding("x", QUEUES["q0"], "", {}))
    assert exchange.bind(Binding("x", create("fanout", "/", "q0"), "", {}))
    assert len(exchange.match(Envelope([""]))) == 2


def test_a_list_once_handed_out_does_not_change_under_its_reader() -> None:
    exchange = create("direct", "/", "d")
    exchange.bind(Binding("d", QUEUES["q0"], "a", {}))
    before = exchange.match(Envelope(["a"]))
    exchange.bind(Binding("d", QUEUES["q1"], "a", {}))
    assert [target.name for target in before] == ["q0"]
    assert names(exchange.match(Envelope(["a"]))) == {"q0", "q1"}


@pytest.mark.parametrize("type", PLAIN_TYPES)
def test_create_keeps_what_was_declared(type: str) -> None:
    arguments = {"alternate-exchange": Field("S", "other")}
    exchange: Exchange = create(type, "v", "x", durable=False, auto_delete=True, internal=True, arguments=arguments)
    assert (exchange.type, exchange.vhost, exchange.name) == (type, "v", "x")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (False, True, True)
    assert exchange.arguments is arguments
    assert exchange.is_exchange


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        create("x-nonsense", "/", "x")
    assert refusal.value.reply_text == "PRECONDITION_FAILED - unknown exchange type 'x-nonsense'"
