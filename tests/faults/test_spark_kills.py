"""A driver, workers and the broker killed and queries bounced, a few times; `make faults` does it by the dozen."""

from __future__ import annotations

import pytest

from tests.faults import spark_kills

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.mark.long
def test_every_message_arrives_once_when_a_driver_is_killed_and_queries_are_bounced() -> None:
    # Killed between the sink and Spark's note that the batch is done.
    report = spark_kills.run(kills=1, bounces=4, seed=3)
    assert report.is_good(), report
    assert report.driver_kills == {"after-sink": 1}
    assert report.confirmed > 50


@pytest.mark.long
def test_what_is_published_is_there_once_when_driver_workers_and_broker_are_killed() -> None:
    # The driver when all of a batch is published, and Spark has not noted it yet.
    report = spark_kills.run(kills=1, workers=2, brokers=2, seed=7, queries=("copy",))
    assert report.is_good(), report
    assert report.driver_kills == {"after-publish": 1}
    assert report.worker_kills > 0 and report.broker_kills == 2, report
    assert report.copies > 50


@pytest.mark.long
@pytest.mark.parametrize("query", ["copy-queue", "copy-files"])
def test_what_was_in_a_queue_or_in_files_is_published_once_through_all_kills(query: str) -> None:
    # The driver when some tasks of a batch are done, and when all are; others have another number of cores.
    report = spark_kills.run(kills=2, workers=2, brokers=2, seed=6, queries=(query,))
    assert report.is_good(), report
    assert report.driver_kills == {"during-publish": 1, "after-publish": 1}
    assert report.worker_kills > 0 and report.broker_kills == 2, report
    assert report.copies > 50


@pytest.mark.long
def test_a_sink_without_numbers_is_found_out_where_no_ids_are_looked_for() -> None:
    report = spark_kills.run(kills=1, sabotage="unnumbered")
    assert report.lost == 0, report
    assert report.doubled["plain"] > 0 and report.doubled["log"] > 0, report
    assert report.doubled["looking-out"] == 0, report


@pytest.mark.long
def test_a_sink_that_does_not_know_repeated_batches_is_found_out() -> None:
    report = spark_kills.run(kills=1, sabotage="append")
    assert report.duplicated > 0, report


@pytest.mark.long
def test_a_source_that_settles_on_receipt_is_found_out() -> None:
    report = spark_kills.run(kills=1, sabotage="settle-early")
    assert report.lost > 0, report
