"""The five calls of MirrorMaker 2's `RemoteClusterUtils` 4.1.1 on what a flow of ours leaves at the target."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from tests.mirror.copying_by_hand import flow_by_hand
from tests.mirror.test_moved_groups import checkpoint_of, commit, fill
from tests.support.java import mirror_client_classpath
from tests.support.java_gateway import java_gateway, java_properties, listed
from tests.support.peers import TwoClusters
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.thorough]


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    with java_gateway(mirror_client_classpath()) as view:
        yield view


# What the calls may find of this flow; others may have been between the two clusters before.
OURS = {"a", "heartbeats", "a.heartbeats", "a.checkpoints.internal"}


@pytest.mark.parametrize("policy", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
@in_real_time
async def test_the_tools_find_the_source_and_its_groups(
    jvm: Any, clusters: TwoClusters, unique: str, policy: str
) -> None:
    tools = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils
    properties = java_properties(
        jvm,
        clusters.target.bootstrap,
        {"replication.policy.class": f"org.apache.kafka.connect.mirror.{policy}"},
    )

    def calls(group_id: str) -> dict[str, Any]:
        """What the five calls return, as Python has it."""
        translated = tools.translateOffsets(properties, "a", group_id, jvm.java.time.Duration.ofSeconds(20))
        return {
            "hops": tools.replicationHops(properties, "a"),
            "unknown": tools.replicationHops(properties, "elsewhere"),
            "clusters": OURS & set(listed(tools.upstreamClusters(properties))),
            "heartbeats": OURS & set(listed(tools.heartbeatTopics(properties))),
            "checkpoints": OURS & set(listed(tools.checkpointTopics(properties))),
            "offsets": {
                TopicPartition(entry.getKey().topic(), entry.getKey().partition()): (
                    entry.getValue().offset(),
                    entry.getValue().metadata(),
                )
                for entry in listed(translated.entrySet())
            },
        }

    await fill(clusters, unique, 600)
    async with Client(clusters.source.bootstrap) as source:
        with suppress(TopicAlreadyExists):
            await TopicAdmin(source).create("heartbeats", partitions=1)
    is_identity = policy.startswith("Identity")
    async with flow_by_hand(clusters, [unique, "heartbeats"], positions={}, is_identity=is_identity) as flow:
        await flow.copy(unique, until=600)
        await commit(clusters, unique, unique, 345)
        checkpoint = await checkpoint_of(flow, unique, unique, 345)
        found = await asyncio.to_thread(calls, unique)
        assert found == {
            "hops": 1,
            "unknown": -1,
            "clusters": {"a"},
            "heartbeats": {"heartbeats", "a.heartbeats"},
            "checkpoints": {"a.checkpoints.internal"},
            "offsets": {flow.target_of(unique): (checkpoint.target_offset, "m")},
        }
