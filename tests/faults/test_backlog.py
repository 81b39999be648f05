"""A backlog of a size that a test can wait for; `make faults` takes five million."""

from __future__ import annotations

import sys

import pytest

from tests.faults import backlog

MIB = 1 << 20


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_backlog_costs_disk_and_not_memory_and_comes_back_in_order() -> None:
    report = backlog.run(200_000)
    if not report.confined:
        sys.stderr.write("backlog: not in a memory cgroup, because none could be made\n")
    assert report.is_whole(), report
    # 200,000 messages as objects would take some 150 MB more than a broker without any.
    assert max(report.peak_filling, report.peak_draining) < 110 * MIB, report
    assert report.restart_seconds < 10
    # Of 40 MB that were written, only the segment being written is left.
    assert report.left_on_disk < 35 * MIB, report


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_broker_that_keeps_all_in_memory_is_found_out() -> None:
    report = backlog.run(100_000, sabotage="keep-all")
    assert report.is_whole(), report
    assert max(report.peak_filling, report.peak_draining) > 110 * MIB, report
