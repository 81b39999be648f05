"""One Spark session and one RabbitMQ for all tests that ask for them.

Most tests here call readers and writers themselves and start neither. Those that do are marked `spark`, and are run
once: on the installed package. What they share lives as long as the worker.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.rabbitmq_node import server_script, start_node
from tests.spark.broker_under_test import BrokerUnderTest
from warren import Broker
from warren.client.connection import HEARTBEATS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def no_connection_is_left() -> Iterator[None]:
    """By readers and writers that a test calls itself: the heartbeats of one would keep it until its broker is gone."""
    yield
    left = [thread for thread in threading.enumerate() if thread.name == HEARTBEATS]
    for thread in left:
        thread.join(60)
    assert not [thread for thread in left if thread.is_alive()], "a connection to a broker was left open"


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[BrokerUnderTest]:
    if server_script() is None:
        pytest.skip("rabbitmq-server is not installed")
    with start_node() as node:
        node.await_startup(lambda: _listens(node.amqp_port))
        yield BrokerUnderTest(f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F", is_warren=False)


@pytest.fixture(scope="session")
def warren(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerUnderTest]:
    with Broker(data_dir=str(tmp_path_factory.mktemp("warren"))) as broker:
        yield BrokerUnderTest(broker.url, is_warren=True)


@pytest.fixture(params=["warren", pytest.param("rabbitmq", marks=pytest.mark.spark)])
def broker(request: pytest.FixtureRequest) -> BrokerUnderTest:
    """The same promises hold for both."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, BrokerUnderTest)
    return found


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from warren.spark import session

    started = session("tests", "local[2,4]", **{"spark.ui.enabled": False})
    yield started
    started.stop()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
