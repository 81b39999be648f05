"""How a query is doing, as Spark reports it, and how the broker hears of it. No Spark needed."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from tests.management.asking import Asking
from warren import Broker
from warren.cli.pipeline_view import status_table, summary
from warren.errors import WarrenError
from warren.spark.pipelines.progress import QueryStatus, lag_of, misfits_of
from warren.spark.pipelines.reporter import Reporter
from warren.spark.spark_errors import one_line


def report(batch: int, rows: int, **more: Any) -> dict[str, Any]:
    return {"batchId": batch, "numInputRows": rows, "durationMs": {"triggerExecution": 120}, **more}


def test_rows_are_added_up_and_a_batch_counts_once() -> None:
    status = QueryStatus("totals", ["orders"], "exchange totals")
    status.take(report(0, 100))
    status.take(report(1, 50))
    # What Spark repeats while nothing comes.
    status.take(report(1, 0))
    assert (status.rows, status.batch, status.batch_ms) == (150, 1, 120)
    assert status.rows_per_second() == 15.0
    # As Spark Connect has it.
    status.take({"batchId": 2, "sources": [{"numInputRows": 3}, {"numInputRows": 4}]})
    assert status.rows == 157


def test_rows_that_came_too_late_are_counted() -> None:
    status = QueryStatus("totals", ["orders"], "exchange totals")
    status.take(report(0, 100, stateOperators=[{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}]))
    status.take(report(1, 10, stateOperators=[{"numRowsTotal": 4}]))
    assert status.as_data()["late"] == 3


@pytest.mark.parametrize(
    ("source", "lag"),
    [
        ({"endOffset": '{"s": 10}', "latestOffset": '{"s": 25}'}, 15),
        ({"endOffset": {"a": 1, "b": 5}, "latestOffset": {"a": 4, "b": 5}}, 3),
        ({"endOffset": '{"s": 10}', "latestOffset": '{"s": 8}'}, 0),
        ({"endOffset": '{"s": 10}', "latestOffset": '{"s": 8, "new": 7}'}, 7),
        ({"endOffset": '{"logOffset": 3}', "latestOffset": None}, None),
        ({"endOffset": "not JSON", "latestOffset": "not JSON"}, None),
    ],
)
def test_the_lag_is_what_is_there_and_not_read(source: dict[str, Any], lag: int | None) -> None:
    assert lag_of({"sources": [source]}) == lag


def test_misfits_of_all_sources_are_added_up() -> None:
    observed = {"misfits_orders": {"misfits": 2}, "misfits_clicks": {"misfits": 1}, "mine": {"misfits": 9}}
    assert misfits_of({"observedMetrics": observed}) == 3
    # As Spark Connect has it.
    field = {"name": "misfits", "type": "long", "nullable": False, "metadata": {}}
    connected = {"misfits_orders": {"values": [4], "schema": {"type": "struct", "fields": [field]}}}
    assert misfits_of({"observedMetrics": connected}) == 4


def test_of_spark_s_errors_one_line_is_left() -> None:
    text = "[UNRESOLVED_COLUMN] A column `amont` cannot be resolved. SQLSTATE: 42703; line 1\n'Project\n+- many lines"
    assert one_line(Exception(text)) == "[UNRESOLVED_COLUMN] A column `amont` cannot be resolved."
    ours = "Job aborted\n  Traceback\nwarren.errors.WarrenError: no broker at 127.0.0.1:1\n\tat org.apache"
    assert one_line(Exception(ours)) == "no broker at 127.0.0.1:1"
    assert one_line(WarrenError("")) == "WarrenError"


def status_of(state: str) -> dict[str, Any]:
    query = QueryStatus("totals", ["orders"], "exchange totals", state="running", last_error="a mistake")
    query.take(report(0, 1234))
    return {
        "name": "orders", "state": state, "pid": 7, "host": "here", "master": "local[2]", "error": None,
        "queries": [query.as_data()],
    }  # fmt: skip


def test_the_broker_hears_the_newest_and_the_last_status() -> None:
    with Broker(http=True) as broker:
        reporter = Reporter(broker.http_url, "/", "orders")
        for _ in range(20):
            reporter.report(status_of("running"))
        reporter.report(status_of("stopped"))
        reporter.close()
        assert Asking(broker).get("/api/pipelines/%2F/orders").json["state"] == "stopped"
        assert reporter.last_error is None


def test_a_broker_that_does_not_answer_disturbs_nobody() -> None:
    reporter = Reporter("http://127.0.0.1:9", "/", "orders")
    reporter.report(status_of("running"))
    deadline = time.monotonic() + 10
    while reporter.last_error is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert reporter.last_error == "no answer from 127.0.0.1:9: [Errno 111] Connection refused"
    reporter.close()


def test_the_terminal_shows_every_query_and_its_last_error() -> None:
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(status_table(status_of("running")))
    shown = console.export_text()
    assert "1,234" in shown
    assert "totals: a mistake" in shown
    assert summary(status_of("finished")) == "pipeline orders finished: 1 query, 1,234 rows read"
