"""A fresh world for every test that asks for one."""

from __future__ import annotations

import pytest

from tests.broker.harness import ChannelClient, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def channel(world: World) -> ChannelClient:
    """Channel 1 of a connection of guest's."""
    return world.channel()


@pytest.fixture
def slow(world: World) -> World:
    """Where a turn has so little time that two thousand of anything take several."""
    world.node.errands.budget.units = 300
    return world
