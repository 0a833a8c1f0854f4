"""A Topic's replicas grow and shrink on three real brokers, with progress in its status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek_operator.gateways.kubernetes import TOPICS
from tests.operator.support.broker_world import BrokerWorld, in_world
from tests.support.cluster_processes import Cluster
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

LOOKS_MAX = 200


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Any]:
    made: Any = Cluster(tmp_path, zookeeper.connect, controllers=1)
    made.admin_port = 0  # ages of records are not asked for
    try:
        made.start()
        yield made
    finally:
        made.close()


async def settled(world: BrokerWorld, name: str) -> list[str]:
    """Look until the Topic is as wanted; the reasons of Ready on the way."""
    reasons: list[str] = []
    for _ in range(LOOKS_MAX):
        again_seconds = await world.topic(name)
        _, reason = world.ready(TOPICS, name)
        reasons.append(reason)
        if again_seconds is None and reason == "AsWanted":
            return reasons
        await asyncio.sleep(0.1)
        world.topics._reconciled.clear()
    raise AssertionError(f"not as wanted after {LOOKS_MAX} looks: {reasons[-3:]}")


async def replicas_of(world: BrokerWorld, name: str) -> list[int]:
    async with Client(world.bootstrap) as client:
        return [len(one.in_sync_replicas) for one in (await Admin(client).topics.describe(name)).partitions]


@in_world(of="cluster")
async def test_replicas_grow_and_shrink(world: BrokerWorld) -> None:
    world.make(TOPICS, "orders", partitions=4, replicas=1)
    await settled(world, "orders")
    async with Client(world.bootstrap) as client, Producer(client) as producer:
        for number in range(2000):
            await producer.send("orders", b"x" * 1000, partition=number % 4)
        await producer.flush()
    world.edit(TOPICS, "orders", replicas=3)
    assert "ReplicasMoving" in await settled(world, "orders")
    assert await replicas_of(world, "orders") == [3] * 4
    assert world.body(TOPICS, "orders")["status"]["replicas"] == 3
    world.edit(TOPICS, "orders", replicas=2)
    await settled(world, "orders")
    assert await replicas_of(world, "orders") == [2] * 4
    assert "replicasChange" not in world.body(TOPICS, "orders")["status"]
    world.edit(TOPICS, "orders", replicas=4)
    await world.topic("orders")
    assert world.ready(TOPICS, "orders") == ("False", "TooFewBrokers")
