"""Brokers of a cluster with a full disk: a follower falls out of the in-sync set, a leader refuses, both recover."""

from __future__ import annotations

import logging

import pytest

from odradek.foundation.errors import KafkaStorageError
from odradek.server.http.cluster_admin import restart_answer
from tests.support.whole_cluster import WholeCluster

VALUE = b"x" * 50_000
KAFKA_STORAGE_ERROR = 56
NONE = 0


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    return [one for one in found if words in one]


async def with_a_leader(leader: int) -> tuple[WholeCluster, str]:
    """Two brokers, and a topic with its only partition led by `leader`."""
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries={"replica.lag.time.max.ms": "2000"})
    for number in range(10):
        assert await cluster.create_topic(f"t{number}", partitions=1, replicas=2) == NONE
        if cluster.leaders(f"t{number}", seen_by=1) == [leader]:
            return cluster, f"t{number}"
    raise AssertionError("all topics are led by the other broker")


async def test_a_follower_says_so_once_and_is_in_sync_again_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, topic = await with_a_leader(1)
    disk = cluster.disks[2]
    disk.capacity_bytes = disk.used_bytes + 200_000
    for _ in range(20):
        assert (await cluster.produce(1, topic, 0, VALUE)).error_code == NONE

    def in_sync() -> list[int]:
        return list(cluster.image(1).topics[topic].partitions[0].isr)

    await cluster.until(lambda: in_sync() == [1])
    assert cluster.brokers[2].not_ready() is None
    reason = cluster.brokers[2].describe_refused_writes()
    assert reason is not None and "has been full for" in reason
    assert cluster.brokers[1].describe_refused_writes() is None
    answer = await restart_answer(cluster.brokers[2])
    assert (
        not answer["can_restart"] and answer["refused_writes"] == cluster.brokers[2].describe_refused_writes()
    )
    assert "refused_writes" not in await restart_answer(cluster.brokers[1])
    assert len(lines(caplog, "is full")) == 1

    disk.capacity_bytes = None
    await cluster.until(lambda: sorted(in_sync()) == [1, 2])
    await cluster.until(lambda: cluster.brokers[2].describe_refused_writes() is None)
    assert len(lines(caplog, "takes writes again")) == 1
    assert (await restart_answer(cluster.brokers[2]))["can_restart"]


async def test_a_leader_refuses_and_takes_records_again_when_there_is_room(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster, topic = await with_a_leader(2)
    disk = cluster.disks[2]
    disk.capacity_bytes = disk.used_bytes + 200_000
    codes = [(await cluster.produce(2, topic, 0, VALUE)).error_code for _ in range(10)]
    assert codes[0] == NONE and codes[-1] == KAFKA_STORAGE_ERROR
    assert cluster.brokers[2].describe_refused_writes() is not None
    assert len(lines(caplog, "is full")) == 1
    disk.capacity_bytes = None
    await cluster.until(lambda: cluster.brokers[2].describe_refused_writes() is None)
    assert (await cluster.produce(2, topic, 0, VALUE)).error_code == NONE
    assert len(lines(caplog, "takes writes again")) == 1


async def test_a_start_on_a_full_disk_ends_and_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    cluster, topic = await with_a_leader(2)
    assert (await cluster.produce(2, topic, 0, VALUE)).error_code == NONE
    cluster.disks[2].capacity_bytes = cluster.disks[2].used_bytes
    await cluster.stop_broker(2)
    with pytest.raises(KafkaStorageError) as raised:
        await cluster.start_broker(2)
    assert "/logs (No space left on device" in str(raised.value)
    assert "nothing in it was lost: delete other files there, or enlarge the volume" in str(raised.value)
    assert str(raised.value).endswith("then start it again")
    cluster.disks[2].capacity_bytes = None
    cluster.disks[2].kill()
    await cluster.start_broker(2)
    await cluster.until(lambda: len(cluster.image(1).topics[topic].partitions[0].isr) == 2)
    await cluster.stop()
    # One for the first of its logs, and one that counts them.
    closed = lines(caplog, "closed cleanly")
    assert len(closed) == 2, closed
    assert "the next start scans them" in closed[1]
