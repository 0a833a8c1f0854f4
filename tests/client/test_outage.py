"""What a consumer says while brokers are away, and how soon it tries again."""

from __future__ import annotations

import logging
import random

import pytest

from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.group import GroupConsumer
from odradek.client.consumer.outage import COORDINATOR, Outage
from odradek.client.errors import ConnectionFailed
from odradek.foundation.ids import TopicPartition
from tests.support.whole_cluster import PORT, WholeCluster

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
AWAY = ConnectionFailed("nothing listens")


def test_an_outage_is_logged_at_its_beginning_and_end_and_rarely_between(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage()
    for tenths in range(36_000):
        outage.note_failure([A, B], AWAY, now=tenths / 10)
    assert caplog.messages[:4] == [
        "nothing listens; trying again until it answers",
        "still trying after 10 s: nothing listens",
        "still trying after 30 s: nothing listens",
        "still trying after 70 s: nothing listens",
    ]
    assert len(caplog.messages) == 62, "in an hour"
    caplog.clear()
    outage.note_answer(A, now=3_600)
    assert caplog.messages == []
    outage.note_answer(B, now=3_601)
    outage.note_answer(B, now=3_602)
    assert caplog.messages == ["the broker answers again, after 3601.0 s"]


def test_partitions_that_are_read_no_longer_are_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    outage.note_failure([A, B], AWAY, now=0)
    outage.note_answer(A, now=1)
    outage.keep([A], now=2)
    assert caplog.messages[1:] == ["the broker answers again, after 2.0 s"]


def test_a_coordinator_is_away_whatever_partitions_are_read(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage()
    outage.note_failure([COORDINATOR], AWAY, now=0)
    outage.note_failure([A], AWAY, now=0.5)
    outage.keep([], now=1)
    assert len(caplog.messages) == 1
    outage.note_answer(COORDINATOR, now=2)
    assert caplog.messages[1:] == ["the broker answers again, after 2.0 s"]


async def test_a_consumer_tries_at_a_bounded_pace_and_says_little(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "odradek.client.consumer")
    cluster = await WholeCluster.start(brokers=1, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    client = Client(
        f"{cluster.host(1)}:{PORT}", network=cluster.network.at("reader"), random=random.Random(1)
    )
    async with client, PartitionConsumer(client) as consumer:
        consumer.assign({A: 0})
        assert await consumer.poll(timeout_ms=100) == []
        await cluster.kill_broker(1)
        for _ in range(60):
            assert await consumer.poll(timeout_ms=1_000) == []
    await cluster.stop()
    tries = [one for one in caplog.messages if one.startswith("fetching again")]
    assert 50 < len(tries) < 80, "one each second, and some at once"
    first, second, third = [
        one.getMessage()
        for one in caplog.records
        if one.name.startswith("odradek.client") and one.levelno >= logging.WARNING
    ]
    assert first.endswith("; trying again until it answers")
    assert second.startswith("still trying after 1")
    assert third.startswith("still trying after 3")


async def test_a_member_whose_coordinator_is_away_says_so(caplog: pytest.LogCaptureFixture) -> None:
    entries = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    cluster = await WholeCluster.start(brokers=1, controllers=1, entries=entries)
    assert await cluster.create_topic("t", partitions=1, replicas=1) == 0
    client = Client(
        f"{cluster.host(1)}:{PORT}", network=cluster.network.at("reader"), random=random.Random(1)
    )
    async with client, GroupConsumer(client, "g", ["t"], on_no_offset="earliest") as consumer:
        await client.connect()
        await cluster.kill_broker(1)
        with pytest.raises(ConnectionFailed):
            await consumer.poll()
    await cluster.stop()
    first, *others = [
        one.getMessage()
        for one in caplog.records
        if one.name.startswith("odradek.client") and one.levelno >= logging.WARNING
    ]
    assert first.endswith("; trying again until it answers")
    assert len(others) < 4
    assert all(one.startswith("still trying after ") for one in others)
