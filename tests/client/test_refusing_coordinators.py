"""What a client says of a coordinator that refuses for long, as that of a broker whose disk is full."""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from odradek.client.client import Client
from odradek.client.consumer.group import GroupConsumer
from odradek.client.producer.producer import Producer
from odradek.client.share.share_consumer import ShareConsumer
from odradek.foundation.errors import CoordinatorNotAvailable
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}
# With more replicas than brokers the topic of a coordinator cannot be made, so there is none.
WITHOUT = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
}
HINT = " (`odradek doctor` looks for the cause, as a full disk)"


async def started(entries: dict[str, str]) -> tuple[WholeCluster, Client]:
    cluster = await WholeCluster.start(brokers=1, controllers=1, entries=entries)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    network = cluster.network.at("client")
    return cluster, Client(f"{cluster.host(1)}:{PORT}", network=network, random=random.Random(1))


def spoken(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage()
        for one in caplog.records
        if one.name.startswith("odradek.client") and one.levelno >= logging.WARNING
    ]


async def test_a_commit_that_a_full_disk_refuses_is_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    cluster, client = await started(ENTRIES)
    async with client, GroupConsumer(client, "g", ["t"], on_no_offset="earliest") as consumer:
        await cluster.produce(1, "t", 0, b"a")
        assert [record.value for record in await consumer.poll(timeout_ms=5_000)] == [b"a"]
        disk = cluster.disks[1]
        disk.capacity_bytes = disk.used_bytes
        committing = asyncio.create_task(consumer.commit())
        await asyncio.sleep(6)
        (refused,) = spoken(caplog)
        assert refused.startswith("still trying after 3 s: group 'g', topic 't': ")
        assert refused.endswith(HINT)
        disk.capacity_bytes = None
        await committing
        (_, answered) = spoken(caplog)
        assert answered.startswith("the coordinator answers again, after ")


def check_refusal(caplog: pytest.LogCaptureFixture, about: str) -> None:
    """One line, which names what waits and why."""
    (refused,) = spoken(caplog)
    assert refused.startswith(f"still trying after 3 s: {about} cannot be created yet")
    assert refused.endswith(HINT)


@pytest.mark.parametrize("kind", [GroupConsumer, ShareConsumer])
async def test_a_member_that_finds_no_coordinator_says_so(
    caplog: pytest.LogCaptureFixture, kind: type[GroupConsumer | ShareConsumer]
) -> None:
    _, client = await started(WITHOUT)
    async with client:
        member = kind(client, "g", ["t"])
        polling = asyncio.create_task(member.poll(timeout_ms=20_000))
        await asyncio.sleep(6)
        polling.cancel()
        await asyncio.wait([polling])
        await member.close()
    check_refusal(caplog, "group 'g': The topic __consumer_offsets")


async def test_a_transaction_that_finds_no_coordinator_says_so(caplog: pytest.LogCaptureFixture) -> None:
    _, client = await started(WITHOUT)
    async with client:
        producer = Producer(client, transactional_id="x")
        with pytest.raises(CoordinatorNotAvailable):
            await producer.start()
        await producer.close(is_flushing=False)
    check_refusal(caplog, "transactional id 'x': The topic __transaction_state")
