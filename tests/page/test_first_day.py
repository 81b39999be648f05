"""What operators met on the first day: long names, lists that were old, streams that were counted, restarts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, expect

from tests.page.visitor import PHONE, Theme, Visitor
from warren import Broker

LONG = "orders" + "x" * 230
DESK = (1280, 800)


@pytest.fixture
def crowded(channel: BlockingChannel) -> Iterator[BlockingChannel]:
    channel.queue_declare(LONG, durable=True, arguments={"x-max-length": 5, "x-message-ttl": 60000})
    channel.queue_bind(LONG, "amq.topic", "k" * 250)
    yield channel
    channel.queue_delete(LONG)


@pytest.mark.parametrize(("size", "theme"), [(DESK, "light"), (DESK, "dark"), (PHONE, "light"), (PHONE, "dark")])
@pytest.mark.usefixtures("crowded")
def test_a_long_name_breaks_and_the_table_does_not(
    browser: Browser, broker: Broker, size: tuple[int, int], theme: Theme
) -> None:
    visitor = Visitor(browser, broker, size, theme).enter()
    for address in (("queues",), ("queues", "/", LONG), ("exchanges", "/", "amq.topic"), ("overview",)):
        page = visitor.go(*address)
        expect(page.locator("main :is(td, .facts dd, canvas, .node)").first).to_be_visible()
        if address == ("queues",):
            expect(page.get_by_role("link", name=LONG)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], address
        # Nothing sticks out of the box that it is in.
        inner = "[...document.querySelectorAll('warren-table')].every(each => each.scrollWidth <= each.clientWidth)"
        assert page.evaluate(inner)
        # A word of ours is on one line.
        heights = page.evaluate("[...document.querySelectorAll('.badge.word')].map(b => b.getClientRects().length)")
        assert set(heights) <= {1}
    visitor.leave()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_topology_fits_a_phone_and_can_be_made_larger(browser: Browser, broker: Broker, theme: Theme) -> None:
    visitor = Visitor(browser, broker, PHONE, theme).enter()
    page = visitor.go("exchanges")
    graph = page.locator("warren-graph").first
    expect(graph.locator(".node").first).to_be_visible()
    assert graph.evaluate("graph => graph.scrollWidth <= graph.clientWidth")
    graph.get_by_role("button", name="Larger").click()
    assert graph.evaluate("graph => graph.scrollWidth > graph.clientWidth")
    graph.get_by_role("button", name="Fit").click()
    assert graph.evaluate("graph => graph.scrollWidth <= graph.clientWidth")
    visitor.leave()


def test_after_a_move_the_list_shows_what_is_left(visitor: Visitor, channel: BlockingChannel) -> None:
    channel.queue_declare("from", durable=True)
    channel.queue_declare("to", durable=True)
    for body in (b"first", b"second"):
        channel.basic_publish("", "from", body)
    page = visitor.go("queues", "/", "from")
    page.get_by_role("button", name="Peek", exact=True).click()
    expect(page.locator("warren-messages li")).to_have_count(2)
    page.get_by_role("button", name="Move", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Named").fill("to")
    dialog.get_by_label("How many").fill("1")
    visitor.confirm("Move")
    expect(page.locator("warren-messages li")).to_have_count(1)
    expect(page.locator("warren-messages li pre")).to_have_text("second")


def test_what_a_stream_keeps_does_not_count_as_waiting(browser: Browser) -> None:
    with Broker(http=True) as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("waiting", durable=True)
        for queue in ("kept", "kept", "kept", "waiting"):
            channel.basic_publish("", queue, b"m")
        visitor = Visitor(browser, broker).enter()
        tile = visitor.page.locator(".tile", has_text="Ready").first
        expect(tile.locator("b")).to_have_text("1")
        expect(tile).to_contain_text("in 1 queue")
        page = visitor.go("queues", "/", "kept")
        expect(page.locator(".tile", has_text="Kept").locator("b")).to_have_text("3")
        visitor.leave()


def test_a_restart_does_not_log_anybody_out(browser: Browser, tmp_path: Path) -> None:
    with Broker(http=True, data_dir=str(tmp_path)) as broker:
        visitor = Visitor(browser, broker).enter()
        broker.restart()
        visitor.page.reload()
        expect(visitor.heading("Overview")).to_be_visible()
        visitor.page.get_by_role("button", name="Log out").click()
        expect(visitor.page.get_by_label("Password")).to_be_visible()
        broker.restart()
        visitor.page.reload()
        expect(visitor.page.get_by_label("Password")).to_be_visible()
        visitor.leave()
    assert (tmp_path / "sessions.json").stat().st_mode & 0o777 == 0o600


def test_dialogs_are_called_by_what_they_do(visitor: Visitor) -> None:
    page = visitor.go("policies")
    for name in ("Add a policy", "Add an operator policy"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog").get_by_role("heading", name=name)).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
