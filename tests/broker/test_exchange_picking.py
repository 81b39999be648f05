"""Exchanges that pick one destination: consistent hash, modulus hash, random."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Binding, Destination, Envelope, Exchange
from warren.broker.exchanges.consistent_hash import ConsistentHashExchange
from warren.broker.exchanges.random import LocalRandomExchange
from warren.broker.exchanges.types import create
from warren.errors import PreconditionFailed

KEYS = [f"user-{number}" for number in range(20_000)]
FEW_KEYS = KEYS[:500]


def bound(type: str, weights: dict[str, str], arguments: Table | None = None) -> Exchange:
    exchange = create(type, "/", "x", arguments=arguments)
    for queue, key in weights.items():
        exchange.bind(Binding("x", Destination("/", queue, False), key, {}))
    return exchange


def pick(exchange: Exchange, envelope: Envelope) -> str:
    found = exchange.match(envelope)
    assert len(found) == 1
    return found[0].name


def picks(exchange: Exchange, keys: list[str]) -> dict[str, str]:
    return {key: pick(exchange, Envelope([key])) for key in keys}


def unbind_queue(exchange: Exchange, queue: str) -> None:
    for identity in [identity for identity in exchange.bindings if identity[1] == queue]:
        exchange.unbind(identity)


@pytest.mark.parametrize("type", ["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random"])
def test_without_bindings_nothing_is_picked(type: str) -> None:
    assert create(type, "/", "x").match(Envelope(["key"], draw=5)) == []


def test_keys_are_shared_out_by_weight() -> None:
    weights = {"small": "1", "middle": "2", "large": "7"}
    counts = Counter(picks(bound("x-consistent-hash", weights), KEYS).values())
    for queue, weight in weights.items():
        assert abs(counts[queue] / len(KEYS) - int(weight) / 10) < 0.01


def test_equal_weights_share_evenly_among_many() -> None:
    counts = Counter(picks(bound("x-consistent-hash", {f"q{n}": "1" for n in range(20)}), KEYS).values())
    assert len(counts) == 20
    assert max(counts.values()) < 1.15 * len(KEYS) / 20
    assert min(counts.values()) > 0.85 * len(KEYS) / 20


def test_a_new_destination_takes_keys_only_for_itself() -> None:
    exchange = bound("x-consistent-hash", {"a": "1", "b": "3", "c": "2"})
    before = picks(exchange, FEW_KEYS)
    exchange.bind(Binding("x", Destination("/", "d", False), "2", {}))
    after = picks(exchange, FEW_KEYS)
    moved = {key for key in FEW_KEYS if before[key] != after[key]}
    assert moved
    assert {after[key] for key in moved} == {"d"}


def test_a_destination_that_goes_gives_up_only_its_own_keys() -> None:
    exchange = bound("x-consistent-hash", {"a": "1", "b": "3", "c": "2"})
    before = picks(exchange, FEW_KEYS)
    unbind_queue(exchange, "a")
    after = picks(exchange, FEW_KEYS)
    assert {before[key] for key in FEW_KEYS if before[key] != after[key]} == {"a"}


@given(st.permutations(["a", "b", "c", "d"]), st.sets(st.sampled_from(["e", "f"])))
def test_the_order_and_history_of_binds_do_not_matter(order: list[str], passing: set[str]) -> None:
    exchange = bound("x-consistent-hash", {queue: "2" for queue in [*sorted(passing), *order]})
    for queue in passing:
        unbind_queue(exchange, queue)
    settled = bound("x-consistent-hash", {queue: "2" for queue in "abcd"})
    assert picks(exchange, FEW_KEYS[:50]) == picks(settled, FEW_KEYS[:50])


def test_picks_are_the_same_in_every_process_and_release() -> None:
    # A change of these moves live keys between users' queues, and must be told in the changelog.
    queues = {"q0": "1", "q1": "1", "q2": "1", "q3": "1"}
    keys = ["", "a", "b", "order.created", "日本"]
    assert list(picks(bound("x-consistent-hash", queues), keys).values()) == ["q2", "q3", "q2", "q0", "q1"]
    assert list(picks(bound("x-modulus-hash", queues), keys).values()) == ["q0", "q1", "q1", "q3", "q0"]


def test_only_the_routing_key_counts_not_cc() -> None:
    exchange = bound("x-consistent-hash", {f"q{n}": "1" for n in range(8)})
    for key in FEW_KEYS[:50]:
        assert pick(exchange, Envelope([key])) == pick(exchange, Envelope([key, "other", "third"]))


def test_a_second_weight_for_one_destination_adds_nothing_and_takes_over_when_the_first_goes() -> None:
    exchange = bound("x-consistent-hash", {"a": "1", "b": "1"})
    before = picks(exchange, FEW_KEYS)
    exchange.bind(Binding("x", Destination("/", "a", False), "50", {}))
    assert picks(exchange, FEW_KEYS) == before
    exchange.unbind(next(iter(exchange.bindings)))
    assert Counter(picks(exchange, FEW_KEYS).values())["a"] > 450


def test_hashing_by_a_header_ignores_the_key() -> None:
    exchange = bound("x-consistent-hash", {f"q{n}": "1" for n in range(8)}, {"hash-header": Field("S", "user")})
    assert exchange.looks_beyond_keys
    picked = {pick(exchange, Envelope([key], {"user": Field("S", "eve")})) for key in FEW_KEYS[:50]}
    assert len(picked) == 1
    assert len({pick(exchange, Envelope([""], {"user": Field("S", key)})) for key in FEW_KEYS}) == 8


def test_messages_without_the_header_go_one_way() -> None:
    exchange = bound("x-consistent-hash", {f"q{n}": "1" for n in range(8)}, {"hash-header": Field("S", "user")})
    other: Table = {"other": Field("I", 1)}
    assert {pick(exchange, Envelope([key], headers)) for key in FEW_KEYS for headers in (None, other)} == {
        pick(exchange, Envelope([""]))
    }


@pytest.mark.parametrize(
    "field",
    [
        Field("I", 7),
        Field("t", True),
        Field("d", 0.5),
        Field("V", None),
        Field("x", b"\xff"),
        Field("A", []),
        Field("A", [Field("S", "head"), Field("S", "tail")]),
        Field("F", {"a": Field("I", 1)}),
    ],
)
def test_a_header_of_any_kind_can_be_hashed(field: Field) -> None:
    exchange = bound("x-consistent-hash", {"a": "1", "b": "1"}, {"hash-header": Field("S", "h")})
    first = pick(exchange, Envelope([""], {"h": field}))
    assert pick(exchange, Envelope(["other"], {"h": field})) == first


def test_integers_hash_alike_whatever_their_width() -> None:
    exchange = bound("x-consistent-hash", {f"q{n}": "1" for n in range(8)}, {"hash-header": Field("S", "h")})
    for number in range(50):
        narrow, wide = Envelope([""], {"h": Field("b", number)}), Envelope([""], {"h": Field("l", number)})
        assert pick(exchange, narrow) == pick(exchange, wide)


def envelope_with(property: str, number: int) -> Envelope:
    if property == "correlation_id":
        return Envelope(["same"], correlation_id=str(number))
    if property == "message_id":
        return Envelope(["same"], message_id=str(number))
    return Envelope(["same"], timestamp=number)


@pytest.mark.parametrize("property", ["correlation_id", "message_id", "timestamp"])
def test_hashing_by_a_property_spreads_messages_of_one_key(property: str) -> None:
    exchange = bound("x-consistent-hash", {f"q{n}": "1" for n in range(4)}, {"hash-property": Field("S", property)})
    assert exchange.looks_beyond_keys
    assert len({pick(exchange, envelope_with(property, number)) for number in range(100)}) == 4


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        ({"hash-property": Field("S", "app_id")}, "Unsupported property: app_id"),
        (
            {"hash-property": Field("S", "message_id"), "hash-header": Field("S", "h")},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-header": Field("I", 1)}, "hash-header must be a string"),
    ],
)
def test_arguments_that_name_no_single_source_are_refused(arguments: Table, explanation: str) -> None:
    with pytest.raises(PreconditionFailed) as refusal:
        create("x-consistent-hash", "/", "x", arguments=arguments)
    assert refusal.value.explanation == explanation


@pytest.mark.parametrize(
    ("key", "explanation"),
    [
        ("", "The binding key must be an integer: <<>>"),
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("²", 'The binding key must be an integer: <<"²"/utf8>>'),
        ("\udcff1", "The binding key must be an integer: <<255,49>>"),
        ("0", "The binding key must be greater than 0"),
        ("-3", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
        ("9" * 255, "The binding key must not exceed 10000"),
    ],
)
def test_a_weight_that_is_none_is_refused(key: str, explanation: str) -> None:
    exchange = ConsistentHashExchange("/", "x", {})
    with pytest.raises(PreconditionFailed) as refusal:
        exchange.check_binding(Binding("x", Destination("/", "q", False), key, {}))
    assert refusal.value.explanation == explanation


@pytest.mark.parametrize("key", ["1", "+5", "007", "10000"])
def test_a_weight_within_bounds_is_accepted(key: str) -> None:
    exchange = ConsistentHashExchange("/", "x", {})
    binding = Binding("x", Destination("/", "q", False), key, {})
    exchange.check_binding(binding)
    exchange.bind(binding)
    assert pick(exchange, Envelope(["any"])) == "q"


def test_modulus_spreads_evenly_and_sticks() -> None:
    exchange = bound("x-modulus-hash", {f"q{n}": "" for n in range(5)})
    counts = Counter(picks(exchange, KEYS).values())
    assert len(counts) == 5
    assert max(counts.values()) < 1.1 * len(KEYS) / 5
    assert picks(exchange, FEW_KEYS) == picks(bound("x-modulus-hash", {f"q{n}": "" for n in (4, 2, 0, 1, 3)}), FEW_KEYS)


def test_random_picks_by_the_draw_and_gives_each_binding_its_share() -> None:
    exchange = bound("x-random", {"a": "k", "b": "k"})
    exchange.bind(Binding("x", Destination("/", "a", False), "other", {}))
    assert exchange.looks_beyond_keys
    counts = Counter(pick(exchange, Envelope(["whatever"], draw=draw)) for draw in range(300))
    assert counts == {"a": 200, "b": 100}


def test_local_random_takes_only_queues_without_a_key() -> None:
    exchange = LocalRandomExchange("/", "x")
    exchange.check_binding(Binding("x", Destination("/", "q", False), "", {}))
    with pytest.raises(PreconditionFailed) as with_key:
        exchange.check_binding(Binding("x", Destination("/", "q", False), "k", {}))
    assert with_key.value.explanation == "Non empty binding 'k' key not permitted"
    with pytest.raises(PreconditionFailed) as to_exchange:
        exchange.check_binding(Binding("x", exchange, "", {}))
    assert to_exchange.value.explanation == "Destination not found"
