"""The pytest fixture `warren_broker`: a broker of its own for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from warren.testing import Broker


@pytest.fixture
def warren_broker() -> Iterator[Broker]:
    """A running broker on a free port, with nothing declared; `warren_broker.url` is where to connect."""
    from warren.testing import Broker

    with Broker() as broker:
        yield broker
