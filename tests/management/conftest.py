"""One broker with its management API for each file of tests, and a client of the AMQP side."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from tests.management.asking import Asking
from warren import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(http=True) as running:
        yield running


@pytest.fixture(scope="module")
def api(broker: Broker) -> Asking:
    return Asking(broker)


@pytest.fixture
def connection(broker: Broker) -> Iterator[pika.BlockingConnection]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as opened:
        yield opened


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> pika.adapters.blocking_connection.BlockingChannel:
    opened = connection.channel()
    opened.confirm_delivery()
    return opened
