"""The path against the live broker on definitions and traffic that Hypothesis makes; equality.py runs it at length."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.spark.path.equality import compare
from warren.spark.path import play, routing
from warren.spark.path.components import Components
from warren.spark.path.topology import Topology

SLOWLY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.mark.timeout(180)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOWLY)
@given(st.randoms(use_true_random=False))
def test_the_path_is_the_broker(draw: random.Random) -> None:
    assert compare(draw, 25) == ""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", range(8))
def test_over_longer_traffic_too(seed: int) -> None:
    assert compare(random.Random(f"longer {seed}"), 200) == ""


def test_queues_that_are_played_apart_end_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    def each_alone(topology: Topology, consumed: frozenset[tuple[str, str]] = frozenset()) -> Components:
        count = len(topology.queues)
        return Components(list(range(count)), [False] * count)

    monkeypatch.setattr(play, "known_components", each_alone)
    monkeypatch.setattr(routing, "known_components", each_alone)
    assert any(compare(random.Random(f"apart {seed}"), 100) for seed in range(5))
