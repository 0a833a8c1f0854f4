"""What tests of a Cluster begin with."""

from __future__ import annotations

import pytest

from tests.operator.support.world import World


@pytest.fixture
def world() -> World:
    """A Cluster of three brokers, two controllers and a ZooKeeper, with which there is nothing left to do."""
    world = World()
    world.settle()
    return world
