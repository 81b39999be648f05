"""How tests that start Spark or RabbitMQ share them: one session and one node, each for whoever asks, side by side."""

from __future__ import annotations

import os

import pytest

from tests import quick_spark

# Whatever is expensive to start, and its users: a worker of xdist gets all of them.
SHARED = ("spark", "rabbitmq")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") is None:
            continue
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        for name in SHARED:
            if name in names or any(value == name for value in parameters):
                item.add_marker(pytest.mark.xdist_group(name))
                break


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") is not None and quick_spark.VARIABLE not in os.environ:
        quick_spark.prepare()
