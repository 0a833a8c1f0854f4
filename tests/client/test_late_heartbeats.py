"""What a heartbeat's late answer, and a change during a rebalance, do to a member of a classic group."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.group import GroupConsumer
from odradek.client.consumer.membership import Membership
from odradek.foundation.errors import IllegalGeneration
from odradek.wire.protocol.api import ApiKey
from tests.support.loop import run
from tests.support.stories import told_by
from tests.support.whole_cluster import PORT, WholeCluster

ENTRIES = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def play(story: Callable[[Client], Awaitable[None]]) -> None:
    """Run a story on virtual time, with a client of a broker that has the topics t and u."""

    async def with_cluster() -> None:
        cluster = await WholeCluster.start(brokers=1, controllers=1, entries=ENTRIES)
        for topic in ("t", "u"):
            assert await cluster.create_topic(topic, partitions=1, replicas=1) == 0
        network = cluster.network.at("client")
        async with Client(f"{cluster.host(1)}:{PORT}", network=network, random=random.Random(1)) as client:
            await story(client)

    run(with_cluster())


@pytest.mark.thorough
@told_by(play)
async def test_a_late_answer_of_an_earlier_generation_is_of_no_account(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = GroupConsumer(client, "g", ["t"], heartbeat_interval_ms=100)
    request, sent, may_arrive = BrokerConnection.request, asyncio.Event(), asyncio.Event()

    async def slow(self: BrokerConnection, api: ApiKey, **fields: object) -> object:
        if api is not ApiKey.HEARTBEAT or sent.is_set():
            return await request(self, api, **fields)  # type: ignore[arg-type]
        sent.set()
        # The broker refuses it, and says so after the next rebalance.
        answer = await request(self, api, **{**fields, "generation_id": 99})  # type: ignore[arg-type]
        await may_arrive.wait()
        return answer

    monkeypatch.setattr(BrokerConnection, "request", slow)
    async with consumer:
        await consumer.poll(timeout_ms=10)
        assert consumer.generation == 1
        await sent.wait()
        consumer.subscribe(["t", "u"])
        await consumer.poll(timeout_ms=10)
        assert consumer.generation == 2
        may_arrive.set()
        await asyncio.sleep(1)
        await consumer.poll(timeout_ms=10)
        assert consumer.generation == 2


@told_by(play)
async def test_an_answer_of_the_present_generation_counts(client: Client) -> None:
    consumer = GroupConsumer(client, "g", ["t"], heartbeat_interval_ms=100)
    async with consumer:
        await consumer.poll(timeout_ms=10)
        consumer._membership.generation = 99
        with pytest.raises(IllegalGeneration):
            await consumer._membership.heartbeat()
        await asyncio.sleep(1)
        assert consumer.generation == -1
        await consumer.poll(timeout_ms=10)
        assert consumer.generation == 2


@told_by(play)
async def test_a_change_during_a_rebalance_is_seen_before_anything_is_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = GroupConsumer(client, "g", ["t"])
    synchronize = Membership.synchronize

    async def changed_meanwhile(self: Membership, *given: object, **named: object) -> object:
        share = await synchronize(self, *given, **named)  # type: ignore[arg-type]
        consumer.subscribe(["t", "u"])
        return share

    monkeypatch.setattr(Membership, "synchronize", changed_meanwhile)
    async with consumer:
        await consumer.poll(timeout_ms=10)
        assert {key.topic for key in consumer.assignment} == {"t", "u"}
