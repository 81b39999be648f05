"""Somebody who opens the page, and notes everything that must not happen there: errors, violations, dialogs."""

from __future__ import annotations

from typing import Any, Literal, Protocol
from urllib.parse import quote

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect

from tests.page.chromium import PATIENCE_MS

WIDE = (1360, 900)
PHONE = (390, 844)
VIEWS = {
    "overview": "Overview",
    "queues": "Queues",
    "exchanges": "Exchanges",
    "connections": "Connections",
    "streams": "Streams",
    "pipelines": "Pipelines",
    "journey": "Journey",
    "policies": "Policies",
    "access": "Users",
    "definitions": "Definitions",
}
# Heard in the page itself, before any of its own scripts.
_LISTEN = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
Theme = Literal["light", "dark"]


class Served(Protocol):
    """A broker, or one of several."""

    @property
    def http_url(self) -> str: ...


class Visitor:
    def __init__(self, browser: Browser, broker: Served, size: tuple[int, int] = WIDE, theme: Theme = "light") -> None:
        width, height = size
        self.broker = broker
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.troubles: list[str] = []
        self.page.add_init_script(_LISTEN)
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", self._hear)
        self.page.on("dialog", self._refuse)

    def _hear(self, message: ConsoleMessage) -> None:
        # The browser says so of every answer above 399; whether one may be is for each test to say.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.troubles.append(f"console: {message.text}")

    def _refuse(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def enter(self, user: str = "guest", password: str = "guest") -> Visitor:
        self.page.goto(self.broker.http_url)
        self.page.get_by_label("User").fill(user)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        expect(self.heading("Overview")).to_be_visible()
        return self

    def go(self, *address: str) -> Page:
        """go("queues", "/", "orders") as the address would, without loading the page again."""
        hash_ = "#/" + "/".join(quote(part, safe="") for part in address)
        self.page.evaluate("hash => location.hash = hash", hash_)
        return self.page

    def heading(self, title: str) -> Any:
        return self.page.get_by_role("heading", level=1, name=title, exact=True)

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action, exact=True).click()
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def leave(self) -> None:
        self.check()
        self.context.close()

    def check(self) -> None:
        """Whatever a test looked at: nothing unseemly may have happened meanwhile."""
        troubles = [*self.troubles, *self.page.evaluate("window.violations")]
        self.troubles.clear()
        assert troubles == []
