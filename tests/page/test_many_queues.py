"""Ten thousand queues: the broker filters, sorts and cuts, so the page shows fifty and nobody notices the others."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import pytest
from playwright.sync_api import expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor
from warren import Broker
from warren.management.rates import Rates

COUNT = 10_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        queues = [{"name": f"q{number:05}", "vhost": "/", "durable": True} for number in range(COUNT)]
        assert Asking(running).post("/api/definitions", {"queues": queues}).status == 204
        yield running


def test_pages_are_turned_and_the_filter_finds_one_of_all(visitor: Visitor) -> None:
    page = visitor.go("queues")
    page.get_by_role("button", name="Name").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("q00000")
    expect(page.get_by_text("Page 1 of 200")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(rows.first).to_contain_text("q00050")
    page.get_by_label("Filter").fill("q0999")
    expect(rows).to_have_count(10)
    expect(page.get_by_text("10 of 10,000 queues")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages of queues")).to_be_hidden()


def test_the_topology_says_what_it_does_not_draw(visitor: Visitor) -> None:
    page = visitor.go("exchanges")
    expect(page.get_by_text("10,000 queues are reached through the default exchange only")).to_be_visible()


def test_rates_of_very_many_counters_are_found_in_no_time() -> None:
    rates = Rates()
    began = process_time()
    for _ in range(5):
        for number in range(130_000):
            rates.rates((str(number),), {"n": 0}, 0)
    # Half a second; ten of them while all that is known was swept for every thousand counters.
    assert process_time() - began < 4
