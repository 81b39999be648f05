"""A broker with TLS, and what its operator does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme

from warren import Broker
from warren.broker.node import Node


@dataclass
class Secured:
    """A broker with a TLS port, and the authority that a client must trust to use it."""

    broker: Broker
    ca: str


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    authority = trustme.CA()
    ca, chain = tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.cert_pem.write_to_path(str(ca))
    authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(str(chain))
    with Broker(tls_port=0, tls_cert=str(chain)) as broker:
        yield Secured(broker, str(ca))


def close_all(node: Node) -> None:
    """As an operator does, with a reason."""
    for connection in list(node.connections.values()):
        connection.close_by_admin("maintenance")
