"""Whatever a crash takes of what was not synced, and whenever: the store comes back to a state it may be in.

Together some 28,000 crash states; `python -m tests.faults.crash_states` goes on for as long as one likes.
"""

from __future__ import annotations

import itertools

import pytest

from tests.faults import sabotage
from tests.faults.crash_states import Explorer, Found, run
from tests.faults.crash_workload import STEPS

SEED = 20261115

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize("first", STEPS)
def test_workloads_of_three_steps_survive_a_crash_at_every_operation(first: str) -> None:
    explorer = Explorer(SEED, 2, 0.04)
    explorer.short((first,))
    for rest in itertools.chain(itertools.product(STEPS, repeat=1), itertools.product(STEPS, repeat=2)):
        explorer.short((first, *rest))
    assert explorer.states >= 1300


@pytest.mark.parametrize("part", range(8))
def test_workloads_of_fifty_steps_survive_crashes_in_recovery_and_after_it(part: int) -> None:
    explorer = Explorer(SEED + part, 2, 0.05)
    number = 0
    while explorer.states < 1200:
        explorer.long(number, 0.5)
        number += 1


@pytest.mark.parametrize("broken", sabotage.KINDS)
def test_a_broken_store_is_found_out(broken: str) -> None:
    with pytest.raises(Found):
        run(20_000, SEED, broken, False)
