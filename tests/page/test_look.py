"""How it looks: by day and by night, and on a phone. What cannot be measured is looked at in docs/images."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.visitor import PHONE, VIEWS, Visitor
from warren import Broker

pytestmark = pytest.mark.usefixtures("busy")


@pytest.fixture(scope="module")
def on_a_phone(browser: Browser, broker: Broker) -> Iterator[Visitor]:
    visitor = Visitor(browser, broker, PHONE, "dark").enter()
    yield visitor
    visitor.leave()


def ground(page: Page) -> int:
    """How bright the background is, from 0 to 255."""
    color: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    return max(int(part) for part in re.findall(r"\d+", color)[:3])


def test_the_page_follows_the_system_and_the_switch(visitor: Visitor) -> None:
    page = visitor.page
    assert ground(page) > 200
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert ground(page) < 60
    page.get_by_label("Theme").select_option("Light theme")
    assert ground(page) > 200
    page.reload()
    expect(visitor.heading("Overview")).to_be_visible()
    assert ground(page) > 200
    page.get_by_label("Theme").select_option("System theme")
    assert ground(page) < 60
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


@pytest.mark.parametrize(
    "address", [*((view,) for view in VIEWS), ("queues", "/", "graveyard"), ("exchanges", "/", "shop")]
)
def test_nothing_is_wider_than_a_phone(on_a_phone: Visitor, address: tuple[str, ...]) -> None:
    page = on_a_phone.go(*address)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    # Until what is asked for has come: an empty view is narrow.
    expect(page.locator("main :is(td, .facts dd, .empty, canvas, .node)").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_on_a_phone_the_views_are_behind_a_button(on_a_phone: Visitor) -> None:
    page = on_a_phone.go("overview")
    link = page.get_by_role("link", name="Policies")
    expect(link).to_be_hidden()
    button = page.get_by_role("button", name="Views")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    link.click()
    expect(on_a_phone.heading("Policies")).to_be_visible()
    expect(link).to_be_hidden()


def test_on_a_phone_a_queue_is_a_card_that_can_be_sorted_and_used(on_a_phone: Visitor) -> None:
    page = on_a_phone.go("queues")
    page.get_by_role("button", name="Name").click()
    expect(page.locator("tbody tr").first).to_contain_text("audit")
    page.get_by_role("button", name="Actions for audit").click()
    expect(page.get_by_role("menuitem", name="Purge")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
