"""A pytest plug-in for suites that mix tests of a broker with tests of their own parts: keeps the former.

A test is one of a broker when it uses the fixture named in KEEP_FIXTURE. Whatever has a word of DROP in its name goes.
"""

from __future__ import annotations

import os

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    fixture, dropped = os.environ.get("KEEP_FIXTURE", ""), os.environ.get("DROP", "").split()
    kept = [item for item in items if is_wanted(item, fixture, dropped)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def is_wanted(item: pytest.Item, fixture: str, dropped: list[str]) -> bool:
    used = getattr(item, "fixturenames", [])
    return (not fixture or fixture in used) and not any(word in item.nodeid for word in dropped)
