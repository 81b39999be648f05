"""Thousands of stories of nodes that fail, and brokers that break a promise, each of which must be found out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.replication import sabotage
from tests.replication.simulation import Violation, run_seed
from warren.core import IS_COMPILED

# `make faults` runs many more. Interpreted they take several times as long.
SEEDS = 2_000 if IS_COMPILED else 400
PARTS = 8


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    sabotage.switch("")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_that_was_promised_is_lost_whatever_fails(part: int) -> None:
    confirmed = failovers = shown = returned = resumed = 0
    for seed in range(part, SEEDS, PARTS):
        try:
            world = run_seed(seed)
        except Violation as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        confirmed += len(world.ledger.confirmed)
        failovers += world.failovers
        shown += world.ledger.shown_on_followers
        returned += len(world.ledger.returns)
        resumed += world.resumed
    # Otherwise nothing happened that could go wrong.
    stories = SEEDS // PARTS
    assert confirmed > 20 * stories
    assert failovers > 2 * stories
    assert shown > 20 * stories
    assert returned > stories
    assert resumed > stories // 4


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", sabotage.KINDS)
def test_a_node_that_breaks_a_promise_is_found_out(kind: str) -> None:
    sabotage.switch(kind)
    with pytest.raises(Violation):
        for seed in range(600):
            run_seed(seed)
