"""What members of a group and of a queue say of a topic that is deleted while they read it, and what they read then."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from odradek.client.client import Client
from odradek.client.consumer.group import GroupConsumer
from odradek.client.share.share_consumer import ShareConsumer
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
GONE = "group 'g' waits: there is no topic 't', and it is read once it is made"
BACK = "group 'g' reads topic 't', which is there now"

Poll = Callable[[], Awaitable[list[bytes | None]]]


@asynccontextmanager
async def opened_cluster() -> AsyncIterator[tuple[WholeCluster, Client]]:
    cluster = await WholeCluster.start(brokers=1, controllers=1, entries=ENTRIES)
    network = cluster.network.at("reader")
    async with Client(f"{cluster.host(1)}:{PORT}", network=network, random=random.Random(1)) as client:
        yield cluster, client
    await cluster.stop()


async def delete(cluster: WholeCluster, topic: str) -> None:
    answer = await cluster.ask(1, ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout=30_000)
    assert int(answer.responses[0].error_code) == 0


async def read(consumer: GroupConsumer | ShareConsumer, *, seconds: float) -> list[bytes | None]:
    """The values that arrive in this time."""
    loop, found = asyncio.get_running_loop(), list[bytes | None]()
    end = loop.time() + seconds
    while loop.time() < end:
        found += [record.value for record in await consumer.poll(timeout_ms=500)]
    return found


def spoken(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name.startswith("odradek.client") and one.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize("partitions", [1, 2, 3])
async def test_a_group_says_that_its_topic_is_gone_and_reads_it_when_it_is_back(
    caplog: pytest.LogCaptureFixture, partitions: int
) -> None:
    async with opened_cluster() as (cluster, client):
        assert await cluster.create_topic("t", partitions=2) == 0
        async with GroupConsumer(client, "g", ["t"]) as consumer:
            assert await read(consumer, seconds=1) == []
            await cluster.produce(1, "t", 0, b"a", b"b", b"c")
            assert await read(consumer, seconds=1) == [b"a", b"b", b"c"]
            await delete(cluster, "t")
            assert await read(consumer, seconds=10) == []
            assert spoken(caplog) == [GONE]
            assert await read(consumer, seconds=600) == []
            assert spoken(caplog) == [GONE], "once"
            assert await cluster.create_topic("t", partitions=partitions) == 0
            for number in range(partitions):
                await cluster.produce(1, "t", number, b"%d" % number)
            wanted = {b"%d" % number for number in range(partitions)}
            assert set(await read(consumer, seconds=10)) == wanted
            assert spoken(caplog) == [GONE, BACK]
            await consumer.commit()


async def test_a_topic_that_was_made_again_at_once_is_read_from_its_first_record() -> None:
    async with opened_cluster() as (cluster, client):
        assert await cluster.create_topic("t", partitions=1) == 0
        async with GroupConsumer(client, "g", ["t"]) as consumer:
            await read(consumer, seconds=1)
            await cluster.produce(1, "t", 0, b"a")
            assert await read(consumer, seconds=1) == [b"a"]
            await delete(cluster, "t")
            assert await cluster.create_topic("t", partitions=1) == 0
            await cluster.produce(1, "t", 0, b"b", b"c")
            assert await read(consumer, seconds=10) == [b"b", b"c"]


@pytest.mark.parametrize("is_queue", [True, False])
async def test_a_topic_that_is_made_later_is_waited_for(
    caplog: pytest.LogCaptureFixture, is_queue: bool
) -> None:
    async with opened_cluster() as (cluster, client):
        kind = ShareConsumer if is_queue else GroupConsumer
        async with kind(client, "g", ["t"]) as consumer:
            assert await read(consumer, seconds=15) == []
            (line,) = spoken(caplog)
            assert line.endswith(GONE)
            assert await cluster.create_topic("t", partitions=1) == 0
            assert await read(consumer, seconds=10) == []
            await cluster.produce(1, "t", 0, b"a")
            assert await read(consumer, seconds=5) == [b"a"]


async def test_a_member_whose_topic_is_gone_does_not_hold_up_a_rebalance() -> None:
    async with opened_cluster() as (cluster, client):
        for topic in ("t", "u"):
            assert await cluster.create_topic(topic, partitions=1) == 0
        async with GroupConsumer(client, "g", ["t"]) as consumer:
            await read(consumer, seconds=1)
            await cluster.produce(1, "t", 0, b"a")
            assert await read(consumer, seconds=1) == [b"a"]
            await delete(cluster, "t")
            consumer.subscribe(["t", "u"])
            await cluster.produce(1, "u", 0, b"b")
            assert await read(consumer, seconds=10) == [b"b"]


async def test_a_queue_says_that_its_topic_is_gone_and_reads_it_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened_cluster() as (cluster, client):
        assert await cluster.create_topic("t", partitions=2) == 0
        async with ShareConsumer(client, "g", ["t"]) as consumer:
            assert await read(consumer, seconds=10) == []
            await cluster.produce(1, "t", 0, b"a")
            assert await read(consumer, seconds=1) == [b"a"]
            await delete(cluster, "t")
            assert await read(consumer, seconds=12) == []
            assert spoken(caplog) == [f"share {GONE}"]
            assert await read(consumer, seconds=600) == []
            assert spoken(caplog) == [f"share {GONE}"], "once"
            assert await cluster.create_topic("t", partitions=2) == 0
            assert await read(consumer, seconds=10) == []
            await cluster.produce(1, "t", 0, b"b")
            assert await read(consumer, seconds=5) == [b"b"]
            assert spoken(caplog) == [f"share {GONE}", f"share {BACK}"]
