"""One browser, and for each file one broker with a shop and one visitor."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from playwright.sync_api import Browser

from tests.management.asking import Asking
from tests.page import shop
from tests.page.chromium import chromium, why_not
from tests.page.visitor import Visitor
from warren import Broker


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # Not for longer: while Playwright is up, no other test of this process can have an event loop of its own.
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        with pika.BlockingConnection(pika.URLParameters(running.url)) as connection:
            shop.declare(connection.channel())
        yield running


@pytest.fixture(scope="module")
def busy(broker: Broker) -> Iterator[Broker]:
    """The broker while messages flow."""
    with shop.traffic(broker):
        yield broker


@pytest.fixture(scope="module")
def api(broker: Broker) -> Asking:
    return Asking(broker)


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        opened = connection.channel()
        opened.confirm_delivery()
        yield opened


@pytest.fixture(scope="module")
def logged_in(browser: Browser, broker: Broker) -> Iterator[Visitor]:
    visiting = Visitor(browser, broker).enter()
    yield visiting
    visiting.leave()


@pytest.fixture
def visitor(logged_in: Visitor) -> Iterator[Visitor]:
    """Comes to the overview, and is looked at afterwards."""
    logged_in.go("overview")
    yield logged_in
    logged_in.check()
