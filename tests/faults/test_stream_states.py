"""Whatever a crash takes of a stream that was not synced, and whenever: what was promised is there, at its offset."""

from __future__ import annotations

import pytest

from tests.faults.crash_states import Found
from tests.faults.stream_states import KINDS, Explorer, run

SEED = 20261115


@pytest.mark.parametrize("part", range(4))
def test_streams_survive_crashes_at_every_operation(part: int) -> None:
    explorer = Explorer(SEED + part)
    number = 0
    while explorer.states < 1000:
        explorer.explore(number)
        number += 1


@pytest.mark.parametrize("broken", KINDS)
def test_a_broken_disk_is_found_out(broken: str) -> None:
    with pytest.raises(Found):
        run(20_000, SEED, broken)
