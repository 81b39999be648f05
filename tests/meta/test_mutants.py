"""The list of changes that no test notices: each of them still is one, and each says why it may."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import mutants

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_every_excuse_is_one_for_a_change_that_can_be_made() -> None:
    assert mutants.excuses_of_nothing() == []
    assert [key for key, reason in mutants.accepted().items() if not reason] == []


def test_no_excuse_covers_two_changes(tmp_path: Path) -> None:
    file = tmp_path / "twice.py"
    file.write_text("def f(a):\n    if a < 1:\n        return 1, 1\n    return 1, 1\n")
    found = mutants.mutants_of(str(file))
    assert len(found) == 6
    assert len({mutant.key for mutant in found}) == 6
    assert len({mutant.code().co_code + bytes(str(mutant.code().co_consts), "utf-8") for mutant in found}) == 6
