"""A driver killed and queries bounced, a few times; `make faults` does it by the dozen, workers and brokers too."""

from __future__ import annotations

import pytest

from tests.faults import spark_kills

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def test_every_message_arrives_once_when_a_driver_is_killed_and_queries_are_bounced() -> None:
    # Killed between the sink and Spark's note that the batch is done.
    report = spark_kills.run(kills=1, bounces=4, seed=3)
    assert report.is_good(), report
    assert report.driver_kills == {"after-sink": 1}
    assert report.confirmed > 50


def test_a_sink_that_does_not_know_repeated_batches_is_found_out() -> None:
    report = spark_kills.run(kills=1, sabotage="append")
    assert report.duplicated > 0, report


def test_a_source_that_settles_on_receipt_is_found_out() -> None:
    report = spark_kills.run(kills=1, sabotage="settle-early")
    assert report.lost > 0, report
