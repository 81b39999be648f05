"""Pipelines in the page, from what their runners report; the reports here are sent as a runner sends them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor
from warren import Broker
from warren.spark.pipelines.reporter import Reporter

QUERY: dict[str, Any] = {
    "name": "totals", "sources": ["orders"], "sink": "exchange totals, update", "state": "running", "rows": 10_100,
    "rows_per_second": 120.5, "lag": 42, "batch": 7, "batch_ms": 912, "misfits": 1, "restarts": 0, "last_error": None,
}  # fmt: skip
STATUS: dict[str, Any] = {
    "name": "orders", "state": "running", "error": None, "source": "stream orders, JSON", "sink": "exchange totals",
    "rows": 10_100, "rows_per_second": 120.5, "lag": 42, "host": "tea", "master": "local[*]", "queries": [QUERY],
    "started_at": 1_700_000_000_000,
    "graph": {
        "nodes": [
            {"id": "source:orders", "kind": "source", "name": "orders", "what": "stream orders"},
            {"id": "view:totals", "kind": "view", "name": "totals", "what": "SQL"},
            {"id": "sink:totals", "kind": "sink", "name": "totals", "what": "exchange totals"},
        ],
        "edges": [["source:orders", "view:totals"], ["view:totals", "sink:totals"]],
    },
}  # fmt: skip


def report(broker: Broker, status: dict[str, Any]) -> None:
    reporter = Reporter(broker.http_url.replace("//", "//guest:guest@"), "/", str(status["name"]))
    reporter.report(status)
    reporter.close()
    assert reporter.last_error is None


@pytest.fixture(autouse=True)
def none_left(api: Asking) -> None:
    for each in api.get("/api/pipelines").json:
        api.delete(f"/api/pipelines/%2F/{each['name']}")


def test_a_pipeline_is_shown_with_its_state_speed_and_lag(visitor: Visitor, broker: Broker) -> None:
    page = visitor.go("pipelines")
    expect(page.get_by_text("There are no pipelines.")).to_be_visible()
    report(broker, STATUS)
    card = page.get_by_role("region", name="Pipeline orders")
    expect(card.locator(".heading")).to_contain_text("running")
    expect(card.locator(".tile", has_text="Rows a second").locator("b")).to_have_text("120.5")
    expect(card.locator(".tile", has_text="Lag").locator("b")).to_have_text("42")
    expect(card.get_by_role("row", name="totals")).to_contain_text("912 ms")
    expect(card.locator(".node")).to_have_count(3)
    expect(card.locator(".line")).to_have_count(2)
    report(broker, {**STATUS, "lag": 7})
    expect(card.locator(".tile", has_text="Lag").locator("b")).to_have_text("7")


def test_a_pipeline_that_fails_or_falls_silent_says_so(visitor: Visitor, broker: Broker) -> None:
    page = visitor.go("pipelines")
    report(broker, {**STATUS, "state": "failed", "error": "query totals: no such table"})
    card = page.get_by_role("region", name="Pipeline orders")
    expect(card.get_by_role("alert")).to_have_text("query totals: no such table")
    report(broker, STATUS)
    expect(card.locator(".heading")).to_contain_text("running")
    broker.advance(60)
    expect(card.locator(".heading")).to_contain_text("lost")


def test_a_report_that_is_nonsense_breaks_nothing(visitor: Visitor, api: Asking) -> None:
    nonsense: dict[str, Any] = {
        "state": "running", "error": {"a": "<b>"}, "rows": "many", "rows_per_second": [], "lag": {}, "source": 5,
        "queries": [None, 7, {"name": {"x": 1}, "state": [], "batch_ms": "slow"}], "started_at": "yesterday",
        "graph": {"nodes": [{"id": "a"}, {"id": 3}, None], "edges": [["a", "b"], "c", ["a", "a"]]},
    }  # fmt: skip
    assert api.put("/api/pipelines/%2F/%3Cimg%20src%3Dx%3E", nonsense).status == 201
    page = visitor.go("pipelines")
    card = page.get_by_role("region", name="Pipeline <img src=x>")
    expect(card.get_by_role("alert")).to_have_text('{"a":"<b>"}')
    expect(card.locator(".tile", has_text="Lag").locator("b")).to_have_text("\u2013")
