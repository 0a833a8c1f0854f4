"""Real processes while ZooKeeper is away: a cluster whose brokers reach each other continues, a broker alone stops."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import free_port
from tests.support.cluster_processes import Cluster
from tests.support.polling import eventually
from tests.support.stories import in_real_time
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

RECORDS = 50
WHERE = TopicPartition("orders", 0)


class World:
    """A cluster on a ZooKeeper of its own, and what its brokers answer over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        self.zookeeper.start()
        self.cluster = Cluster(
            folder,
            self.zookeeper.connect,
            settings={
                "min.insync.replicas": "2",
                "offsets.topic.num.partitions": "2",
                # All five processes connect again in it, also on a busy machine.
                "zookeeper.session.timeout.ms": "12000",
            },
        )
        self._urls: dict[int, str] = {}
        for number, broker in self.cluster.brokers.items():
            port = free_port()
            broker.arguments += ["--admin", f"127.0.0.1:{port}"]
            self._urls[number] = f"http://127.0.0.1:{port}"
        self.cluster.start()

    def close(self) -> None:
        self.cluster.close()
        self.zookeeper.close()

    def metric(self, broker: int, name: str) -> int:
        with urllib.request.urlopen(f"{self._urls[broker]}/metrics", timeout=10) as answer:
            found = re.search(rf"^{name} (\d+)\.0$", answer.read().decode(), re.MULTILINE)
        assert found is not None, f"broker {broker} has no metric {name}"
        return int(found[1])

    def readiness(self, broker: int) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self._urls[broker]}/readyz", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def is_confirmed(self, broker: int) -> bool:
        """Whether it is ready, and a majority confirms all that it leads."""
        ready = self.readiness(broker) == (200, "ready\n")
        return ready and self.metric(broker, "odradek_partitions_unconfirmed") == 0

    def all_silent(self) -> bool:
        return all(self.metric(one, "odradek_registry_silent") == 1 for one in self._urls)

    def all_members(self) -> bool:
        return all(
            self.metric(one, "odradek_registry_silent") == self.metric(one, "odradek_is_fenced") == 0
            for one in self._urls
        )

    def fenced(self) -> list[int]:
        return [number for number, broker in self.cluster.brokers.items() if " is fenced: " in broker.log()]


def wait_until(is_so: Callable[[], bool]) -> None:
    """pytest's time limit bounds it."""
    pause = threading.Event()
    while not is_so():
        pause.wait(0.05)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


async def write(client: Client, count: int) -> None:
    """As a new producer, all of it acknowledged by all replicas in sync."""
    async with Producer(client) as producer:
        deliveries = [await producer.send(WHERE.topic, b"%d" % number) for number in range(count)]
        await asyncio.gather(*deliveries)


async def serves(client: Client, *, offset: int) -> None:
    """Records are acknowledged, and a group's commit is kept."""
    admin = Admin(client)
    await write(client, RECORDS)
    await admin.groups.alter_offsets("g", {WHERE: CommittedOffset(offset)})
    assert (await admin.groups.offsets("g"))[WHERE].offset == offset


async def works_in_the_end(client: Client, name: str) -> None:
    """A controller makes a topic, and everything is served."""

    async def works() -> bool:
        await Admin(client).topics.create(name, partitions=1, replication_factor=3)
        await serves(client, offset=9)
        return True

    await eventually("it works", works, not_yet=OdradekError, pause_seconds=0.2)


@in_real_time
async def test_a_cluster_serves_with_zookeeper_killed_and_keeps_its_leaders(world: World) -> None:
    async with Client(world.cluster.bootstrap) as client:
        await Admin(client).topics.create(WHERE.topic, partitions=6, replication_factor=3)
        await serves(client, offset=1)
        world.zookeeper.kill()
        await asyncio.to_thread(wait_until, world.all_silent)
        for offset in (2, 3):
            await serves(client, offset=offset)
        for number in world.cluster.brokers:
            # A busy machine may delay a follower's confirmation.
            await asyncio.to_thread(wait_until, partial(world.is_confirmed, number))
        # Also one that came only now.
        async with Client(world.cluster.bootstrap) as late:
            await serves(late, offset=4)
        assert world.all_silent(), "ZooKeeper came back too early"
        await asyncio.to_thread(world.zookeeper.start)
        await asyncio.to_thread(wait_until, world.all_members)
        await works_in_the_end(client, "after")
    assert world.fenced() == []


@in_real_time
async def test_a_cluster_serves_with_zookeeper_stopped_and_recovers_with_it(world: World) -> None:
    async with Client(world.cluster.bootstrap) as client:
        await Admin(client).topics.create(WHERE.topic, partitions=6, replication_factor=3)
        await serves(client, offset=1)
        world.zookeeper.pause()
        await asyncio.to_thread(wait_until, world.all_silent)
        for offset in (2, 3):
            await serves(client, offset=offset)
        assert world.fenced() == []
        world.zookeeper.go_on()
        # All sessions are over: it counted on while it stood still.
        await asyncio.to_thread(wait_until, world.all_members)
        await works_in_the_end(client, "after")


@in_real_time
async def test_a_broker_cut_off_from_everything_stops_and_recovers_by_itself(world: World) -> None:
    async with Client(world.cluster.bootstrap) as client:
        await Admin(client).topics.create(WHERE.topic, partitions=6, replication_factor=3)
        await serves(client, offset=1)
        others = [world.cluster.brokers[number].pid for number in (2, 3)]
        world.zookeeper.pause()
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.to_thread(wait_until, lambda: world.readiness(1)[0] == 503)
        assert "the registry does not answer" in world.readiness(1)[1]
        led = world.metric(1, "odradek_partitions_led")
        assert world.metric(1, "odradek_partitions_unconfirmed") == led > 0
        async with Client(world.cluster.brokers[1].bootstrap) as alone:
            producer = Producer(alone, acks=1, delivery_timeout_ms=3_000)
            await producer.start()
            sent = [await producer.send(WHERE.topic, b"x", partition=number) for number in range(6)]
            outcomes = await asyncio.gather(*sent, return_exceptions=True)
            await producer.close(is_flushing=False)
        assert all(isinstance(outcome, OdradekError) for outcome in outcomes), outcomes
        for pid in others:
            os.kill(pid, signal.SIGCONT)
        world.zookeeper.go_on()
        await asyncio.to_thread(wait_until, world.all_members)
        await works_in_the_end(client, "after")
