"""Debian's own Chromium, driven by Playwright: no download of a browser, and none of Playwright's patches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

EXECUTABLE = Path("/usr/bin/chromium")
# Of two busy cores: what takes a moment on an idle machine may take some seconds.
PATIENCE_MS = 15_000


def why_not() -> str | None:
    """A reason to skip, or none."""
    return None if EXECUTABLE.exists() else f"{EXECUTABLE} is not installed (Debian: apt install chromium)"


@contextmanager
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    # Chromium refuses its sandbox to root, who runs tests in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
