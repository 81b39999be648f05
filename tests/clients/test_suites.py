"""The clients' own suites that are short enough for every run; `make clients` runs all of them."""

from __future__ import annotations

import pytest

from tests.clients.suites import SUITES, Suite, Unavailable, run

SHORT = [suite for suite in SUITES if suite.seconds <= 200]


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("suite", SHORT, ids=lambda suite: suite.name)
def test_a_client_passes_its_own_suite(suite: Suite) -> None:
    try:
        counts = run(suite)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert (counts.failures, counts.passed) == ([], suite.rabbitmq.passed)
