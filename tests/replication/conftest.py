"""Three nodes that most tests of real ones share: each finds them in sync, whatever the one before has done to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.replication.real_nodes import Cluster


@pytest.fixture(scope="package")
def three_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster.new(tmp_path_factory.mktemp("nodes"), 3)
    yield cluster
    cluster.stop()


@pytest.fixture
def cluster(three_nodes: Cluster, leaky: None) -> Cluster:
    # Connections are lost with their nodes here, and sockets of some were found open. By whom is not known.
    three_nodes.restore()
    return three_nodes


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    """A name of the test's own, because the nodes keep what was there before."""
    return str(request.node.name)
