"""What a client asks at its end is bounded: a program that ends does not wait for a broker that is gone."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from odradek import Acknowledgement, Client, Producer, ShareConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.foundation.client_limits import CLIENT_LAST_REQUESTS_SECONDS_MAX
from odradek.foundation.mirror_limits import MIRROR_STOP_SECONDS_MAX
from odradek.mirror.mirror import Mirror
from odradek.mirror.settings_file import read_mirror_settings
from tests.mirror.virtual_clusters import SMALL, clusters, mirroring
from tests.support.mirroring import until
from tests.support.whole_cluster import PORT, WholeCluster

GONE = pytest.mark.parametrize("is_dark", [False, True], ids=["refuses", "is silent"])
# A leave or an abort, and what closes beside it.
SECONDS_MAX = 2 * CLIENT_LAST_REQUESTS_SECONDS_MAX


@asynccontextmanager
async def a_cluster() -> AsyncIterator[tuple[WholeCluster, Client]]:
    settings = SMALL | {
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
    }
    cluster = await WholeCluster.start(brokers=1, controllers=1, entries=settings, seed=1)
    try:
        assert await cluster.create_topic("t", assignment=[[1]]) == 0
        network = cluster.network.at("client")
        async with Client([f"node-1-1.test:{PORT}"], network=network, random=random.Random(1)) as client:
            yield cluster, client
    finally:
        await cluster.stop()


class Stopwatch:
    """Seconds of the event loop's time."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began


@GONE
async def test_a_member_of_a_group(is_dark: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with a_cluster() as (cluster, client):
        await cluster.produce(1, "t", 0, b"1")
        async with GroupConsumer(client, "g", ["t"], on_no_offset="earliest") as consumer:
            assert await consumer.poll(timeout_ms=10_000)
            await cluster.kill_broker(1, is_dark=is_dark)
            watch = Stopwatch()
        assert watch.seconds() <= SECONDS_MAX
    assert "group g was not notified of the leave" in caplog.text


@GONE
async def test_a_member_of_a_share_group(is_dark: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with a_cluster() as (cluster, client):
        refused = []
        consumer = ShareConsumer(
            client,
            "s",
            ["t"],
            is_explicit=True,
            on_acknowledged=lambda key, offsets, failure: refused.append(failure),
        )
        async with consumer:
            while not consumer.assignment:
                await consumer.poll(timeout_ms=100)
            await cluster.produce(1, "t", 0, b"1")
            (record,) = await consumer.poll(timeout_ms=10_000)
            consumer.acknowledge(record, Acknowledgement.ACCEPT)
            await cluster.kill_broker(1, is_dark=is_dark)
            watch = Stopwatch()
        assert watch.seconds() <= SECONDS_MAX
    assert "share group s was not notified of the leave" in caplog.text
    assert len(refused) == 1 and refused[0] is not None, "its answer did not arrive"


@GONE
async def test_a_transaction_that_is_cancelled(is_dark: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with a_cluster() as (cluster, client):

        async def hold_open() -> None:
            async with Producer(client, transactional_id="x") as producer, producer.transaction():
                await producer.send_and_wait("t", b"1", timestamp_ms=1)
                begun.set()
                await asyncio.sleep(3_600)

        begun = asyncio.Event()
        task = asyncio.create_task(hold_open())
        await asyncio.wait([task, asyncio.create_task(begun.wait())], return_when=asyncio.FIRST_COMPLETED)
        await cluster.kill_broker(1, is_dark=is_dark)
        watch = Stopwatch()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert watch.seconds() <= SECONDS_MAX
    assert caplog.text.count("the transaction stays open until the broker aborts it") == 1


@GONE
async def test_a_transaction_that_is_open_at_the_close(is_dark: bool) -> None:
    async with a_cluster() as (cluster, client):
        producer = Producer(client, transactional_id="x")
        await producer.start()
        await producer.begin_transaction()
        await producer.send_and_wait("t", b"1", timestamp_ms=1)
        await cluster.kill_broker(1, is_dark=is_dark)
        watch = Stopwatch()
        await producer.close()
        assert watch.seconds() <= SECONDS_MAX


@pytest.mark.parametrize("is_dark", [False, True], ids=["refuse", "are silent"])
async def test_a_mirror_whose_clusters_are_gone(is_dark: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with clusters(monkeypatch) as both:
        await both.produce("a")
        mirror = Mirror(read_mirror_settings(mirroring(), source="test.properties"))
        task = asyncio.create_task(mirror.run())
        await until(lambda: both.copy_is("a"))
        await both.produce("b")
        for cluster in (both.target, both.source):
            for broker_id in list(cluster.brokers):
                await cluster.kill_broker(broker_id, is_dark=is_dark)
        watch = Stopwatch()
        mirror.stop()
        await task
        # An open transaction, what is under way, its abort, the leave, and the last offsets.
        assert watch.seconds() <= MIRROR_STOP_SECONDS_MAX + 2 * 5 + SECONDS_MAX
