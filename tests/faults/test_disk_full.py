"""A small disk fills and is drained twice; `make faults` does it twenty times."""

from __future__ import annotations

import pytest

from tests.faults import disk_full

REASON = disk_full.reason_to_skip()
pytestmark = [pytest.mark.long, pytest.mark.skipif(REASON is not None, reason=str(REASON)), pytest.mark.timeout(120)]


def test_a_full_disk_blocks_publishers_until_consumers_have_made_room() -> None:
    report = disk_full.run(2)
    assert report.is_good(), report.complaints()
    assert report.cycles == 2
    assert report.slowest_block < 1.0
    assert report.least_free > 0


def test_a_broker_without_the_alarm_stops_at_the_end_of_the_disk_and_starts_again_with_more() -> None:
    report = disk_full.run(1, "no-alarm")
    assert not report.is_good()
    assert any("exit code 1" in failure and "No space left on device" in failure for failure in report.failures)
    assert report.verdict.confirmed > 0
    assert report.verdict.is_good(), report.complaints()
