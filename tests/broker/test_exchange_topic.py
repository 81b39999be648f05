"""Topic exchanges: the trie against a matcher written straight from the definition, and its edges by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field
from warren.broker.exchanges.base import Binding, Destination, Envelope
from warren.broker.exchanges.topic import TopicExchange


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


def pattern_matches(pattern: list[str], words: list[str]) -> bool:
    """The definition, by backtracking: slow and plain."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return pattern_matches(pattern[1:], words) or (bool(words) and pattern_matches(pattern, words[1:]))
    if not words:
        return False
    return pattern[0] in ("*", words[0]) and pattern_matches(pattern[1:], words[1:])


def bound(*patterns: str) -> TopicExchange:
    """A topic exchange with one queue for each pattern, named by it."""
    exchange = TopicExchange("/", "t")
    for pattern in patterns:
        exchange.bind(Binding("t", Destination("/", pattern, False), pattern, {}))
    return exchange


def found(exchange: TopicExchange, *keys: str) -> set[str]:
    return {destination.name for destination in exchange.match(Envelope(list(keys)))}


patterns = st.lists(st.sampled_from(["a", "b", "", "*", "#", "#"]), max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#"]), max_size=7).map(".".join)


@given(st.lists(patterns, max_size=12, unique=True), st.lists(keys, min_size=1, max_size=3))
def test_the_trie_finds_exactly_what_the_definition_says(bound_patterns: list[str], published: list[str]) -> None:
    expected = {
        pattern
        for pattern in bound_patterns
        if any(pattern_matches(words_of(pattern), words_of(key)) for key in published)
    }
    assert found(bound(*bound_patterns), *published) == expected


@given(st.lists(st.tuples(patterns, st.booleans()), max_size=12, unique_by=lambda item: item[0]), keys)
def test_what_was_unbound_leaves_no_trace(binds: list[tuple[str, bool]], key: str) -> None:
    exchange = bound(*[pattern for pattern, _ in binds])
    for binding in list(exchange.bindings.values()):
        if not dict(binds)[binding.routing_key]:
            exchange.unbind(binding.identity)
    fresh = bound(*[pattern for pattern, stays in binds if stays])
    assert found(exchange, key) == found(fresh, key)
    assert exchange.visited == fresh.visited


@given(st.lists(patterns, max_size=12, unique=True), keys)
def test_an_exchange_whose_bindings_all_went_has_only_its_root_left(bound_patterns: list[str], key: str) -> None:
    exchange = bound(*bound_patterns)
    for identity in list(exchange.bindings):
        exchange.unbind(identity)
    assert found(exchange, key) == set()
    assert exchange.visited == 1


@pytest.mark.parametrize(
    ("pattern", "key", "matches"),
    [
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("a", "", False),
        ("#", "a.b.c", True),
        ("*", "a", True),
        ("*", "a.b", False),
        ("a.#", "a", True),
        ("#.a", "a", True),
        ("a.*", "a", False),
        ("a.*", "a.", True),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("a.b", "a..b", False),
        ("a.#.b", "a.b", True),
        ("a.#.b", "a.x.y.b", True),
        ("a.#.b", "a.x.y", False),
        ("#.#", "", True),
        ("#.*", "", False),
        ("#.*", "a", True),
        ("*.#", "a.b", True),
        ("#.a.#", "b.a.c", True),
        ("#.*.#.*", "a", False),
        ("#.*.#.*", "a.b", True),
        ("*.*", ".", True),
        ("a*", "ab", False),
        ("a#", "ab", False),
        ("a", "A", False),
        ("日.*", "日.本", True),
    ],
)
def test_edges_of_matching(pattern: str, key: str, matches: bool) -> None:
    assert (found(bound(pattern), key) == {pattern}) is matches


def test_wildcards_in_a_published_key_are_plain_words() -> None:
    assert found(bound("a.b", "a.*", "a.#"), "a.*") == {"a.*", "a.#"}
    assert found(bound("a.b"), "#") == set()


def test_cc_keys_are_matched_as_the_routing_key_is() -> None:
    assert found(bound("a.*", "b.#", "c"), "a.x", "b") == {"a.*", "b.#"}


def test_a_second_binding_of_the_same_key_keeps_the_queue_when_the_first_goes() -> None:
    exchange = TopicExchange("/", "t")
    queue = Destination("/", "q", False)
    plain = Binding("t", queue, "a.#", {})
    with_arguments = Binding("t", queue, "a.#", {"n": Field("I", 1)})
    assert exchange.bind(plain)
    assert exchange.bind(with_arguments)
    exchange.unbind(plain.identity)
    assert found(exchange, "a.b") == {"q"}
    exchange.unbind(with_arguments.identity)
    assert found(exchange, "a.b") == set()


def test_patterns_that_collapse_to_one_are_two_bindings() -> None:
    exchange = TopicExchange("/", "t")
    queue = Destination("/", "q", False)
    short, long = Binding("t", queue, "#", {}), Binding("t", queue, "#.#.#", {})
    exchange.bind(short)
    exchange.bind(long)
    exchange.unbind(short.identity)
    assert found(exchange, "a") == {"q"}


def test_unbinding_leaves_longer_and_shorter_patterns_of_the_same_branch() -> None:
    exchange = bound("a", "a.b", "a.b.c")
    exchange.unbind((False, "a.b", "a.b", Binding("t", exchange, "", {}).identity[3]))
    assert found(exchange, "a") == {"a"}
    assert found(exchange, "a.b") == set()
    assert found(exchange, "a.b.c") == {"a.b.c"}


def test_fifty_hashes_cost_no_more_than_a_look_at_every_node() -> None:
    pattern = ".".join(["#", "a"] * 50)
    exchange = bound(pattern)
    assert found(exchange, ".".join(["a"] * 128)) == {pattern}
    assert exchange.visited <= 1 + 100
    assert found(exchange, ".".join(["a"] * 49)) == set()
    assert exchange.visited <= 1 + 100


def test_hashes_next_to_stars_cost_no_more_than_a_look_at_every_node() -> None:
    pattern = ".".join(["#", "*"] * 50)
    exchange = bound(pattern)
    assert found(exchange, ".".join(["a"] * 128)) == {pattern}
    assert exchange.visited <= 1 + 100


@given(st.lists(patterns, max_size=20, unique=True), keys)
def test_no_node_is_looked_at_twice(bound_patterns: list[str], key: str) -> None:
    exchange = bound(*bound_patterns)
    exchange.match(Envelope([key]))
    prefixes = {tuple(words_of(pattern)[:end]) for pattern in bound_patterns for end in range(8)}
    assert exchange.visited <= len(prefixes | {()})


def test_a_literal_key_looks_only_at_its_own_branch_of_ten_thousand() -> None:
    exchange = bound(*[f"sensor.{number}.temperature" for number in range(10_000)])
    assert found(exchange, "sensor.77.temperature") == {"sensor.77.temperature"}
    assert exchange.visited == 4


def test_the_longest_keys_of_the_wire_are_served() -> None:
    dots = "." * 255
    assert found(bound(dots, "#.x", "*" + ".*" * 127), dots) == {dots}
    assert found(bound("*" + ".*" * 127), "." * 127) == {"*" + ".*" * 127}


def test_destinations_come_in_the_same_order_every_time() -> None:
    names = [[target.name for target in bound("#", "a.*", "a.b", "*.b").match(Envelope(["a.b"]))] for _ in range(3)]
    assert names[0] == names[1] == names[2]
    assert sorted(names[0]) == ["#", "*.b", "a.*", "a.b"]
