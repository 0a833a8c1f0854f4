"""The blocks of docs/zookeeper-backup.md on real processes, from the backup to the restored ensemble.

They take a backup of three servers that run, restore it after all volumes are lost, and raise what must not go back.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from tests.support.cluster_processes import Cluster, Member
from tests.support.page_folder import REPOSITORY
from tests.support.pages import blocks_of
from tests.support.stories import in_real_time
from tests.support.zookeeper_ensemble import Ensemble

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.thorough]

PAGE = "docs/zookeeper-backup.md"
PRODUCERS = 4


class World:
    """Three ZooKeeper servers, and a cluster on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ensemble = Ensemble(folder / "zookeeper", 3)
        self.ensemble.found(1, 2, 3)
        self.cluster = Cluster(folder, self.ensemble.connect, controllers=1)
        self.cluster.start()
        self.blocks = [block.text for block in blocks_of(REPOSITORY / PAGE, page=PAGE)]

    @property
    def members(self) -> list[Member]:
        return [*self.cluster.controllers.values(), *self.cluster.brokers.values()]

    def play(self, number: int, *, server: int = 1) -> None:
        """Run a block of the page as a reader does, with a server's data folder."""
        environment = {
            **os.environ,
            "DATA": str(self.ensemble[server].data),
            "ZOOKEEPER": self.cluster.connect,
        }
        program = [sys.executable, "-c"] if number == 2 else ["sh", "-euc"]
        subprocess.run(
            [*program, self.blocks[number]], check=True, cwd=self.folder, env=environment, timeout=120
        )

    def close(self) -> None:
        self.cluster.close()
        self.ensemble.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


async def write(world: World, name: str, topic: str = "orders") -> list[str]:
    """As a new producer; returns what was acknowledged."""
    values = [f"{name}-{number}" for number in range(20)]
    async with Client(world.cluster.bootstrap) as client, Producer(client) as producer:
        await asyncio.gather(*[await producer.send(topic, value.encode()) for value in values])
    return values


def everything(world: World) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "odradek",
        "consume",
        "orders",
        "--from-beginning",
        "--format",
        "{value}",
    ]
    done = subprocess.run(
        [*command, "--bootstrap", world.cluster.bootstrap],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.stdout.split()


@in_real_time
async def test_no_record_of_a_topic_in_the_backup_is_lost_with_all_volumes(world: World) -> None:
    async with Client(world.cluster.bootstrap) as client:
        await Admin(client).topics.create("orders", partitions=1, replication_factor=3)
    acknowledged = await write(world, "before")
    world.play(0)
    # Leaders change and producers come, of which the backup knows nothing.
    for number, broker in world.cluster.brokers.items():
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
        # Each takes an id from a block that a broker was given after the backup.
        for producer in range(PRODUCERS):
            acknowledged += await write(world, f"after-{number}-{producer}")
    for member in world.members:
        await asyncio.to_thread(member.stop)
    for server in world.ensemble.servers:
        server.kill()
        server.lose_volume()
    for id in (1, 2, 3):
        world.play(1, server=id)
    # As the operator configures them: no server may begin without data.
    world.ensemble.start(1, 2, 3)
    for server in world.ensemble.servers:
        await asyncio.to_thread(server.wait)
    world.play(2)
    # In the order of their restarts: without the last block each would be given the same ids for producers again.
    for member in world.members:
        await asyncio.to_thread(member.start)
    for producer in range(PRODUCERS):
        acknowledged += await write(world, f"restored-{producer}")
    assert sorted(await asyncio.to_thread(everything, world)) == sorted(acknowledged)
