"""Consumer groups and share groups as the brokers have them, many at once, and the steps that change them.

Members and committed offsets are asked of each group's coordinator, some groups at a time. Topics, ends of logs and
ages of records are asked once for all groups together.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.client.admin.groups import SHARE
from odradek.client.admin.logs import EARLIEST, LATEST
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.group_settings import FENCED_UNTIL_KEY, RESETS_KEY
from odradek.client.metadata import NO_LEADER, ClusterInfo
from odradek.client.results import (
    AlterOperation,
    CommittedOffset,
    ConfigChange,
    ConfigSource,
    GroupDescription,
    ResourceType,
)
from odradek.client.topic_settings import ALLOWS_DEAD_LETTERS_KEY
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek_operator.gateways.group_values import (
    ActualGroup,
    AlterSettings,
    DeadLetterRules,
    DeleteGroup,
    ExpectedGroup,
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
SHARE_RESET_KEY: Final = "share.auto.offset.reset"
DEAD_LETTER_PREFIX_KEY: Final = "errors.deadletterqueue.topic.name.prefix"
DEAD_LETTER_CREATION_KEY: Final = "errors.deadletterqueue.auto.create.topics.enable"


class _Kept(NamedTuple):
    """The entries that are kept in a group's settings, and those of its own that are looked at."""

    fenced_until_ms: int = 0
    resets: tuple[str, ...] = ()
    settings: Mapping[str, str] = MappingProxyType({})
    begins_at: str = ""


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
        self, expected: Mapping[str, ExpectedGroup]
    ) -> tuple[GroupsSeen, dict[str, OdradekError]]:
        """These groups, each with what is expected of it, and those that could not be looked at.

        Raises OdradekError when the cluster cannot be asked.
        """
        self._client.invalidate()
        try:
            await self._client.refresh(())
        except (ConnectionFailed, ClientTimeout):
            # A connection that was kept may have been lost since; a cluster that is not there is not waited for.
            await self._client.refresh(())
        kept = await self._read_settings(expected)
        groups: dict[str, ActualGroup] = {}
        failures: dict[str, OdradekError] = {}
        places = asyncio.Semaphore(GROUPS_TOGETHER_MAX)

        async def describe_one(group_id: str, wanted: ExpectedGroup) -> None:
            async with places:
                try:
                    groups[group_id] = await self._describe_group(group_id, wanted, kept[group_id])
                except OdradekError as failure:
                    failures[group_id] = failure

        await asyncio.gather(*(describe_one(group_id, wanted) for group_id, wanted in expected.items()))
        dead_letter_topics = {
            wanted.dead_letter_topic for wanted in expected.values() if wanted.dead_letter_topic is not None
        }
        topics = {topic for wanted in expected.values() for topic in wanted.topics}
        topics |= {where.topic for group in groups.values() for where in group.committed}
        topics |= dead_letter_topics
        cluster = await self._client.refresh(sorted(topics))
        partitions = {topic: _partition_numbers(cluster, topic) for topic in topics}
        ends = await self._list_ends(cluster, partitions)
        seen = GroupsSeen(groups=groups, partitions=partitions, ends=ends)
        times = await self._read_record_times(cluster, seen, expected)
        rules = await self._read_dead_letter_rules(cluster, sorted(dead_letter_topics))
        return replace(seen, record_times_ms=times, dead_letter_rules=rules), failures

    async def _describe_group(
        self, group_id: str, wanted: ExpectedGroup, kept: _Kept | OdradekError
    ) -> ActualGroup:
        # Taken for none, a fence of ours that cannot be seen would not be taken away, and a reset be made twice.
        if isinstance(kept, OdradekError):
            raise kept
        try:
            described = await self._admin.groups.describe(group_id)
        except GroupIdNotFound:
            return ActualGroup(group_id=group_id, type=SHARE if wanted.is_queue else "", **kept._asdict())
        committed, undone = await self._read_progress(described)
        return ActualGroup(
            group_id=group_id,
            state=described.state,
            type=described.type,
            coordinator=described.coordinator,
            members=described.members,
            committed=committed,
            undone=undone,
            **kept._asdict(),
        )

    async def _read_progress(
        self, described: GroupDescription
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Offsets by partition, and of a share group the records from there on that are not done."""
        if described.type != SHARE:
            committed = await self._admin.groups.offsets(described.group_id)
            return {where: found.offset for where, found in committed.items()}, {}
        queue = await self._admin.queues.offsets(described.group_id)
        starts = {where: found.start for where, found in queue.items()}
        return starts, {where: found.lag for where, found in queue.items() if found.lag is not None}

    async def _read_settings(self, expected: Mapping[str, ExpectedGroup]) -> dict[str, _Kept | OdradekError]:
        group_ids = list(expected)
        kept: dict[str, _Kept | OdradekError] = dict.fromkeys(group_ids, _Kept())
        looked_at = {key for wanted in expected.values() for key in wanted.setting_keys}
        keys = sorted({FENCED_UNTIL_KEY, RESETS_KEY, SHARE_RESET_KEY} | looked_at)
        for start in range(0, len(group_ids), GROUPS_PER_REQUEST):
            some = group_ids[start : start + GROUPS_PER_REQUEST]
            described = await self._admin.configs.describe_many(ResourceType.GROUP, some, keys=keys)
            for group_id, entries in described.items():
                if isinstance(entries, OdradekError):
                    kept[group_id] = entries
                    continue
                texts = {entry.name: entry.value or "" for entry in entries}
                resets = texts.get(RESETS_KEY, "")
                own = {
                    entry.name: entry.value or "" for entry in entries if entry.source is ConfigSource.GROUP
                }
                kept[group_id] = _Kept(
                    fenced_until_ms=int(texts.get(FENCED_UNTIL_KEY) or 0),
                    resets=tuple(resets.split(",")) if resets else (),
                    settings={key: text for key, text in own.items() if key in looked_at},
                    begins_at=texts.get(SHARE_RESET_KEY, ""),
                )
        return kept

    async def _read_dead_letter_rules(
        self, cluster: ClusterInfo, topics: Sequence[str]
    ) -> DeadLetterRules | None:
        if not topics:
            return None
        there = [topic for topic in topics if _partition_numbers(cluster, topic)]
        try:
            rules = await self._admin.configs.describe(
                ResourceType.BROKER,
                str(min(cluster.brokers)),
                keys=[DEAD_LETTER_PREFIX_KEY, DEAD_LETTER_CREATION_KEY],
            )
            described = await self._admin.configs.describe_many(
                ResourceType.TOPIC, there, keys=[ALLOWS_DEAD_LETTERS_KEY]
            )
        except (OdradekError, ValueError) as failure:
            logger.info("the rules of dead-letter topics are not known now: %s", failure)
            return None
        texts = {entry.name: entry.value or "" for entry in rules}
        allowing = {
            topic
            for topic, entries in described.items()
            if not isinstance(entries, OdradekError) and any(entry.value == "true" for entry in entries)
        }
        return DeadLetterRules(
            prefix=texts.get(DEAD_LETTER_PREFIX_KEY, ""),
            creates_topics=texts.get(DEAD_LETTER_CREATION_KEY) == "true",
            allowing=frozenset(allowing),
        )

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
        self, cluster: ClusterInfo, seen: GroupsSeen, expected: Mapping[str, ExpectedGroup]
    ) -> dict[tuple[str, TopicPartition], int]:
        """The time of each group's next record, where one waits. Groups at the same place share it."""
        places: dict[tuple[TopicPartition, int], list[str]] = {}
        for group_id, group in seen.groups.items():
            for where, next_offset in next_offsets(group, expected[group_id].topics, seen).items():
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
            case SetOffsets(group_id, offsets, is_queue=True):
                await self._admin.queues.alter_offsets(group_id, offsets)
            case AlterSettings(group_id, changes):
                await self._admin.configs.alter(
                    ResourceType.GROUP,
                    group_id,
                    [
                        ConfigChange(key, text, AlterOperation.DELETE if text is None else AlterOperation.SET)
                        for key, text in sorted(changes.items())
                    ],
                )
            case SetOffsets(group_id, offsets):
                await self._admin.groups.alter_offsets(
                    group_id, {where: CommittedOffset(offset) for where, offset in offsets.items()}
                )
            case SetFence(group_id, until_ms):
                operation = AlterOperation.SET if until_ms else AlterOperation.DELETE
                change = ConfigChange(FENCED_UNTIL_KEY, str(until_ms) if until_ms else None, operation)
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
    """The group's next offset in each partition whose ends are known; the first kept where it committed nothing.

    Where a share group begins at the end, a partition that it has not begun has nothing for it.
    """
    begins_later = group.is_queue and group.begins_at != "earliest"
    wanted = {TopicPartition(topic, number) for topic in topics for number in seen.partitions.get(topic, ())}
    return {
        where: max(
            group.committed.get(where, seen.ends[where].end if begins_later else 0), seen.ends[where].start
        )
        for where in wanted | group.committed.keys()
        if where in seen.ends
    }


def _partition_numbers(cluster: ClusterInfo, topic: str) -> tuple[int, ...]:
    info = cluster.topics.get(topic)
    if info is None or info.error() is not None:
        return ()
    return tuple(partition.partition for partition in info.partitions)
