"""Mirrors between two real brokers: the target shows what readers of committed records see at the source, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from odradek import Producer
from odradek.cli.groups.group_resets import apply_resets, plan_resets
from odradek.client.admin.admin import Admin
from odradek.client.admin.group_resets import Reset
from odradek.client.client import Client
from odradek.client.results import ConfigChange, ResourceType
from odradek.foundation.errors import NonEmptyGroup, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.mirror import flow
from odradek.mirror.errors import MirrorRefused
from odradek.mirror.mirror import Mirror
from odradek.mirror.settings_file import read_mirror_settings
from tests.support.mirroring import committed, entries, mirrored, quicken, running, state_of, until, write
from tests.support.peers import TwoClusters
from tests.support.told_with import told_with

pytestmark = pytest.mark.integration

Given = Callable[..., dict[str, str]]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


def _play(story: Callable[..., Coroutine[Any, Any, None]], clusters: TwoClusters, unique: str) -> None:
    async def with_clients() -> None:
        async with Client(clusters.source.bootstrap) as source, Client(clusters.target.bootstrap) as target:
            await story(source, target, unique)

    asyncio.run(with_clients())


# A test with clients of both clusters, and a topic's name of its own.
between_clusters = told_with(_play, "clusters", "unique", gives=3)


@pytest.fixture
def given(clusters: TwoClusters, unique: str) -> Given:
    """The properties of a mirror of this test's topics."""

    def properties(**more: str) -> dict[str, str]:
        return {
            **entries(
                clusters.source.bootstrap, clusters.target.bootstrap, name=unique, topics=f"{unique}.*"
            ),
            **more,
        }

    return properties


@between_clusters
async def test_topics_of_every_kind_are_copied_once_and_in_order(
    source: Client, target: Client, name: str, given: Given
) -> None:
    admin = Admin(source)
    kinds = {
        "plain": {},
        "compacted": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"},
        "stamped": {"message.timestamp.type": "LogAppendTime"},
        "short": {"max.message.bytes": "30000"},
    }
    for kind, configs in kinds.items():
        await admin.topics.create(f"{name}.{kind}", partitions=3, configs=configs)
    await write(source, f"{name}.plain", 3_000, partitions=3)
    await write(source, f"{name}.plain", 1_000, first=3_000, partitions=3, compression="lz4")
    await write(source, f"{name}.plain", 1_000, first=4_000, partitions=3, compression="zstd")
    for number, is_aborted in enumerate((False, True, True, False)):
        await write(
            source,
            f"{name}.plain",
            300,
            first=5_000 + 300 * number,
            partitions=3,
            transactional_id=name,
            is_aborted=is_aborted,
        )
    await write(source, f"{name}.compacted", 2_000, partitions=3, keys=30)
    await write(source, f"{name}.stamped", 500, partitions=3)
    await write(source, f"{name}.short", 500, partitions=3)
    async with running(given()) as mirror:
        for kind in kinds:
            await until(
                lambda kind=kind: mirrored(
                    source, target, f"{name}.{kind}", f"a.{name}.{kind}", is_compacted=kind == "compacted"
                )
            )
        opened = {
            reason for counters in mirror.flows[0].counters.partitions.values() for reason in counters.opened
        }
        assert "log-append-time" in opened
        plain = [
            counters
            for key, counters in mirror.flows[0].counters.partitions.items()
            if key.topic == f"{name}.plain"
        ]
        assert sum(counters.batches for counters in plain) > 0
        assert not any(counters.opened for counters in plain)
        # What comes while it runs follows.
        await write(source, f"{name}.plain", 500, first=9_000, partitions=3)
        await until(lambda: mirrored(source, target, f"{name}.plain", f"a.{name}.plain"))
    entry = {
        one.name: one.value
        for one in await Admin(target).configs.describe(ResourceType.TOPIC, f"a.{name}.compacted")
    }
    assert entry["cleanup.policy"] == "compact"
    positions = await Admin(target).groups.offsets(f"odradek-mirror.{name}.a")
    saved = json.loads(positions[TopicPartition(f"a.{name}.plain", 0)].metadata)
    assert saved["cluster"] == source.cluster.cluster_id


