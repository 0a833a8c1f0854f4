"""What a cluster's broker says while its start waits, and a directory on which it does not start."""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from odradek.foundation.errors import SettingError
from tests.support.whole_cluster import WholeCluster


async def test_it_says_what_it_waits_for_until_there_is_a_controller(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "odradek.broker.process.cluster_control")

    def told() -> list[str]:
        return [one.getMessage() for one in caplog.records if "waits for" in one.getMessage()]

    cluster = WholeCluster({}, seed=1)
    starting = asyncio.ensure_future(cluster.start_broker(1))
    await asyncio.sleep(4)
    assert told() == []
    await asyncio.sleep(7)
    assert len(told()) == 2
    assert "none is elected" in told()[0]
    assert "zookeeper.connect" in told()[0]
    assert not starting.done()
    # One that is elected and cannot be reached is another matter.
    cluster.network.part(cluster.host(1), "node-101-1.test")
    await cluster.start_controller(101)
    await asyncio.sleep(6)
    assert re.search(r"waits for controller 101 at \S+:9093, which does not answer", told()[-1])
    cluster.network.heal()
    async with asyncio.timeout(60):
        await starting
    await cluster.stop()


async def test_it_begins_another_session_where_the_first_one_ends_while_it_waits() -> None:
    cluster = WholeCluster({}, seed=1)
    starting = asyncio.ensure_future(cluster.start_broker(1))
    await asyncio.sleep(1)
    cluster.stores[cluster.host(1)].expire()
    await cluster.start_controller(101)
    async with asyncio.timeout(60):
        await starting
    await cluster.stop()


async def test_it_does_not_start_where_a_single_node_has_served_its_directory() -> None:
    cluster = await WholeCluster.start(brokers=2, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    await cluster.kill_broker(2)
    cluster.disks[2].open("/logs/registry.sqlite", create=True).close()
    with pytest.raises(
        SettingError, match=r"`odradek start` has served .*/logs/registry.sqlite exists.*Move"
    ):
        await cluster.start_broker(2)
    cluster.disks[2].remove("/logs/registry.sqlite")
    await cluster.start_broker(2)
