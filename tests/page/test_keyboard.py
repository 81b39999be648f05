"""The page without a mouse: everything is reached with Tab, arrows, Enter and Escape, and focus is never lost."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser, Page, expect

from tests.management.asking import Asking
from tests.page.visitor import Visitor
from warren import Broker

TABS_MAX = 60


def tab_to(page: Page, name: str) -> None:
    """Presses Tab until what has this text or label is focused."""
    seen: list[str] = []
    for _ in range(TABS_MAX):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels?.[0]?.textContent"
            " ?? document.activeElement.textContent).trim()"
        )
        if focused == name:
            return
        seen.append(focused)
    raise AssertionError(f"Tab does not reach {name!r}, only {seen}")


def test_from_login_to_a_purged_queue_by_keys_alone(browser: Browser, broker: Broker, channel: BlockingChannel) -> None:
    channel.queue_declare("by-keys")
    channel.basic_publish("", "by-keys", b"one")
    visitor = Visitor(browser, broker)
    page = visitor.page
    page.goto(broker.http_url)
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.type("guest")
    page.keyboard.press("Tab")
    page.keyboard.type("guest")
    page.keyboard.press("Enter")
    expect(visitor.heading("Overview")).to_be_visible()
    tab_to(page, "Queues")
    page.keyboard.press("Enter")
    expect(visitor.heading("Queues")).to_be_focused()
    tab_to(page, "Filter")
    page.keyboard.type("by-keys")
    expect(page.locator("tbody tr")).to_have_count(1)
    tab_to(page, "Actions for by-keys")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem", name="Peek at messages")).to_be_focused()
    for expected in ("Publish a message", "Move messages", "Purge"):
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("menuitem", name=expected)).to_be_focused()
    page.keyboard.press("Enter")
    # The way out has the focus, so that Enter alone harms nothing.
    expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".toast", has_text="by-keys was purged")).to_be_visible()
    assert channel.queue_declare("by-keys", passive=True).method.message_count == 0
    visitor.leave()


def test_the_first_tab_offers_to_skip_to_the_content(visitor: Visitor) -> None:
    page = visitor.page
    page.reload()
    expect(visitor.heading("Overview")).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def test_escape_leaves_a_menu_and_a_dialog_and_focus_returns(visitor: Visitor) -> None:
    page = visitor.go("queues")
    page.get_by_label("Filter").fill("orders.new")
    button = page.get_by_role("button", name="Actions for orders.new")
    button.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    declare = page.get_by_role("button", name="Declare a queue")
    declare.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(declare).to_be_focused()


@pytest.mark.usefixtures("busy")
def test_a_refresh_takes_neither_focus_nor_selection(visitor: Visitor, api: Asking) -> None:
    page = visitor.go("queues")
    page.get_by_role("button", name="Name").click()
    link = page.get_by_role("link", name="lost")
    link.focus()
    cell = page.get_by_role("row", name="lost").get_by_role("cell").nth(2)
    before = cell.inner_text()
    expect(cell).not_to_have_text(before)
    expect(link).to_be_focused()
    api.put("/api/queues/%2F/a-new-one-above", {})
    expect(page.get_by_role("link", name="a-new-one-above")).to_be_visible()
    expect(link).to_be_focused()
