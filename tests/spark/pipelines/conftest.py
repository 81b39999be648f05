"""A broker with its management API for the pipelines of a run, and files with the addresses filled in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.spark.broker_under_test import BrokerUnderTest
from warren import Broker


@pytest.fixture(scope="session")
def served() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture
def node(served: Broker) -> BrokerUnderTest:
    return BrokerUnderTest(served.url, is_warren=True)