@between_clusters
async def test_new_topics_and_partitions_join_and_settings_follow(
    source: Client, target: Client, name: str, given: Given
) -> None:
    admin = Admin(source)
    await admin.topics.create(f"{name}.one", partitions=1)
    await write(source, f"{name}.one", 100)
    async with running(given(**{"sync.topic.configs.interval.seconds": "1"})):
        await until(lambda: mirrored(source, target, f"{name}.one", f"a.{name}.one"))
        await admin.topics.create_partitions(f"{name}.one", total=3)
        await admin.topics.create(f"{name}.two", partitions=2)
        await write(source, f"{name}.one", 300, first=100, partitions=3)
        await write(source, f"{name}.two", 300, partitions=2)
        await until(lambda: mirrored(source, target, f"{name}.one", f"a.{name}.one"))
        await until(lambda: mirrored(source, target, f"{name}.two", f"a.{name}.two"))
        await admin.configs.alter(
            ResourceType.TOPIC, f"{name}.one", [ConfigChange("retention.ms", "86400000")]
        )

        async def follows() -> bool:
            found = await Admin(target).configs.describe(ResourceType.TOPIC, f"a.{name}.one")
            return {one.name: one.value for one in found}["retention.ms"] == "86400000"

        await until(follows)


def copied_partitions(mirror: Mirror, topic: str) -> int:
    """How many partitions of a topic a worker copies. Heartbeats of another test's mirror are copied as well."""
    return sum(one.topic == topic for one in mirror.flows[0].counters.partitions)


@between_clusters
async def test_two_workers_share_the_partitions_and_one_takes_over(
    source: Client, target: Client, name: str, given: Given
) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=4)
    await write(source, f"{name}.t", 400, partitions=4)
    async with running(given()) as one:
        async with running(given()) as other:

            async def is_shared() -> bool | str:
                counts = [copied_partitions(mirror, f"{name}.t") for mirror in (one, other)]
                return sorted(counts) == [2, 2] or f"{state_of(one)}; {state_of(other)}"

            await until(is_shared)
            await write(source, f"{name}.t", 400, first=400, partitions=4)
            await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        await write(source, f"{name}.t", 400, first=800, partitions=4)
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        assert copied_partitions(one, f"{name}.t") == 4


@between_clusters
async def test_brokers_that_restart_neither_lose_nor_double(
    source: Client, target: Client, name: str, given: Given, clusters: TwoClusters
) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=2)
    async with running(given()):
        for turn, broker in enumerate((clusters.source, clusters.target, clusters.source)):
            await write(source, f"{name}.t", 300, first=300 * turn, partitions=2)
            await asyncio.to_thread(broker.restart, crash=True)
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))


@between_clusters
async def test_lag_is_known_while_a_worker_waits_and_unknown_without_its_source(
    source: Client,
    target: Client,
    name: str,
    given: Given,
    clusters: TwoClusters,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow, "MIRROR_ENDS_SECONDS", 0.5)
    monkeypatch.setattr(flow, "MIRROR_ENDS_SECONDS", 0.5)

    await Admin(source).topics.create(f"{name}.t", partitions=1)
    await write(source, f"{name}.t", 100)
    async with running(given()) as mirror:
        counters = mirror.flows[0].counters
        seen: list[int | None] = []

        def lag() -> int | None:
            of = counters.partitions.get(TopicPartition(f"{name}.t", 0))
            return None if of is None else of.lag_records

        async def is_level() -> bool:
            return lag() == 0

        async def is_unknown() -> bool:
            seen.append(lag())
            return lag() is None

        async def is_behind() -> bool:
            return lag() == 300

        await until(is_level)
        await asyncio.to_thread(clusters.target.stop)
        try:
            for first in (100, 200, 300):
                await write(source, f"{name}.t", 100, first=first)
            await until(is_behind)
            await asyncio.to_thread(clusters.source.stop)
            try:
                await until(is_unknown)
            finally:
                await asyncio.to_thread(clusters.source.start)
            assert set(seen) <= {300, None}
            await until(is_behind)
        finally:
            await asyncio.to_thread(clusters.target.start)
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        await until(is_level)


@between_clusters
async def test_a_topic_that_was_deleted_and_created_again_stops_alone(
    source: Client, target: Client, name: str, given: Given
) -> None:
    admin = Admin(source)
    for topic in ("gone", "kept"):
        await admin.topics.create(f"{name}.{topic}", partitions=1)
        await write(source, f"{name}.{topic}", 100)
    async with running(given()):
        await until(lambda: mirrored(source, target, f"{name}.gone", f"a.{name}.gone"))
    await admin.topics.delete(f"{name}.gone")

    async def is_gone() -> bool:
        try:
            await admin.topics.describe(f"{name}.gone")
        except UnknownTopicOrPartition:
            return True
        return False

    await until(is_gone)
    await admin.topics.create(f"{name}.gone", partitions=1)
    await write(source, f"{name}.gone", 300, first=1_000)
    async with running(given()) as mirror:
        await write(source, f"{name}.kept", 100, first=100)
        await until(lambda: mirrored(source, target, f"{name}.kept", f"a.{name}.kept"))
        stopped = mirror.flows[0].counters.partitions[TopicPartition(f"{name}.gone", 0)].stopped
        assert stopped is not None and stopped.kind == "topic-recreated"
        assert "delete-offsets" in stopped.text
        assert len((await committed(target, f"a.{name}.gone"))[0]) == 100
        with pytest.raises(NonEmptyGroup):
            await plan_resets(target, f"odradek-mirror.{name}.a", [f"a.{name}.gone:0"], Reset("offset", 250))
    # Its operator chooses where it begins again: in the source's offsets, of which the target has only 100.
    plans = await plan_resets(target, f"odradek-mirror.{name}.a", [f"a.{name}.gone:0"], Reset("offset", 250))
    await apply_resets(target, plans)
    async with running(given()):

        async def has_the_rest() -> bool:
            return len((await committed(target, f"a.{name}.gone"))[0]) >= 150

        await until(has_the_rest)
        copied = (await committed(target, f"a.{name}.gone"))[0]
        assert copied[100:] == (await committed(source, f"{name}.gone"))[0][250:]


