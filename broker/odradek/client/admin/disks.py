"""The brokers' disks: the bytes of each topic, the free bytes, and the groups that a full disk refuses. All numbers are
from DescribeLogDirs (KIP-113, KIP-827). A broker that does not answer is left out with its error, and delays the others
for BROKER_ANSWER_SECONDS_MAX at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from odradek.client.admin.logs import LogAdmin
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout
from odradek.client.results import GroupDescription, LogDirectoryDescription
from odradek.foundation.client_limits import BROKER_ANSWER_SECONDS_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.group_partitions import OFFSETS_TOPIC, partition_of

Directories = Mapping[int, list[LogDirectoryDescription] | OdradekError]
"""The log directories of each broker, or the error instead of them."""


@dataclass(frozen=True, slots=True)
class ReplicaOnDisk:
    """One replica's log: its place and its bytes."""

    broker: int
    directory: str
    topic: str
    partition: int
    size_bytes: int


async def directories(
    client: Client, brokers: Collection[int], *, partitions: Iterable[TopicPartition] | None = None
) -> Directories:
    """The log directories of these brokers, with all replicas, or those of `partitions`."""
    wanted = None if partitions is None else list(partitions)
    ids = sorted(brokers)
    answers = await asyncio.gather(*(directories_of(client, broker, partitions=wanted) for broker in ids))
    return dict(zip(ids, answers, strict=True))


async def directories_of(
    client: Client,
    broker: int,
    *,
    partitions: Collection[TopicPartition] | None = None,
    seconds_max: float = BROKER_ANSWER_SECONDS_MAX,
) -> list[LogDirectoryDescription] | OdradekError:
    """The log directories of one broker, or its error. Waits for `seconds_max` at most."""
    try:
        async with asyncio.timeout(seconds_max):
            return await LogAdmin(client).describe_log_dirs_of(broker, partitions)
    except TimeoutError:
        return ClientTimeout(f"broker {broker} did not answer within {seconds_max:g} s")
    except OdradekError as failure:
        return failure


def replicas(found: Directories) -> list[ReplicaOnDisk]:
    """Every replica in the brokers' answers."""
    return [
        ReplicaOnDisk(directory.broker_id, directory.path, where.topic, where.partition, size.size_bytes)
        for answer in found.values()
        if not isinstance(answer, OdradekError)
        for directory in answer
        for where, size in directory.replicas.items()
    ]


def volumes(directories: Iterable[LogDirectoryDescription]) -> tuple[int, int] | None:
    """Total and usable bytes of the volumes under directories of one broker; None when the broker does not report them.
    Directories on one volume report the same numbers, and count once.
    """
    found = {(one.total_bytes, one.usable_bytes) for one in directories if one.total_bytes > 0}
    if not found:
        return None
    return sum(total for total, _ in found), sum(usable for _, usable in found)


async def find_refused_commits(
    client: Client, groups: Sequence[GroupDescription]
) -> dict[str, LogDirectoryDescription]:
    """The groups whose commits are refused, each with the full log directory of its offsets. Groups whose coordinator
    does not answer are left out. All are left out if the offsets topic cannot be described.
    """
    coordinators = {group.coordinator for group in groups if group.coordinator >= 0}
    if not coordinators:
        return {}
    try:
        count = len((await client.topics([OFFSETS_TOPIC])).topic(OFFSETS_TOPIC).partitions)
    except OdradekError:
        return {}  # this user may not see it, or this kind of broker keeps offsets elsewhere
    wanted = {
        group.group_id: TopicPartition(OFFSETS_TOPIC, partition_of(group.group_id, count)) for group in groups
    }
    found = await directories(client, coordinators, partitions=set(wanted.values()))
    full = {
        (directory.broker_id, where): directory for directory in _full(found) for where in directory.replicas
    }
    refused = ((group.group_id, full.get((group.coordinator, wanted[group.group_id]))) for group in groups)
    return {group_id: directory for group_id, directory in refused if directory is not None}


def _full(found: Directories) -> list[LogDirectoryDescription]:
    """The full directories of the brokers that answered."""
    return [
        directory
        for answer in found.values()
        if not isinstance(answer, OdradekError)
        for directory in answer
        if directory.is_full
    ]


async def find_refused_topics(client: Client, topics: Sequence[str]) -> dict[str, LogDirectoryDescription]:
    """The topics of which a replica is in a full log directory, each with that directory. So are those of which a
    replica has no log, on a broker with a full directory. What cannot be asked is left out.
    """
    try:
        cluster = await client.with_retries(lambda: client.refresh(topics))
        placed = {
            key: partition.replicas
            for topic in topics
            for key, partition in zip(cluster.partitions(topic), cluster.topic(topic).partitions, strict=True)
        }
    except OdradekError:
        return {}
    brokers = {broker for replicas in placed.values() for broker in replicas}
    found = await directories(client, brokers.intersection(cluster.brokers), partitions=placed)
    held = {
        (directory.broker_id, where)
        for answer in found.values()
        if not isinstance(answer, OdradekError)
        for directory in answer
        for where in directory.replicas
    }
    refused: dict[str, LogDirectoryDescription] = {}
    for directory in _full(found):
        for where, replicas in placed.items():
            is_missing = directory.broker_id in replicas and (directory.broker_id, where) not in held
            if where in directory.replicas or is_missing:
                refused.setdefault(where.topic, directory)
    return refused
