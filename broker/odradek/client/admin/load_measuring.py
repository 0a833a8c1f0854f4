"""The picture of a cluster that `balance_plans` plans from, by requests of Kafka's protocol alone.

    leaders, replicas, racks    Metadata; of a partition that moves, the replicas after its move
    sizes, capacity, room       DescribeLogDirs; of several replicas of a partition the largest counts
    bytes in                    how much that size grows between two samples; a deletion between them hides a part
    bytes out                   bytes in for each follower, and what groups read between the samples: the records that
                                their committed offsets passed, by the bytes of a record in that partition

Consumers that commit nothing are not seen, and rates are 0 without two samples. A broker that does not report its disks
takes no part.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from odradek.client.admin.balance_values import BalancedBroker, ClusterLoad, PartitionLoad
from odradek.client.admin.disks import Directories, directories, volumes
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.reassignments import OngoingReassignment
from odradek.client.client import Client
from odradek.client.metadata import NO_LEADER, ClusterInfo, PartitionInfo
from odradek.foundation.client_limits import BALANCE_GROUPS_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition


async def measure_load(
    client: Client,
    *,
    moving: Mapping[TopicPartition, OngoingReassignment],
    cordoned: Collection[int],
    machines: Mapping[int, str],
    onto: Collection[int] | None = None,
    sample_seconds: float = 0.0,
) -> ClusterLoad:
    """The load of all live brokers. `onto` are the only brokers that may be given replicas. Rates are measured over
    `sample_seconds`, if that is not 0.
    """
    cluster = await client.with_retries(lambda: client.refresh(None))
    first = await _Sample.take(client, cluster, with_groups=sample_seconds > 0)
    rates = _Rates({}, {})
    if sample_seconds > 0:
        await asyncio.sleep(sample_seconds)
        second = await _Sample.take(client, cluster, with_groups=True)
        rates = await _measure_rates(client, first, second)
        first = second
    coming = _coming_bytes(first, moving)
    brokers = {}
    for broker in cluster.brokers.values():
        answer = first.disks[broker.id]
        room = None if isinstance(answer, OdradekError) else volumes(answer)
        brokers[broker.id] = BalancedBroker(
            rack=broker.rack,
            machine=machines.get(broker.id),
            capacity_bytes=room[0] if room else None,
            free_bytes=room[1] - coming[broker.id] if room else None,
            takes_part=broker.id not in cordoned and not isinstance(answer, OdradekError),
            may_receive=onto is None or broker.id in onto,
        )
    return ClusterLoad(
        brokers=brokers,
        partitions={
            where: PartitionLoad(
                replicas=moving[where].target if where in moving else partition.replicas,
                leader=None if partition.leader == NO_LEADER else partition.leader,
                size_bytes=first.sizes.get(where, 0),
                bytes_in_per_second=rates.written.get(where, 0),
                bytes_read_per_second=rates.read.get(where, 0),
            )
            for where, partition in _partitions(cluster)
            if partition.replicas
        },
        has_rates=sample_seconds > 0,
        silent={
            broker: str(answer)
            for broker, answer in sorted(first.disks.items())
            if isinstance(answer, OdradekError)
        },
    )


def _partitions(cluster: ClusterInfo) -> Iterable[tuple[TopicPartition, PartitionInfo]]:
    for topic in cluster.topics.values():
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition), partition


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes per second of each partition."""

    written: Mapping[TopicPartition, int]
    read: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class _Sample:
    """What brokers say at one moment, by the loop's clock."""

    taken_at: float
    disks: Directories
    sizes: Mapping[TopicPartition, int]
    committed: Mapping[tuple[str, TopicPartition], int]
    """The committed offsets of groups."""

    @classmethod
    async def take(cls, client: Client, cluster: ClusterInfo, *, with_groups: bool) -> _Sample:
        disks = await directories(client, cluster.brokers)
        taken_at = asyncio.get_running_loop().time()
        committed = await _read_committed(client) if with_groups else {}
        return cls(taken_at, disks, _sizes(disks), committed)


def _sizes(disks: Directories) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for answer in disks.values():
        if isinstance(answer, OdradekError):
            continue
        for directory in answer:
            for where, replica in directory.replicas.items():
                found[where] = max(found.get(where, 0), replica.size_bytes)
    return found


def _coming_bytes(sample: _Sample, moving: Mapping[TopicPartition, OngoingReassignment]) -> Counter[int]:
    """What moves under way have yet to bring to each broker."""
    found: Counter[int] = Counter()
    for where, one in moving.items():
        for broker in one.adding:
            answer = sample.disks.get(broker, [])
            directories = [] if isinstance(answer, OdradekError) else answer
            there = sum(each.replicas[where].size_bytes for each in directories if where in each.replicas)
            found[broker] += max(sample.sizes.get(where, 0) - there, 0)
    return found


async def _read_committed(client: Client) -> dict[tuple[str, TopicPartition], int]:
    """The offsets of the first groups that may be seen; a group that has ended is left out."""
    admin = GroupAdmin(client)
    found: dict[tuple[str, TopicPartition], int] = {}
    for group in islice(await admin.list(), BALANCE_GROUPS_MAX):
        try:
            offsets = await admin.offsets(group.group_id)
        except OdradekError:
            continue
        found |= {(group.group_id, where): one.offset for where, one in offsets.items()}
    return found


async def _measure_rates(client: Client, first: _Sample, second: _Sample) -> _Rates:
    seconds = max(second.taken_at - first.taken_at, 0.001)
    written = {
        where: max(round((size - first.sizes[where]) / seconds), 0)
        for where, size in second.sizes.items()
        if where in first.sizes
    }
    passed: Counter[TopicPartition] = Counter()
    for (group, where), offset in second.committed.items():
        passed[where] += max(offset - first.committed.get((group, where), offset), 0)
    wanted = [where for where, records in passed.items() if records > 0]
    logs = LogAdmin(client)
    starts = await logs.known_offsets_at(wanted, EARLIEST)
    ends = await logs.known_offsets_at(wanted, LATEST)
    read = {
        where: round(passed[where] * second.sizes.get(where, 0) / (ends[where] - starts[where]) / seconds)
        for where in wanted
        if where in starts and ends.get(where, 0) > starts[where]
    }
    return _Rates(written, read)
