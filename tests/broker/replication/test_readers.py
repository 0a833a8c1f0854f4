"""What consumers get of replicated partitions: what is committed, from the replica next to them, when it is there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.replicas import ReplicaCluster

NOT_LEADER_OR_FOLLOWER = 6
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def _asked(offset: int, **more: int) -> list[dict[str, object]]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}
    return [{"topic": "t", "partitions": [partition]}]


async def test_a_follower_serves_only_committed_records() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    await cluster.produce(1, b"0")
    await asyncio.sleep(1)
    cluster.disconnect(1, 3)
    await cluster.produce(1, b"1", acks=1)
    await asyncio.sleep(1)
    follower = cluster.nodes[2]
    assert (follower.partition().log.log_end_offset, follower.partition().high_watermark) == (2, 1)
    for version, code in ((10, NOT_LEADER_OR_FOLLOWER), (11, 0), (12, 0)):
        answer = await follower.ask(ApiKey.FETCH, version, min_bytes=0, topics=_asked(0))
        (found,) = answer.responses[0].partitions
        assert found.error_code == code
        if not code:
            assert found.high_watermark == 1
            assert int.from_bytes(bytes(found.records)[57:61], "big") == 1, "one record"
    for epoch, code in ((-1, 0), (0, 0), (1, 75)):
        topics = _asked(0, current_leader_epoch=epoch)
        answer = await follower.ask(ApiKey.FETCH, 12, min_bytes=0, topics=topics)
        assert answer.responses[0].partitions[0].error_code == code


async def test_a_consumer_is_sent_to_the_replica_in_its_rack() -> None:
    cluster = await ReplicaCluster.start(replica_selector_class=SELECTOR, replicas=(1, 2, 3))
    await cluster.produce(1, b"0")
    await asyncio.sleep(1)

    async def preferred(rack: str, offset: int = 0) -> int:
        answer = await cluster.nodes[1].ask(
            ApiKey.FETCH, 11, min_bytes=0, topics=_asked(offset), rack_id=rack
        )
        (found,) = answer.responses[0].partitions
        assert found.error_code == 0
        assert (not found.records) == (found.preferred_read_replica >= 0)
        return int(found.preferred_read_replica)

    assert [await preferred(rack) for rack in ("rack-2", "rack-3", "rack-1", "other", "")] == [
        2, 3, -1, -1, -1,
    ]  # fmt: skip
    cluster.disconnect(1, 3)
    await cluster.until(lambda: cluster.nodes[1].partition().high_watermark == 1)
    await cluster.kill_node(2)
    await asyncio.sleep(0.1)
    assert await preferred("rack-2") == -1, "it is not live"


async def test_the_high_watermark_and_not_the_append_ends_a_wait() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    cluster.disconnect(1, 3)
    node = cluster.nodes[1]
    reading = asyncio.create_task(node.ask(ApiKey.FETCH, 12, min_bytes=1, max_wait=120_000, topics=_asked(0)))
    await asyncio.sleep(0)
    await cluster.produce(1, b"v", acks=1)
    await asyncio.sleep(2)
    assert not reading.done()
    cluster.heal()
    answer = await asyncio.wait_for(reading, 5)
    assert answer.responses[0].partitions[0].high_watermark == 1
    assert answer.responses[0].partitions[0].records


async def test_a_waiting_fetch_at_a_follower_ends_by_min_bytes() -> None:
    cluster = await ReplicaCluster.start(replicas=(1, 2, 3))
    reading = asyncio.create_task(
        cluster.nodes[2].ask(ApiKey.FETCH, 12, min_bytes=1500, max_wait=60_000, topics=_asked(0))
    )
    await asyncio.sleep(0)
    for _ in range(2):
        await cluster.produce(1, b"v" * 600)
        await asyncio.sleep(2)
        assert not reading.done()
    await cluster.produce(1, b"v" * 600)
    answer = await asyncio.wait_for(reading, 2)
    assert answer.responses[0].partitions[0].high_watermark == 3


@pytest.mark.parametrize(("entries", "seconds_max"), [({"replica_selector_class": SELECTOR}, 0.1), ({}, 0.6)])
async def test_followers_with_consumers_learn_of_commits_at_once(
    entries: dict[str, Any], seconds_max: float
) -> None:
    cluster = await ReplicaCluster.start(brokers=3, **entries, replicas=(1, 2, 3))
    await asyncio.sleep(5)
    fetchers = [fetcher for number in (2, 3) for fetcher in cluster.nodes[number].fetchers]
    for end in range(1, 6):
        assert (await cluster.produce(1, b"v")).error_code == 0
        await asyncio.sleep(seconds_max)
        assert [cluster.nodes[number].partition().high_watermark for number in (2, 3)] == [end, end]
        await asyncio.sleep(2)
    before = sum(fetcher.requests for fetcher in fetchers)
    await asyncio.sleep(50)
    # Nothing new: each waits its half second.
    assert sum(fetcher.requests for fetcher in fetchers) - before <= 2 * 102
