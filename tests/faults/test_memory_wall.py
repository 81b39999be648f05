"""A broker at the wall of its memory, once; `make faults` does it twenty times."""

from __future__ import annotations

import pytest

from tests.faults import memory_wall

REASON = memory_wall.reason_to_skip()
pytestmark = [pytest.mark.long, pytest.mark.skipif(REASON is not None, reason=str(REASON)), pytest.mark.timeout(180)]


def test_floods_block_publishers_and_nothing_confirmed_is_lost() -> None:
    report = memory_wall.run(1, seconds=2.0)
    assert report.is_good(), report.complaints()
    assert report.blocked > 0
    assert report.verdict.confirmed > 0


def test_a_broker_without_limits_is_killed() -> None:
    report = memory_wall.run(1, seconds=4.0, sabotage="no-limits")
    assert any("exit code -9" in failure for failure in report.failures)
