"""Headers exchanges: the index against the rules read one by one, and the edges by name."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.amqp.fields import Field, Table
from warren.broker.exchanges.base import Binding, Destination, Envelope
from warren.broker.exchanges.headers import HeadersExchange
from warren.errors import PreconditionFailed

ONE, TWO, VOID = Field("I", 1), Field("I", 2), Field("V", None)


def text(value: str) -> Field:
    return Field("S", value)


def rule_matches(arguments: Table, headers: Table) -> bool:
    """The rule as it is written down; values here are such that == is exact."""
    mode = arguments["x-match"].value if "x-match" in arguments else "all"
    answers: list[bool] = []
    for name, field in arguments.items():
        if name == "x-match" or (name.startswith("x-") and mode in ("all", "any")):
            continue
        answers.append(name in headers and (field.value is None or headers[name].value == field.value))
    return any(answers) if mode in ("any", "any-with-x") else all(answers)


def bound(*argument_tables: Table) -> HeadersExchange:
    exchange = HeadersExchange("/", "h")
    for number, arguments in enumerate(argument_tables):
        exchange.bind(Binding("h", Destination("/", str(number), False), "", arguments))
    return exchange


def found(exchange: HeadersExchange, headers: Table | None) -> set[str]:
    return {destination.name for destination in exchange.match(Envelope([""], headers))}


def is_match(arguments: Table, headers: Table | None) -> bool:
    return found(bound(arguments), headers) == {"0"}


fields = st.sampled_from([ONE, TWO, VOID, text("1"), text("")])
header_tables = st.dictionaries(st.sampled_from(["a", "b", "c", "x-a", "x-match"]), fields, max_size=4)
modes = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


@st.composite
def argument_tables(draw: st.DrawFn) -> Table:
    asked = draw(st.dictionaries(st.sampled_from(["a", "b", "c", "x-a", "x-b"]), fields, max_size=4))
    mode = draw(modes)
    return asked if mode is None else {"x-match": text(mode), **asked}


@given(st.lists(argument_tables(), max_size=8), st.one_of(st.none(), header_tables))
def test_the_index_finds_exactly_what_the_rules_say(rules: list[Table], headers: Table | None) -> None:
    expected = {str(number) for number, rule in enumerate(rules) if rule_matches(rule, headers or {})}
    assert found(bound(*rules), headers) == expected


@given(st.lists(argument_tables(), max_size=8), st.sets(st.integers(0, 7)), header_tables)
def test_what_was_unbound_is_not_found_and_the_rest_is(rules: list[Table], gone: set[int], headers: Table) -> None:
    exchange = bound(*rules)
    for binding in list(exchange.bindings.values()):
        if int(binding.destination.name) in gone:
            exchange.unbind(binding.identity)
    expected = {str(n) for n, rule in enumerate(rules) if n not in gone and rule_matches(rule, headers)}
    assert found(exchange, headers) == expected


def test_all_is_the_default_and_wants_every_header() -> None:
    for arguments in ({"a": ONE, "b": TWO}, {"x-match": text("all"), "a": ONE, "b": TWO}):
        assert is_match(arguments, {"b": TWO, "a": ONE, "c": ONE})
        assert not is_match(arguments, {"a": ONE})
        assert not is_match(arguments, {"a": ONE, "b": ONE})
        assert not is_match(arguments, None)


def test_any_wants_one_header() -> None:
    arguments = {"x-match": text("any"), "a": ONE, "b": TWO}
    assert is_match(arguments, {"b": TWO})
    assert not is_match(arguments, {"a": TWO, "b": ONE})
    assert not is_match(arguments, None)


def test_nothing_asked_matches_all_messages_and_any_of_nothing_matches_none() -> None:
    assert is_match({}, None)
    assert is_match({"x-match": text("all")}, {"a": ONE})
    assert is_match({"x-other": ONE}, {})
    assert not is_match({"x-match": text("any")}, {"a": ONE})
    assert not is_match({"x-match": text("any"), "x-a": ONE}, {"x-a": ONE})
    assert is_match({"x-match": text("all-with-x")}, None)


def test_void_asks_only_for_the_header_to_be_there() -> None:
    assert is_match({"a": VOID}, {"a": text("anything")})
    assert is_match({"a": VOID}, {"a": VOID})
    assert not is_match({"a": VOID}, {"b": ONE})
    assert is_match({"x-match": text("any"), "a": VOID, "b": ONE}, {"a": TWO})


def test_a_void_header_equals_no_value() -> None:
    assert not is_match({"a": text("")}, {"a": VOID})


def test_arguments_that_begin_with_x_count_only_when_asked_to() -> None:
    assert is_match({"x-a": ONE, "b": ONE}, {"b": ONE})
    assert not is_match({"x-match": text("all-with-x"), "x-a": ONE, "b": ONE}, {"b": ONE})
    assert is_match({"x-match": text("all-with-x"), "x-a": ONE, "b": ONE}, {"b": ONE, "x-a": ONE})
    assert is_match({"x-match": text("any-with-x"), "x-a": ONE}, {"x-a": ONE})


@pytest.mark.parametrize(
    ("asked", "given_field", "equal"),
    [
        (Field("I", 1), Field("l", 1), True),
        (Field("b", 1), Field("I", 1), True),
        (Field("I", 1), Field("d", 1.0), False),
        (Field("I", 1), Field("S", "1"), False),
        (Field("I", 1), Field("t", True), False),
        (Field("t", False), Field("I", 0), False),
        (Field("t", True), Field("t", True), True),
        (Field("d", 0.5), Field("f", 0.5), True),
        (Field("S", "a"), Field("x", b"a"), True),
        (Field("S", "a"), Field("S", "A"), False),
        (Field("D", Decimal("1.0")), Field("D", Decimal("1.00")), False),
        (Field("D", Decimal("1.0")), Field("D", Decimal("1.0")), True),
        (Field("l", 1 << 62), Field("l", (1 << 62) + 1), False),
        (Field("F", {"a": ONE}), Field("F", {"a": ONE}), True),
        (Field("F", {"a": ONE}), Field("F", {"a": TWO}), False),
        (Field("A", [ONE]), Field("A", [ONE]), True),
        (Field("A", [ONE]), Field("A", [ONE, TWO]), False),
    ],
)
def test_values_are_equal_by_kind_and_exactly(asked: Field, given_field: Field, equal: bool) -> None:
    assert is_match({"a": asked}, {"a": given_field}) is equal


def test_a_queue_bound_by_two_rules_stays_until_both_are_gone() -> None:
    exchange = HeadersExchange("/", "h")
    queue = Destination("/", "q", False)
    first, second = Binding("h", queue, "", {"a": ONE}), Binding("h", queue, "", {"b": ONE})
    exchange.bind(first)
    exchange.bind(second)
    exchange.unbind(first.identity)
    assert found(exchange, {"a": ONE, "b": ONE}) == {"q"}
    exchange.unbind(second.identity)
    assert found(exchange, {"a": ONE, "b": ONE}) == set()


def test_the_routing_key_of_a_binding_does_not_matter_but_tells_bindings_apart() -> None:
    exchange = HeadersExchange("/", "h")
    queue = Destination("/", "q", False)
    assert exchange.bind(Binding("h", queue, "one", {"a": ONE}))
    assert exchange.bind(Binding("h", queue, "two", {"a": ONE}))
    exchange.unbind(next(iter(exchange.bindings)))
    assert found(exchange, {"a": ONE}) == {"q"}


@pytest.mark.parametrize("mode", ["all", "any", "all-with-x", "any-with-x"])
def test_the_four_modes_are_accepted(mode: str) -> None:
    HeadersExchange("/", "h").check_binding(Binding("h", Destination("/", "q", False), "", {"x-match": text(mode)}))


@pytest.mark.parametrize(
    ("field", "explanation"),
    [
        (text("some"), 'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x'),
        (text("é"), 'Invalid x-match field value <<"é"/utf8>>; expected all, any, all-with-x, or any-with-x'),
        (Field("I", 1), "Invalid x-match field type signedint (value 1); expected longstr"),
        (Field("t", True), "Invalid x-match field type bool (value true); expected longstr"),
    ],
)
def test_another_mode_is_refused_in_rabbitmqs_words(field: Field, explanation: str) -> None:
    binding = Binding("h", Destination("/", "q", False), "", {"x-match": field})
    with pytest.raises(PreconditionFailed) as refusal:
        HeadersExchange("/", "h").check_binding(binding)
    assert refusal.value.explanation == explanation