@between_clusters
async def test_a_position_that_retention_has_passed_stops_the_partition(
    source: Client, target: Client, name: str, given: Given
) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=1)
    await write(source, f"{name}.t", 100)
    async with running(given()):
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
    await write(source, f"{name}.t", 100, first=100)
    await Admin(source).logs.delete_records({TopicPartition(f"{name}.t", 0): 150})
    async with running(given()) as mirror:

        async def is_stopped() -> bool:
            of = mirror.flows[0].counters.partitions.get(TopicPartition(f"{name}.t", 0))
            return of is not None and of.stopped is not None and of.stopped.kind == "offset-out-of-range"

        await until(is_stopped)
        assert len((await committed(target, f"a.{name}.t"))[0]) == 100


@between_clusters
async def test_a_record_that_the_target_refuses_stops_its_partition_alone(
    source: Client, target: Client, name: str, given: Given
) -> None:
    for topic in ("large", "kept"):
        await Admin(source).topics.create(f"{name}.{topic}", partitions=1)
    await Admin(target).topics.create(f"a.{name}.large", configs={"max.message.bytes": "1000"}, partitions=1)
    await write(source, f"{name}.large", 10)
    async with Producer(source) as producer:
        await producer.send(f"{name}.large", bytes(5_000), partition=0)
    await write(source, f"{name}.kept", 100)
    async with running(given(**{"sync.topic.configs.enabled": "false"})) as mirror:
        key = TopicPartition(f"{name}.large", 0)

        async def is_stopped() -> bool:
            of = mirror.flows[0].counters.partitions.get(key)
            return of is not None and of.stopped is not None and of.stopped.kind == "RecordTooLarge"

        await until(is_stopped)
        await until(lambda: mirrored(source, target, f"{name}.kept", f"a.{name}.kept"))


@between_clusters
async def test_names_are_kept_and_loops_are_refused(
    source: Client, target: Client, name: str, given: Given, clusters: TwoClusters
) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=1)
    await write(source, f"{name}.t", 100)
    identity = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    async with running(given(**identity)):
        await until(lambda: mirrored(source, target, f"{name}.t", f"{name}.t"))
    back = {
        **given(**identity),
        "a.bootstrap.servers": clusters.target.bootstrap,
        "b.bootstrap.servers": clusters.source.bootstrap,
    }
    with pytest.raises(MirrorRefused, match="round without end"):
        await Mirror(read_mirror_settings(back, source="back.properties")).run()
    itself = {**given(), "a.bootstrap.servers": clusters.target.bootstrap}
    with pytest.raises(MirrorRefused, match="one cluster"):
        await Mirror(read_mirror_settings(itself, source="itself.properties")).plan()


@between_clusters
async def test_at_least_once_copies_without_transactions(
    source: Client, target: Client, name: str, given: Given
) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=2)
    await write(source, f"{name}.t", 400, partitions=2)
    async with running(given(**{"exactly.once.source.support": "disabled"})) as mirror:
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        assert not mirror.flows[0].counters.transactions


@pytest.mark.thorough
@between_clusters
async def test_the_bandwidth_is_limited(source: Client, target: Client, name: str, given: Given) -> None:
    await Admin(source).topics.create(f"{name}.t", partitions=1)
    await write(source, f"{name}.t", 20_000)  # some 700 kB
    loop = asyncio.get_running_loop()
    async with running(given(**{"bytes.per.second.max": "300000"})) as mirror:
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        began = loop.time()
        await write(source, f"{name}.t", 20_000, first=20_000)
        await until(lambda: mirrored(source, target, f"{name}.t", f"a.{name}.t"))
        assert loop.time() - began > 1.0
        assert mirror.flows[0].counters.partitions[TopicPartition(f"{name}.t", 0)].records == 40_000
