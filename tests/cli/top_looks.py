"""Looks at a cluster that tests of `odradek top` make by hand."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from odradek.cli.cluster.top.rates import ClusterLook
from odradek.client.admin.health import BrokerHealth, BrokerStatus, ClusterHealth
from odradek.client.admin.partition_states import state_of
from odradek.client.metadata import NO_LEADER, PartitionInfo, TopicInfo
from odradek.client.results import GroupListing
from odradek.console.cluster_facts import GroupLag, GroupsFact, TopicsFact
from odradek.foundation.ids import TopicPartition

GIB = 1024**3


def partition(number: int, leader: int = 1, in_sync: Sequence[int] = (1, 2)) -> PartitionInfo:
    """One of two copies, on brokers 1 and 2."""
    return PartitionInfo(number, leader, 0, (1, 2), tuple(in_sync), (), 0)


def topic(name: str, *partitions: PartitionInfo) -> TopicInfo:
    return TopicInfo(name, uuid.UUID(int=1), False, partitions or (partition(0),), 0)


def broker(number: int, status: BrokerStatus = BrokerStatus.LIVE) -> BrokerHealth:
    return BrokerHealth(number, status, f"host-{number}:9092", None, replicas=2, leaders=1)


def group(
    name: str,
    offsets: Mapping[TopicPartition, int] | None = None,
    lags: Mapping[str, int] | None = None,
    *,
    kind: str = "classic",
    state: str = "Stable",
) -> GroupLag:
    found = offsets or {}
    return GroupLag(
        listing=GroupListing(name, "consumer", state, kind),
        partitions=len(found),
        topics=sorted({key.topic for key in found}),
        lag_by_topic=lags or {},
        offsets=found,
    )


def look(
    at: float,
    *,
    topics: Sequence[TopicInfo] = (),
    ends: Mapping[TopicPartition, int] | None = None,
    sizes: Mapping[TopicPartition, int] | None = None,
    groups: Sequence[GroupLag] = (),
    brokers: Sequence[BrokerHealth] = (),
) -> ClusterLook:
    """The cluster at `at` seconds, with brokers 1 and 2 unless others are given."""
    found = list(brokers) or [broker(1), broker(2)]
    live = frozenset(one.id for one in found if one.status is BrokerStatus.LIVE)
    states = [state_of(one.name, each, live=live, min_in_sync=1) for one in topics for each in one.partitions]
    health = ClusterHealth(
        cluster_id="cluster-a",
        controller_id=1,
        is_forwarded=False,
        brokers=tuple(found),
        topics=len(topics),
        partitions=len(states),
        troubled=tuple(state for state in states if state.problems),
        moves={},
        groups={},
    )
    of_topic: dict[str, list[GroupLag]] = {}
    for one in groups:
        for name in one.topics:
            of_topic.setdefault(name, []).append(one)
    return ClusterLook(
        asked_ms=round(at * 1000),
        took_seconds=0.1,
        health=health,
        topics=TopicsFact(
            {one.name: one for one in topics},
            {key: {1: size, 2: size // 2} for key, size in (sizes or {}).items()},
            live,
            {},
        ),
        ends=ends or {},
        ends_at=at,
        groups=GroupsFact({one.listing.group_id: one for one in groups}, of_topic, {}),
        groups_at=at,
        members={one.listing.group_id: 2 for one in groups},
        counted_at=at,
    )


def without_leader(number: int) -> PartitionInfo:
    return replace(partition(number, in_sync=()), leader=NO_LEADER)
