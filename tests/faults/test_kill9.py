"""kill -9 under load, and every switch that must turn it red. `make faults` runs many more rounds."""

from __future__ import annotations

import pytest

from tests.faults import kill9

SEED = 20261115


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("rounds", "seed"), [(15, SEED), pytest.param(35, SEED + 1, marks=pytest.mark.long)])
def test_nothing_confirmed_is_lost_and_nothing_acked_returns_when_the_broker_is_killed(rounds: int, seed: int) -> None:
    report = kill9.run(rounds, seed)
    assert report.is_good(), report.complaints()
    assert report.rounds == rounds
    assert report.verdict.confirmed > 50 * rounds
    assert report.verdict.fenced > 50 * rounds


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("sabotage", "violated"),
    [
        ("ack-before-write", "lost"),
        ("no-acks", "resurrected"),
        ("no-watermarks", "unflagged"),
        ("late-definitions", "undefined"),
    ],
)
def test_a_broker_that_breaks_a_promise_is_found_out(sabotage: str, violated: str) -> None:
    verdicts: set[str] = set()
    for attempt in range(8):
        report = kill9.run(8, SEED + attempt, sabotage, block=8)
        verdicts |= set(report.verdict.violations())
        if violated in verdicts:
            return
    raise AssertionError(f"{sabotage} was not noticed: {verdicts}")
