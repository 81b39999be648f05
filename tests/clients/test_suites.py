"""The clients' own suites that are short enough for every run; `make clients` runs all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.clients.suites import SUITES, Place, Suite, Unavailable, follower, run, single_node
from tests.replication.real_nodes import needs_etcd

SHORT = [suite for suite in SUITES if suite.seconds <= 200]


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("new_broker", [single_node, pytest.param(follower, marks=needs_etcd)])
@pytest.mark.parametrize("suite", SHORT, ids=lambda suite: suite.name)
def test_a_client_passes_its_own_suite(suite: Suite, new_broker: Callable[[], AbstractContextManager[Place]]) -> None:
    try:
        counts = run(suite, new_broker)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert (counts.failures, counts.passed) == ([], suite.rabbitmq.passed)
