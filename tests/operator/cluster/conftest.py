"""What tests of a Cluster begin with."""

from __future__ import annotations

import pytest

from tests.operator.support.cluster_world import ClusterWorld


@pytest.fixture
def world() -> ClusterWorld:
    """A Cluster of three brokers, two controllers and a ZooKeeper, with which there is nothing left to do."""
    world = ClusterWorld()
    world.settle()
    return world
