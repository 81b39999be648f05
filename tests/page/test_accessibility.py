"""axe-core, installed with npm for the occasion, finds nothing to object to in any view, by day or by night."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page.visitor import PHONE, VIEWS, WIDE, Theme, Visitor
from warren import Broker

# Kept between runs: what npm downloads does not change.
FOLDER = Path(__file__).parents[2] / "build" / "page" / "node"
VERSION = "4.14.0"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

pytestmark = [
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm, which brings axe-core, is not installed"),
    pytest.mark.usefixtures("busy"),
]


@pytest.fixture(scope="session")
def axe() -> str:
    script = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--prefix", str(FOLDER), "--no-audit", "--no-fund", f"axe-core@{VERSION}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
        if done.returncode != 0:
            pytest.skip(f"npm cannot install axe-core: {done.stderr.strip().splitlines()[-1:]}")
    return script.read_text()


THEMES: tuple[Theme, ...] = ("light", "dark")
ADDRESSES = [*((view,) for view in VIEWS), ("queues", "/", "mail"), ("exchanges", "/", "shop")]
# By night only the colours differ, and these have them all.
COLOURFUL = [("overview",), ("exchanges",), ("connections",), ("policies",), ("queues", "/", "mail")]


@pytest.fixture(scope="module")
def themed(browser: Browser, broker: Broker, axe: str) -> Iterator[dict[Theme, Visitor]]:
    """One for the day and one for the night. Not a fixture with parameters, which would let them in for every test."""
    visitors: dict[Theme, Visitor] = {theme: Visitor(browser, broker, WIDE, theme).enter() for theme in THEMES}
    for visitor in visitors.values():
        visitor.page.evaluate(axe)
    yield visitors
    for visitor in visitors.values():
        visitor.leave()


def complaints(page: Page) -> list[str]:
    found: dict[str, Any] = page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize(
    ("theme", "address"), [*(("light", each) for each in ADDRESSES), *(("dark", each) for each in COLOURFUL)]
)
def test_a_view_is_accessible(themed: dict[Theme, Visitor], theme: Theme, address: tuple[str, ...]) -> None:
    page = themed[theme].go(*address)
    expect(page.locator("main :is(td, .facts dd, .empty, canvas, .node)").first).to_be_visible()
    assert complaints(page) == []


@pytest.mark.parametrize("theme", THEMES)
def test_dialogs_menus_and_messages_are_accessible(themed: dict[Theme, Visitor], theme: Theme) -> None:
    visitor = themed[theme]
    page = visitor.go("queues", "/", "lost")
    page.get_by_role("button", name="Peek").click()
    expect(page.locator(".messages li").first).to_be_visible()
    page.get_by_role("button", name="Publish").click()
    assert complaints(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Purge").click()
    assert complaints(page) == []
    visitor.confirm("Purge")
    expect(page.locator(".toast").first).to_be_visible()
    visitor.go("queues")
    page.get_by_role("button", name="Actions for mail").click()
    assert complaints(page) == []
    page.keyboard.press("Escape")


@pytest.mark.parametrize("theme", THEMES)
def test_the_login_and_the_phone_are_accessible(browser: Browser, broker: Broker, axe: str, theme: Theme) -> None:
    visitor = Visitor(browser, broker, PHONE, theme)
    visitor.page.goto(broker.http_url)
    expect(visitor.page.get_by_label("User")).to_be_visible()
    visitor.page.evaluate(axe)
    assert complaints(visitor.page) == []
    visitor.enter()
    visitor.page.evaluate(axe)
    visitor.go("queues")
    expect(visitor.page.locator("td").first).to_be_visible()
    assert complaints(visitor.page) == []
    visitor.leave()
