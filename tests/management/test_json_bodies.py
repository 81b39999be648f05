"""A long body is read in pieces, and means what it means when it is read at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warren.management import json_bodies
from warren.management.json_bodies import json_in
from warren.management.pieces import Pace
from warren.strict_json import loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
# What is read at once of a long body: nothing, hardly anything, or all of these.
WINDOWS = st.sampled_from([0, 2, 5, 1000])


class Counted:
    """In place of a request's pace: how often it could have waited, and for what cost."""

    def __init__(self) -> None:
        self.spent: list[int] = []

    async def spend(self, units: int) -> None:
        self.spent.append(units)


def read(text: str | bytes, pace: Counted | None = None) -> Any:
    data = text.encode() if isinstance(text, str) else text
    return asyncio.run(json_in(data, cast(Pace, pace or Counted())))


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_bodies, "AT_ONCE", 0)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.sampled_from([None, 0, 2]), WINDOWS)
def test_in_pieces_it_is_the_same(value: dict[str, Any], indent: int | None, window: int) -> None:
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "AT_ONCE", 0)
        patch.setattr(json_bodies, "WINDOW", window)
        assert read(text) == value


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet='{}[],:"1a \n\\tnu', max_size=14), WINDOWS)
def test_what_is_refused_at_once_is_refused_in_pieces(text: str, window: int) -> None:
    try:
        whole: Any = json.loads("{" + text)
    except ValueError:
        whole = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "AT_ONCE", 0)
        patch.setattr(json_bodies, "WINDOW", window)
        try:
            assert read("{" + text) == whole
        except ValueError:
            assert whole is None


@pytest.mark.parametrize("at_once", [0, 100])
@pytest.mark.parametrize(
    "text",
    ['{"a": [NaN]}', '{"a": ["\\ud800"]}', '{"a": "\\ud800"}', '{"a": Infinity}', '{"a": 1e999}', '{"a": [-1e999]}'],
)
def test_what_could_not_be_written_again_is_refused(monkeypatch: pytest.MonkeyPatch, at_once: int, text: str) -> None:
    monkeypatch.setattr(json_bodies, "AT_ONCE", at_once)
    with pytest.raises(ValueError):
        read(text)


def test_other_encodings_are_read_as_before(long: None) -> None:
    assert read('{"a": ["ü"]}'.encode("utf-16")) == {"a": ["ü"]}


def test_the_text_and_every_entry_of_a_list_are_charged(long: None) -> None:
    pace = Counted()
    text = json.dumps({"queues": [{"name": "q" * 500}] * 1000})
    assert len(read(text, pace)["queues"]) == 1000
    # The text, the list's name, that it was too long to be read at once, and its entries.
    assert len(pace.spent) == 3 + 1000
    assert sum(pace.spent) > len(text) // 200


@pytest.mark.parametrize(
    "value",
    [{"a": {"b": [1] * 100_000}}, {"a": {"b": {str(n): n for n in range(30_000)}}}, {"a": [["x" * 9] * 50_000]}],
)
def test_however_deep_the_long_part_lies_it_is_read_in_pieces(value: dict[str, Any]) -> None:
    pace = Counted()
    text = json.dumps(value)
    assert read(text, pace) == value
    assert sum(pace.spent) > len(text) // 200
    # But for the text as a whole.
    assert max(pace.spent[1:]) <= 2 + json_bodies.WINDOW // 100


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.sampled_from(
            ["a", "ü", "\\n", "\\\\", '\\"', "\\u00e4", "\\ud83d\\udc30", "\\ud83d", "\\udc30", "\\u00", "\\x", "\n"]
        ),
        max_size=30,
    )
)
def test_a_text_means_the_same_wherever_it_is_cut(signs: list[str]) -> None:
    text = '{"a": "' + "".join(signs) + '"}'
    try:
        whole: Any = loads(text.encode())
    except ValueError:
        whole = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "AT_ONCE", 0)
        patch.setattr(json_bodies, "WINDOW", 0)
        try:
            assert read(text) == whole
        except ValueError:
            assert whole is None


def test_a_long_text_is_read_in_pieces() -> None:
    pace = Counted()
    value = {"payload": '\n\t"\\ü\U0001f430' * 100_000}
    text = json.dumps(value)
    assert read(text, pace) == value
    assert sum(pace.spent) > len(text) // 200
    assert max(pace.spent[1:]) <= 1 + json_bodies.WINDOW // 100


def test_what_is_long_and_very_deep_is_refused() -> None:
    text = '{"a":' + "[" * 40 + "1," * 50_000 + "1" + "]" * 40 + "}"
    with pytest.raises(ValueError, match="deep"):
        read(text)
    with pytest.raises(ValueError, match="an object"):
        read("[" + "1," * 50_000 + "1]")
    with pytest.raises((ValueError, RecursionError)):
        read('{"a":' + "[" * 200_000)
