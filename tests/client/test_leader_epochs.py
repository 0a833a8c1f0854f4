"""A consumer and leaders that change: no replaced leader is believed, and a truncated log is noticed (KIP-320)."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pytest

from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.errors import LogTruncated
from odradek.client.metadata import (
    NO_LEADER,
    PICTURES_WITHOUT_EPOCH_MAX,
    ClusterInfo,
    NewestLeaders,
    PartitionInfo,
    TopicInfo,
)
from odradek.foundation.ids import TopicPartition
from tests.support.whole_cluster import PORT, WholeCluster

KEY = TopicPartition("t", 0)


def picture(leader: int, epoch: int, *, topic_id: int = 1) -> ClusterInfo:
    partition = PartitionInfo(0, leader, epoch, (1, 2), (1, 2), (), 0)
    topic = TopicInfo("t", uuid.UUID(int=topic_id), is_internal=False, partitions=(partition,), error_code=0)
    return ClusterInfo("c", 1, {}, {"t": topic})


def leader_of(cluster: ClusterInfo) -> tuple[int, int]:
    found = cluster.partition(KEY)
    return found.leader, found.leader_epoch


def test_an_older_picture_does_not_bring_back_an_older_leader() -> None:
    newest = NewestLeaders()
    assert leader_of(newest.merge_leaders(picture(1, 5))) == (1, 5)
    assert leader_of(newest.merge_leaders(picture(2, 6))) == (2, 6)
    assert leader_of(newest.merge_leaders(picture(1, 5))) == (2, 6)
    broken = picture(1, 5)
    topics = {"t": replace(broken.topics["t"], partitions=(), error_code=3)}
    newest.merge_leaders(replace(broken, topics=topics))
    assert leader_of(newest.merge_leaders(picture(1, 5))) == (2, 6), (
        "nor after a broker that did not know the topic"
    )
    assert leader_of(newest.merge_leaders(picture(NO_LEADER, 6))) == (NO_LEADER, 6)
    assert leader_of(newest.merge_leaders(picture(1, 0, topic_id=2))) == (1, 0), "a topic made again"
    newest.merge_leaders(ClusterInfo("c", 1))
    assert leader_of(newest.merge_leaders(picture(1, 0))) == (1, 0)


def test_an_epoch_that_was_read_makes_older_leaders_unknown_for_a_while() -> None:
    newest = NewestLeaders()
    assert not newest.note(KEY, 6), "nothing is known of the topic"
    newest.merge_leaders(picture(1, 5))
    assert not newest.note(KEY, 5)
    assert newest.note(KEY, 6)
    assert leader_of(newest.merge_leaders(picture(1, 5))) == (NO_LEADER, 6)
    assert leader_of(newest.merge_leaders(picture(2, 6))) == (2, 6)
    assert newest.note(KEY, 9)
    for _ in range(PICTURES_WITHOUT_EPOCH_MAX - 1):
        assert leader_of(newest.merge_leaders(picture(2, 7))) == (NO_LEADER, 9)
    assert leader_of(newest.merge_leaders(picture(2, 7))) == (2, 7)
    assert not newest.note(KEY, 9), "it is not waited for again"


def client_of(cluster: WholeCluster, *brokers: int, starts: int = 1) -> Client:
    hosts = [f"node-{number}-{start}.test:{PORT}" for start in range(1, starts + 1) for number in brokers]
    return Client(
        hosts,
        network=cluster.network.at("reader"),
        request_timeout_ms=2_000,
        connect_timeout_ms=500,
        random=random.Random(1),
    )


async def values_of(consumer: PartitionConsumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for _ in range(30):
        found += [record.value for record in await consumer.poll(timeout_ms=500)]
        if len(found) >= count:
            break
    return found


async def test_a_leader_that_was_replaced_and_cut_off_is_not_asked() -> None:
    cluster = await WholeCluster.start(brokers=3, controllers=1)
    assert await cluster.create_topic("t", partitions=1, replicas=3) == 0
    (old,) = cluster.leaders("t", seen_by=1)
    others = [number for number in (1, 2, 3) if number != old]
    await cluster.produce(old, "t", 0, b"a", acks=-1)
    for host in (*map(cluster.host, others), cluster.host(100)):
        cluster.network.part(cluster.host(old), host)
    store = cluster.stores[cluster.host(old)]
    store.sever()
    store.expire()
    await cluster.until(lambda: cluster.leaders("t", seen_by=others[0])[0] in others)
    (new,) = cluster.leaders("t", seen_by=others[0])
    await cluster.produce(new, "t", 0, b"b", b"c", acks=-1)
    async with (
        client_of(cluster, *others, old) as client,
        PartitionConsumer(client, bounds=FetchBounds(wait_ms_max=100)) as consumer,
    ):
        consumer.assign({KEY: 0})
        assert await values_of(consumer, 3) == [b"a", b"b", b"c"]
        for number in others:
            cluster.network.part("reader", cluster.host(number))
            cluster.network.reset(cluster.host(number))
        assert cluster.leaders("t", seen_by=old) == [old], "it does not know yet"
        assert await consumer.poll(timeout_ms=2_000) == []
        cluster.network.heal()
        await cluster.produce(new, "t", 0, b"d")
        assert await values_of(consumer, 1) == [b"d"]


@pytest.mark.parametrize("policy", ["error", "earliest", "latest"])
async def test_a_log_that_was_cut_is_noticed(policy: str) -> None:
    entries = {"unclean.leader.election.enable": "true"}
    cluster = await WholeCluster.start(brokers=2, controllers=1, entries=entries)
    assert await cluster.create_topic("t", partitions=1, replicas=2) == 0
    (old,) = cluster.leaders("t", seen_by=1)
    new = 3 - old
    await cluster.produce(old, "t", 0, b"a", acks=-1)
    await cluster.kill_broker(new)
    await cluster.until(lambda: cluster.image(old).topics["t"].partitions[0].isr == (old,))
    await cluster.produce(old, "t", 0, b"b", b"c")
    async with (
        client_of(cluster, 1, 2, starts=2) as client,
        PartitionConsumer(client, bounds=FetchBounds(wait_ms_max=100), on_out_of_range=policy) as consumer,
    ):
        consumer.assign({KEY: 0})
        assert await values_of(consumer, 3) == [b"a", b"b", b"c"]
        await cluster.kill_broker(old)
        await cluster.start_broker(new)
        await cluster.until(lambda: cluster.leaders("t", seen_by=new) == [new])
        # As many as were lost and more: by offsets alone it would not be seen.
        await cluster.produce(new, "t", 0, b"x", b"y", b"z")
        if policy == "error":
            for _ in range(2):
                with pytest.raises(LogTruncated, match="truncated below offset 1"):
                    await values_of(consumer, 1)
            consumer.seek(KEY, 1)
        assert await values_of(consumer, 3) == [b"x", b"y", b"z"]
        assert consumer.epoch(KEY) == client.cluster.partition(KEY).leader_epoch
