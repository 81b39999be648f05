"""The nodes of a real cluster, as the overview of the one that leads draws them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.page.visitor import PHONE, Visitor
from tests.replication.real_nodes import Cluster, needs_etcd
from warren import Broker


@needs_etcd
@pytest.mark.timeout(180)
def test_the_overview_draws_who_leads_and_who_mirrors(browser: Browser, tmp_path: Path) -> None:
    cluster = Cluster.new(tmp_path, 2)
    try:
        cluster.wait_in_sync(2, 60)
        leader, follower = cluster.leader(), cluster.followers()[0]
        visitor = Visitor(browser, leader, PHONE).enter()
        nodes = visitor.page.get_by_role("region", name="Nodes")
        expect(nodes.locator(".mirror").nth(0)).to_contain_text(f"warren@{leader.address}leader")
        expect(nodes.locator("li.whole .mirror")).to_contain_text(f"warren@{follower.address}followerin sync")
        # Its own figures, whichever node is first in the list.
        expect(visitor.page.get_by_role("region", name="Node", exact=True)).to_contain_text(leader.address)
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        follower.kill()
        expect(nodes.locator("li.whole")).to_have_count(0, timeout=60_000)
        visitor.leave()
    finally:
        cluster.stop()


def test_a_broker_on_its_own_draws_no_nodes(browser: Browser, broker: Broker) -> None:
    visitor = Visitor(browser, broker).enter()
    expect(visitor.page.get_by_role("region", name="Node", exact=True)).to_contain_text("Up for")
    expect(visitor.page.get_by_role("region", name="Nodes")).to_have_count(0)
    visitor.leave()
