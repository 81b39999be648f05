"""How tests that start Spark or RabbitMQ share them: one session and one node, with one worker of xdist."""

from __future__ import annotations

import os

import pytest

from tests import quick_spark

# Fixtures that are expensive to start. Whoever starts processes of its own instead runs beside them.
SHARED = {"spark", "rabbitmq"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") is None:
            continue
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        chosen = {value for value in parameters if isinstance(value, str)}
        if SHARED & {*getattr(item, "fixturenames", ()), *chosen}:
            item.add_marker(pytest.mark.xdist_group("shared"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is not None and quick_spark.VARIABLE not in os.environ:
        quick_spark.prepare()
