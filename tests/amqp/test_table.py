"""The classes of methods are those of the table they are generated from. That it is right, test_foreign.py shows."""

from __future__ import annotations

import pytest
from tools.amqp_methods import METHODS_FILE, Argument, class_of, methods, source

from warren.amqp import constants
from warren.amqp.methods import METHODS


def test_the_classes_are_written_from_the_table() -> None:
    assert METHODS_FILE.read_text() == source(), "run `make methods`"


def test_the_table_has_every_method_that_has_a_number() -> None:
    groups = ("CONNECTION_", "CHANNEL_", "ACCESS_", "EXCHANGE_", "QUEUE_", "BASIC_", "CONFIRM_", "TX_")
    numbers = {value for name, value in vars(constants).items() if name.startswith(groups)}
    assert {method.id for method in METHODS} == numbers
    assert [method.name for method in METHODS] == list(methods())


def test_a_default_is_empty_unless_it_is_said() -> None:
    empty = [Argument(word).default for word in ("a:short", "a:bit", "a:shortstr", "a:longstr", "a:table")]
    assert empty == ["0", "False", '""', 'b""', "None"]
    said = [Argument(word).default for word in ("a:short=9", "a:bit=1", "a:shortstr=/", "a:longstr=PLAIN")]
    assert said == ["9", "True", '"/"', 'b"PLAIN"']


def test_bits_apart_from_each_other_are_refused() -> None:
    with pytest.raises(AssertionError, match="bits apart"):
        class_of("basic.get", [Argument(word) for word in ("a:bit", "b:short", "c:bit")])


def test_a_type_that_is_unknown_is_refused() -> None:
    with pytest.raises(KeyError, match="longint"):
        Argument("a:longint")
