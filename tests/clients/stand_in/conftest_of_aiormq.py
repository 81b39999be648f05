"""The conftest.py that aiormq's source distribution leaves out: where its tests find their broker."""

from __future__ import annotations

import pytest
from tests.docker_client import ContainerInfo  # type: ignore[import-not-found]
from yarl import URL


@pytest.fixture(scope="session")
def rabbitmq_container() -> ContainerInfo:
    return ContainerInfo()


@pytest.fixture(scope="session")
def amqp_direct_url(rabbitmq_container: ContainerInfo) -> URL:
    port = rabbitmq_container.ports["5672/tcp"]
    return URL.build(scheme="amqp", user="guest", password="guest", host="127.0.0.1", port=port, path="//")
