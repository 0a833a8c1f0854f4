"""Groups that share partitions through ZooKeeper, as two brokers show them to administrators and in metrics."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl
from prometheus_client.parser import text_string_to_metric_families

from odradek.broker.groups.zookeeper_groups import ZookeeperGroups
from odradek.foundation.clock import SystemClock
from odradek.foundation.limits import (
    ZOOKEEPER_GROUPS_PAUSE_SECONDS,
    ZOOKEEPER_GROUPS_UNASKED_SECONDS_MAX,
)
from odradek.foundation.metrics import MetricsRegistry
from odradek.metadata.image.image import ImageHolder
from odradek.metadata.registry.registries import open_registry
from odradek.server.http import broker_metrics
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import parse_assignment, parse_subscription
from tests.support.exposition import exposition_text
from tests.support.loop import run
from tests.support.memory_registry import MemoryStore
from tests.support.stories import in_real_time, told_by
from tests.support.whole_cluster import WholeCluster
from tests.support.zookeeper import ZooKeeper

GROUP, CONSUMER = "billing", "billing_host-a-1795395053840-ccd67c21"
NODES = {
    f"ids/{CONSUMER}": {"version": 1, "subscription": {"t": 2}, "pattern": "static", "timestamp": "1"},
    "ids/billing_broken": {"t": 1},
    "owners/t/0": f"{CONSUMER}-0",
    "owners/t/1": f"{CONSUMER}-1",
    "offsets/t/0": "1",
    "offsets/t/1": "0",
    "offsets/t/2": "no number",
    f"offsets/t/{'9' * 5_000}": "0",
    "offsets/gone/0": "7",
}


async def write(store: MemoryStore, group: str, nodes: Mapping[str, object]) -> None:
    for name, value in nodes.items():
        path = ""
        for part in ("consumers", group, *name.split("/")):
            path += f"/{part}"
            if not await store.exists(path):
                await store.create(path)
        await store.put(path, (value if isinstance(value, str) else json.dumps(value)).encode())


def lag_of(cluster: WholeCluster, broker_id: int) -> dict[tuple[str, str, str], float]:
    registry = MetricsRegistry()
    broker_metrics.register(cluster.brokers[broker_id], registry)
    return {
        (sample.labels["group"], sample.labels["topic"], sample.labels["partition"]): sample.value
        for family in text_string_to_metric_families(exposition_text(registry))
        for sample in family.samples
        if sample.name == "odradek_group_lag_messages"
    }


def on_two_brokers(story: Callable[[WholeCluster, MemoryStore], Awaitable[None]]) -> None:
    """Topic t has three partitions with two records each; the leaders are brokers 1, 2, 1."""

    async def whole() -> None:
        entries = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
        cluster = await WholeCluster.start(brokers=2, controllers=1, entries=entries)
        assert await cluster.create_topic("t", assignment=[[1], [2], [1]]) == 0
        await cluster.until(lambda: all(p.leader > 0 for p in cluster.image(2).topics["t"].partitions))
        for number, broker_id in enumerate((1, 2, 1)):
            await cluster.produce(broker_id, "t", number, b"a", b"b")
        store = MemoryStore(cluster.registry, session_timeout_seconds=60)
        await write(store, GROUP, NODES)
        await story(cluster, store)

    run(whole())


async def coordinator_of(cluster: WholeCluster, group: str) -> int:
    """The broker that answers for a group, once the offsets topic is loaded."""
    found = await cluster.coordinator(group, through=1)
    await cluster.brokers[found].coordinators.groups.runtime.wait_until_loaded()
    return found


@told_by(on_two_brokers, gives=2)
async def test_one_broker_lists_them(cluster: WholeCluster, store: MemoryStore) -> None:
    await write(store, "ended", {"offsets/t/0": "2"})

    async def listed(broker_id: int, version: int = 5, **filters: Any) -> list[tuple[str, ...]]:
        answer = await cluster.ask(broker_id, ApiKey.LIST_GROUPS, version, **filters)
        names = ("group_id", "group_state", "group_type", "protocol_type")
        return [tuple(getattr(one, name, "") for name in names) for one in answer.groups]

    billing = (GROUP, "Stable", "zookeeper", "zookeeper")
    assert await listed(1) == [billing, ("ended", "Empty", "zookeeper", "zookeeper")]
    assert await listed(2) == []
    assert await listed(1, types_filter=["Zookeeper"], states_filter=["stable"]) == [billing]
    assert await listed(1, types_filter=["classic", "consumer"]) == []
    assert [row[0] for row in await listed(1, 0)] == [GROUP, "ended"]
    await cluster.stop_broker(1)
    await cluster.until(lambda: 1 not in cluster.image(2).brokers)
    assert [row[0] for row in await listed(2)] == [GROUP, "ended"]


@pytest.mark.thorough
@told_by(on_two_brokers, gives=2)
async def test_they_are_described_with_owners_and_offsets(cluster: WholeCluster, store: MemoryStore) -> None:
    where = await coordinator_of(cluster, GROUP)
    groups = [GROUP, "none", "a/b"]
    answer = await cluster.ask(where, ApiKey.DESCRIBE_GROUPS, 6, groups=groups)
    found, none, no_name = answer.groups
    assert (none.error_code, no_name.error_code) == (69, 69)
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "zookeeper")
    members = {member.member_id: member for member in found.members}
    assert members.keys() == {CONSUMER, "billing_broken"}
    member = members[CONSUMER]
    assert (member.client_id, member.client_host) == ("host-a-1795395053840-ccd67c21", "host-a")
    assert parse_subscription(member.member_metadata).topics == ("t",)
    assert parse_assignment(member.member_assignment).partitions == (("t", (0, 1)),)
    assert parse_assignment(members["billing_broken"].member_assignment).partitions == ()

    async def offsets(topics: Any) -> dict[tuple[str, int], int]:
        answer = await cluster.ask(
            where,
            ApiKey.OFFSET_FETCH,
            9,
            groups=[{"group_id": GROUP, "member_id": None, "member_epoch": -1, "topics": topics}],
        )
        return {
            (topic.name, one.partition_index): one.committed_offset
            for topic in answer.groups[0].topics
            for one in topic.partitions
        }

    assert await offsets(None) == {("t", 0): 1, ("t", 1): 0, ("gone", 0): 7}
    # A consumer that names its partitions does not begin there.
    assert await offsets([{"name": "t", "partition_indexes": [0]}]) == {("t", 0): -1}
    # A group of the same name with offsets at the coordinator is that one.
    partition = {"partition_index": 1, "committed_offset": 2}
    topics = [{"name": "t", "partitions": [partition]}]
    await cluster.ask(where, ApiKey.OFFSET_COMMIT, 8, group_id=GROUP, topics=topics)
    assert await offsets(None) == {("t", 1): 2}


@told_by(on_two_brokers, gives=2)
async def test_each_broker_shows_the_lag_of_partitions_that_it_leads(
    cluster: WholeCluster, store: MemoryStore
) -> None:
    assert lag_of(cluster, 1) == lag_of(cluster, 2) == {}
    await asyncio.sleep(1)
    assert lag_of(cluster, 1) == {(GROUP, "t", "0"): 1}
    assert lag_of(cluster, 2) == {(GROUP, "t", "1"): 2}
    await write(store, GROUP, {"offsets/t/0": "2"})
    assert lag_of(cluster, 1) == {(GROUP, "t", "0"): 1}, "one scrape more reads nothing"
    await asyncio.sleep(ZOOKEEPER_GROUPS_PAUSE_SECONDS)
    assert lag_of(cluster, 1) == {(GROUP, "t", "0"): 0}
    reading = cluster.brokers[1].coordinators.zookeeper_groups
    assert reading is not None
    await asyncio.sleep(ZOOKEEPER_GROUPS_UNASKED_SECONDS_MAX + ZOOKEEPER_GROUPS_PAUSE_SECONDS)
    assert reading._reading is not None and reading._reading.done(), "nobody asks any more"
    assert lag_of(cluster, 1) == {}


@told_by(on_two_brokers, gives=2)
async def test_without_a_registry_the_other_groups_are_shown(
    cluster: WholeCluster, store: MemoryStore
) -> None:
    where = await coordinator_of(cluster, GROUP)
    lag_of(cluster, where)
    await asyncio.sleep(1)
    assert lag_of(cluster, where)
    cluster.stores[cluster.host(where)].sever()
    answer = await cluster.ask(where, ApiKey.LIST_GROUPS, 5)
    assert (answer.error_code, answer.groups) == (0, ())
    answer = await cluster.ask(where, ApiKey.DESCRIBE_GROUPS, 6, groups=[GROUP])
    assert answer.groups[0].error_code == 15, "try again"
    await asyncio.sleep(ZOOKEEPER_GROUPS_PAUSE_SECONDS)
    assert lag_of(cluster, where) == {}


@pytest.mark.integration
@in_real_time
async def test_what_a_client_keeps_to_itself_hides_no_other_group(zookeeper: ZooKeeper) -> None:
    """Each client of a protected ZooKeeper may do so, since it makes the access lists of its nodes."""
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    login = {
        "zookeeper.digest.user": "odradek",
        "zookeeper.digest.password": "x",
        "zookeeper.set.acl": "true",
    }
    store = await open_registry(connect, entries=login)
    await store.create("/consumers")
    client = KazooClient(hosts=connect)
    client.start()
    alone = [make_digest_acl("eve", "y", all=True)]
    client.create("/consumers/hidden", b"", acl=alone)
    for number in range(5):
        client.create(f"/consumers/seen/offsets/t/{number}", b"%d" % number, makepath=True)
    client.set_acls("/consumers/seen/offsets/t/3", alone)
    client.stop()
    client.close()
    groups = ZookeeperGroups(store, broker_id=1, images=ImageHolder(), clock=SystemClock())
    assert sorted(one.group_id for one in await groups.list_groups()) == ["hidden", "seen"]
    found = await groups.offsets("seen")
    assert {number: one.offset for (_, number), one in found.items()} == {0: 0, 1: 1, 2: 2, 4: 4}
    assert await groups.offsets("hidden") == {}
    await groups.stop()
    await store.close()


@pytest.mark.integration
@in_real_time
async def test_what_a_client_writes_disturbs_no_broker(zookeeper: ZooKeeper) -> None:
    connect = f"{zookeeper.connect}/{uuid.uuid4()}"
    store = await open_registry(connect)
    slow = "(a*)*b"
    for path, data in {
        "ids/nested": b"[" * 100_000,
        "ids/slow": b'{"version":1,"subscription":{"%s":1},"pattern":"white_list"}' % slow.encode(),
        "offsets/t/0": b"9" * 5_000,
        f"offsets/t/{'9' * 5_000}": b"1",
        "offsets/t/\u0661": b"1",
        "offsets/t/1": b"7",
        f"owners/{'a' * 100}/0": b"slow-0",
    }.items():
        steps = f"/consumers/group/{path}".split("/")
        for count in range(2, len(steps) + 1):
            if not await store.exists("/".join(steps[:count])):
                await store.create("/".join(steps[:count]), data if count == len(steps) else b"")
    groups = ZookeeperGroups(store, broker_id=1, images=ImageHolder(), clock=SystemClock())
    found = await groups.offsets("group")
    assert {number: one.offset for (_, number), one in found.items()} == {1: 7}
    members = {one.member_id: one for one in (await groups.describe("group")).members}
    assert set(members) == {"nested", "slow"}
    # An expression that is not matched: its consumer reads at least what it owns.
    assert list(parse_subscription(members["slow"].metadata).topics) == ["a" * 100]
    await groups.stop()
    await store.close()
