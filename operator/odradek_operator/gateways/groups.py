"""Consumer groups as the brokers have them, many at once, and the steps that change them.

Members and committed offsets are asked of each group's coordinator, some groups at a time. Topics, ends of logs and
ages of records are asked once for all groups together.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.metadata import NO_LEADER, ClusterInfo
from odradek.client.results import (
    AlterOperation,
    CommittedOffset,
    ConfigChange,
    ResourceType,
)
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import (
    ActualGroup,
    DeleteGroup,
    GroupsSeen,
    GroupStep,
    PartitionEnds,
    RememberResets,
    SetFence,
    SetOffsets,
)
from odradek_operator.gateways.record_times import RecordTimes

logger = logging.getLogger(__name__)

GROUPS_TOGETHER_MAX: Final = 8
GROUPS_PER_REQUEST: Final = 100
PARTITIONS_PER_REQUEST: Final = 2_000
FENCE_KEY: Final = "odradek.fenced.until"
RESETS_KEY: Final = "odradek.resets"


class _Kept(NamedTuple):
    """The entries that are kept in a group's settings."""

    fenced_until_ms: int = 0
    resets: tuple[str, ...] = ()


class BrokerGroups:
    """Groups of one cluster."""

    def __init__(
        self, client: Client, record_times: RecordTimes, https: ssl.SSLContext | None = None
    ) -> None:
        """`https` is how the cluster's HTTP ports are asked, where they have TLS."""
        self._client = client
        self._admin = Admin(client)
        self._record_times = record_times
        self._https = https

    # --- looking ------------------------------------------------------------------------------------------------------

    async def describe(
        self, expected: Mapping[str, Iterable[str]]
    ) -> tuple[GroupsSeen, dict[str, OdradekError]]:
        """These groups, each with the topics that are expected of it, and those that could not be looked at.

        Raises OdradekError when the cluster cannot be asked.
        """
        self._client.invalidate()
        try:
            await self._client.refresh(())
        except (ConnectionFailed, ClientTimeout):
            # A connection that was kept may have been lost since; a cluster that is not there is not waited for.
            await self._client.refresh(())
        kept = await self._read_settings(list(expected))
        groups: dict[str, ActualGroup] = {}
        failures: dict[str, OdradekError] = {}
        places = asyncio.Semaphore(GROUPS_TOGETHER_MAX)

        async def describe_one(group_id: str) -> None:
            async with places:
                try:
                    groups[group_id] = await self._describe_group(group_id, kept[group_id])
                except OdradekError as failure:
                    failures[group_id] = failure

        await asyncio.gather(*(describe_one(group_id) for group_id in expected))
        topics = {topic for wanted in expected.values() for topic in wanted}
        topics |= {where.topic for group in groups.values() for where in group.committed}
        cluster = await self._client.refresh(sorted(topics))
        partitions = {topic: _partition_numbers(cluster, topic) for topic in topics}
        ends = await self._list_ends(cluster, partitions)
        seen = GroupsSeen(groups=groups, partitions=partitions, ends=ends)
        times = await self._read_record_times(cluster, seen, expected)
        return GroupsSeen(groups=groups, partitions=partitions, ends=ends, record_times_ms=times), failures

    async def _describe_group(self, group_id: str, kept: _Kept | OdradekError) -> ActualGroup:
        # Taken for none, a fence of ours that cannot be seen would not be taken away, and a reset be made twice.
        if isinstance(kept, OdradekError):
            raise kept
        try:
            described = await self._admin.groups.describe(group_id)
        except GroupIdNotFound:
            return ActualGroup(group_id=group_id, fenced_until_ms=kept.fenced_until_ms, resets=kept.resets)
        committed = await self._admin.groups.offsets(group_id)
        return ActualGroup(
            group_id=group_id,
            state=described.state,
            type=described.type,
            coordinator=described.coordinator,
            members=described.members,
            committed={where: found.offset for where, found in committed.items()},
            fenced_until_ms=kept.fenced_until_ms,
            resets=kept.resets,
        )

    async def _read_settings(self, group_ids: Sequence[str]) -> dict[str, _Kept | OdradekError]:
        kept: dict[str, _Kept | OdradekError] = dict.fromkeys(group_ids, _Kept())
        keys = [FENCE_KEY, RESETS_KEY]
        for start in range(0, len(group_ids), GROUPS_PER_REQUEST):
            some = group_ids[start : start + GROUPS_PER_REQUEST]
            described = await self._admin.configs.describe_many(ResourceType.GROUP, some, keys=keys)
            for group_id, entries in described.items():
                if isinstance(entries, OdradekError):
                    kept[group_id] = entries
                    continue
                texts = {entry.name: entry.value or "" for entry in entries}
                resets = texts.get(RESETS_KEY, "")
                kept[group_id] = _Kept(
                    int(texts.get(FENCE_KEY) or 0), tuple(resets.split(",")) if resets else ()
                )
        return kept

    async def _list_ends(
        self, cluster: ClusterInfo, partitions: Mapping[str, Sequence[int]]
    ) -> dict[TopicPartition, PartitionEnds]:
        wanted = [
            TopicPartition(topic, number)
            for topic, numbers in partitions.items()
            for number in numbers
            if cluster.partition(TopicPartition(topic, number)).leader != NO_LEADER
        ]
        ends: dict[TopicPartition, PartitionEnds] = {}
        for start in range(0, len(wanted), PARTITIONS_PER_REQUEST):
            some = wanted[start : start + PARTITIONS_PER_REQUEST]
            try:
                low = await self._admin.logs.list_offsets(dict.fromkeys(some, EARLIEST))
                high = await self._admin.logs.list_offsets(dict.fromkeys(some, LATEST), read_committed=True)
            except OdradekError as failure:
                logger.info("the ends of %d partitions are not known now: %s", len(some), failure)
                continue
            ends |= {where: PartitionEnds(low[where].offset, high[where].offset) for where in some}
        return ends

    async def _read_record_times(
        self, cluster: ClusterInfo, seen: GroupsSeen, expected: Mapping[str, Iterable[str]]
    ) -> dict[tuple[str, TopicPartition], int]:
        """The time of each group's next record, where one waits. Groups at the same place share it."""
        places: dict[tuple[TopicPartition, int], list[str]] = {}
        for group_id, group in seen.groups.items():
            for where, next_offset in next_offsets(group, expected[group_id], seen).items():
                if next_offset < seen.ends[where].end:
                    places.setdefault((where, next_offset), []).append(group_id)
        times: dict[tuple[str, TopicPartition], int] = {}
        # A question has one offset for a partition, so groups at different places take several rounds.
        while places:
            batch: dict[TopicPartition, int] = {}
            for where, offset in places:
                batch.setdefault(where, offset)
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for where, offset in batch.items():
                by_leader.setdefault(cluster.partition(where).leader, {})[where] = offset
            asked = {
                cluster.brokers[leader].address: offsets
                for leader, offsets in by_leader.items()
                if leader in cluster.brokers
            }
            for where, timestamp_ms in (await self._record_times.fetch_times(asked, self._https)).items():
                for group_id in places[where, batch[where]]:
                    times[group_id, where] = timestamp_ms
            for where, offset in batch.items():
                del places[where, offset]
        return times

    async def resolve(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets at these times, or EARLIEST, LATEST; after the last record where none is that young."""
        found = await self._admin.logs.list_offsets(timestamps_ms)
        late = [where for where, listed in found.items() if listed.offset < 0]
        ends = await self._admin.logs.list_offsets(dict.fromkeys(late, LATEST))
        return {where: ends.get(where, listed).offset for where, listed in found.items()}

    # --- changing -----------------------------------------------------------------------------------------------------

    async def carry_out(self, step: GroupStep) -> None:
        """Take one step. Raises what the brokers refuse it with: NonEmptyGroup, …"""
        match step:
            case SetOffsets(group_id, offsets):
                await self._admin.groups.alter_offsets(
                    group_id, {where: CommittedOffset(offset) for where, offset in offsets.items()}
                )
            case SetFence(group_id, until_ms):
                operation = AlterOperation.SET if until_ms else AlterOperation.DELETE
                change = ConfigChange(FENCE_KEY, str(until_ms) if until_ms else None, operation)
                await self._admin.configs.alter(ResourceType.GROUP, group_id, [change])
            case RememberResets(group_id, digests):
                change = ConfigChange(RESETS_KEY, ",".join(digests))
                await self._admin.configs.alter(ResourceType.GROUP, group_id, [change])
            case DeleteGroup(group_id):
                try:
                    await self._admin.groups.delete(group_id)
                except GroupIdNotFound:
                    return


def next_offsets(group: ActualGroup, topics: Iterable[str], seen: GroupsSeen) -> dict[TopicPartition, int]:
    """The group's next offset in each partition whose ends are known; the first kept where it committed nothing."""
    wanted = {TopicPartition(topic, number) for topic in topics for number in seen.partitions.get(topic, ())}
    return {
        where: max(group.committed.get(where, 0), seen.ends[where].start)
        for where in wanted | group.committed.keys()
        if where in seen.ends
    }


def _partition_numbers(cluster: ClusterInfo, topic: str) -> tuple[int, ...]:
    info = cluster.topics.get(topic)
    if info is None or info.error() is not None:
        return ()
    return tuple(partition.partition for partition in info.partitions)
