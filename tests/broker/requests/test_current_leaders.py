"""A broker that does not lead a partition names the leader and its address (KIP-951)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odradek.metadata.image.image import NO_LEADER
from odradek.wire.protocol.api import ApiKey
from tests.support.replicas import ReplicaCluster, ReplicaNode
from tests.support.whole_broker import batch

NOT_LEADER_OR_FOLLOWER = 6
FENCED_LEADER_EPOCH = 74


async def produced(node: ReplicaNode, version: int, index: int = 0) -> Any:
    topic = node.images.current.topics["t"]
    return await node.ask(
        ApiKey.PRODUCE,
        version,
        acks=-1,
        timeout=1000,
        topic_data=[
            {
                "name": "t",
                "topic_id": topic.id,
                "partition_data": [{"index": index, "records": batch([b"v"])}],
            }
        ],
    )


async def fetched(node: ReplicaNode, version: int, *, epoch: int = -1) -> Any:
    topic = node.images.current.topics["t"]
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": epoch}
    topics = [{"topic": "t", "topic_id": topic.id, "partitions": [asked]}]
    return await node.ask(ApiKey.FETCH, version, max_wait=0, session_epoch=-1, topics=topics)


def answered(answer: Any, one: Any) -> Any:
    """(leader, epoch, addresses by broker) of an answer and its only partition."""
    nodes = {node.node_id: (node.host, node.port) for node in answer.node_endpoints}
    return one.current_leader.leader_id, one.current_leader.leader_epoch, nodes


@pytest.mark.parametrize("version", [9, 10, 12, 13])
async def test_a_produce_for_another_leader(version: int) -> None:
    cluster = await ReplicaCluster.start(brokers=3, replicas=(2, 1, 3))
    cluster.elect(3)
    await cluster.until(lambda: cluster.nodes[1].partition().leader_id == 3)
    answer = await produced(cluster.nodes[1], version)
    one = answer.responses[0].partition_responses[0]
    assert int(one.error_code) == NOT_LEADER_OR_FOLLOWER
    if version < 10:
        return
    address = cluster.nodes[1].images.current.brokers[3].endpoints["PLAINTEXT"]
    assert answered(answer, one) == (3, 1, {3: address})


@pytest.mark.parametrize("version", [16, 17, 18])
async def test_a_fetch_in_an_epoch_that_is_over(version: int) -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(2, 1))
    cluster.elect(1)
    await cluster.until(lambda: cluster.nodes[2].partition().leader_id == 1)
    for node in cluster.nodes.values():
        answer = await fetched(node, version, epoch=0)
        one = answer.responses[0].partitions[0]
        assert int(one.error_code) == FENCED_LEADER_EPOCH
        address = node.images.current.brokers[1].endpoints["PLAINTEXT"]
        assert answered(answer, one) == (1, 1, {1: address})


async def test_no_leader_is_named_without_one_or_without_a_listener() -> None:
    cluster = await ReplicaCluster.start(brokers=2, replicas=(2, 1))
    node = cluster.nodes[1]
    image = node.images.current
    node.images.current = replace(
        image, brokers={2: image.brokers[2]._replace(endpoints={"INSIDE": ("b", 1)})}
    )
    answer = await produced(node, 13)
    assert answered(answer, answer.responses[0].partition_responses[0]) == (-1, -1, {})
    node.images.current = image
    cluster.elect(NO_LEADER)
    await cluster.until(lambda: node.partition().leader_id == NO_LEADER)
    answer = await produced(node, 13)
    assert answered(answer, answer.responses[0].partition_responses[0]) == (-1, -1, {})
