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

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


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
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.sampled_from([None, 0, 2]))
def test_in_pieces_it_is_the_same(value: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "AT_ONCE", 0)
        assert read(text) == value


@settings(deadline=None, max_examples=300)
@given(st.text(alphabet='{}[],:"1a \n\\tnu', max_size=14))
def test_what_is_refused_at_once_is_refused_in_pieces(text: str) -> None:
    try:
        whole: Any = json.loads("{" + text)
    except ValueError:
        whole = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_bodies, "AT_ONCE", 0)
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
    assert len(pace.spent) == 1 + 1000
    assert sum(pace.spent) > len(text) // 200
