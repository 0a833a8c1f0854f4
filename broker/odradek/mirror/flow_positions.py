"""All that a flow does about positions: translated offsets of groups, checkpoints, offset syncs, heartbeats.

The flow calls `start`, then for each assignment `assigned` and `begin`, and `passed` for batches that are committed at
the target. Nothing here delays records: a failure is counted, logged, and tried again at the next time.

`begin` notes where both sides are, in one request to each leader. From then on groups at or beyond the mirror's
position are translated. What is stored about earlier offsets is read in the background and put in front.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.errors import ClientTimeout, ConnectionFailed
from odradek.client.metadata import NO_TOPIC_ID
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import GroupIdNotFound, NonEmptyGroup, OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_STORED_OFFSETS_READ_MAX
from odradek.foundation.rate_limited_log import RateLimitedLog
from odradek.foundation.tasks import TaskOwner
from odradek.mirror.checkpoints import CheckpointWriter, GroupTranslator, Translated
from odradek.mirror.counters import FlowCounters
from odradek.mirror.formats import TopicIds
from odradek.mirror.heartbeats import Heartbeats
from odradek.mirror.internal_topics import ensure_topic
from odradek.mirror.naming import ReplicationPolicy
from odradek.mirror.offset_syncs import OFFSET_SYNC_DUE_SECONDS, OFFSET_SYNC_SECONDS, OffsetSyncWriter
from odradek.mirror.offset_translation import OffsetRun, SourceOffsetIndex, beginning, point
from odradek.mirror.passed import PartitionStart, PassedBatch
from odradek.mirror.rebuilding import History, Mirrored
from odradek.mirror.settings import FlowSettings, Side
from odradek.mirror.topic_tail import tail

logger = logging.getLogger(__name__)

EMPTY: Final = "Empty"
_DEAD: Final = "Dead"

_NO_TARGET_OFFSET: Final = -1
_RETRY_SECONDS: Final = 10.0
_CLOSE_SECONDS_MAX: Final = 5.0
# Longer than between two heartbeats of a worker, by which it notices that it was replaced.
_STALL_SECONDS: Final = 5.0


class OffsetTranslation:
    """The positions of one flow, on this worker."""

    def __init__(
        self,
        source: Client,
        target: Client,
        *,
        settings: FlowSettings,
        policy: ReplicationPolicy,
        counters: FlowCounters,
        is_leader: Callable[[], bool] = lambda: True,
        is_current: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_leader` returns whether this worker does what one worker of a flow does: heartbeats. `is_current` returns
        whether the partitions are still this worker's, as far as it knows.
        """
        self._source = source
        self._target = target
        self._settings = settings
        self._counters = counters
        self._is_current = is_current
        self._partitions: dict[TopicPartition, Mirrored] = {}
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self._sources: dict[TopicPartition, TopicPartition] = {}
        self.index = SourceOffsetIndex()
        self._checkpoints_topic = policy.checkpoints_topic(settings.source.alias)
        is_at_source = settings.offset_syncs_topic_location is Side.SOURCE
        other = settings.target.alias if is_at_source else settings.source.alias
        self._syncs_topic = policy.offset_syncs_topic(other)
        self._syncs_client = source if is_at_source else target
        self._syncs_cluster = settings.source.alias if is_at_source else settings.target.alias
        self._syncs = OffsetSyncWriter(
            self._syncs_client, self._syncs_topic, ids=self._ids, lag_max=settings.offset_lag_max
        )
        self._all_synced_at = 0.0
        self._producer = Producer(target)
        self._checkpoints = CheckpointWriter(
            self._producer, self._checkpoints_topic, ids=lambda key: self._ids(self._sources.get(key))
        )
        self._groups = GroupTranslator(
            source,
            is_selected=self._is_selected,
            translate=self.index.translate_offset,
            targets=self._targets,
        )
        self._group_sync = GroupSync(target)
        self._heartbeats = Heartbeats(
            target, settings=settings, policy=policy, counters=counters, is_leader=is_leader
        )
        self._log = RateLimitedLog(logger, "errors of translated offsets")
        self._tasks = TaskOwner(f"offsets of {settings.label}")
        self._rebuilt = asyncio.Event()
        self._running: set[Callable[[], Awaitable[None]]] = set()

    # --- start and end -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin. What cannot begin yet, such as a topic that cannot be made, is tried again and counted as an error."""
        settings = self._settings
        parts: list[tuple[str, bool, Callable[[], Awaitable[None]]]] = [
            ("offset syncs", settings.emit_offset_syncs_enabled, self._start_syncs),
            ("checkpoints", settings.emit_checkpoints_enabled, self._start_checkpoints),
            ("group offsets", settings.sync_group_offsets_enabled, self._start_group_sync),
        ]
        for name, is_enabled, start in parts:
            if is_enabled:
                self._tasks.start(self._start_part(name, start), name=f"start of {name}")
        if settings.emit_checkpoints_enabled or settings.sync_group_offsets_enabled:
            self._tasks.start(self._look_for_groups(), name="groups")
        if settings.emit_heartbeats_enabled:
            self._heartbeats.start()

    async def _start_part(self, name: str, start: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await start()
                return
            except OdradekError as failure:
                self._note_failure(name.replace(" ", "-"), f"{name} are not written yet", failure)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _start_syncs(self) -> None:
        await ensure_topic(
            self._syncs_client,
            self._syncs_topic,
            cluster=self._syncs_cluster,
            replication_factor=self._settings.offset_syncs_topic_replication_factor,
            factor_key="offset-syncs.topic.replication.factor",
            otherwise="or set offset-syncs.topic.location=target, or emit.offset-syncs.enabled=false",
        )
        await self._syncs.start()
        self._tasks.start(self._each(OFFSET_SYNC_DUE_SECONDS, self._write_due_syncs), name="offset syncs")
        self._running.add(self._write_syncs)

    async def _start_checkpoints(self) -> None:
        await ensure_topic(
            self._target,
            self._checkpoints_topic,
            cluster=self._settings.target.alias,
            replication_factor=self._settings.checkpoints_topic_replication_factor,
            factor_key="checkpoints.topic.replication.factor",
            otherwise="or set emit.checkpoints.enabled=false",
        )
        await self._producer.start()
        seconds = self._settings.emit_checkpoints_interval_seconds
        self._tasks.start(self._each(seconds, self._write_checkpoints), name="checkpoints")
        self._running.add(self._write_checkpoints)

    async def _start_group_sync(self) -> None:
        seconds = self._settings.sync_group_offsets_interval_seconds
        self._tasks.start(self._each(seconds, self._sync_groups), name="group offsets")
        self._running.add(self._sync_groups)

    async def close(self) -> None:
        """Write what is pending, look at all groups once more, and stop: within a few seconds, or without that."""
        await self._tasks.close()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS_MAX):
                for act in (self._write_syncs, self._write_checkpoints, self._sync_groups):
                    if act in self._running:
                        await act()
        except (TimeoutError, OdradekError) as failure:
            logger.warning(
                "%s ended without its last offsets: %s", self._settings.label, failure or "no answer"
            )
        finally:
            await self._heartbeats.close()
            await self._syncs.close()
            await self._producer.close(is_flushing=False)

    # --- from the data path ------------------------------------------------------------------------------------------

    def set_assignment(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions of the source are this worker's; `begin` says where they begin."""
        kept = set(partitions)
        for partition in [key for key in self._partitions if key not in kept]:
            self._forget(partition)
        self._syncs.pending.keep(kept)
        self._checkpoints.keep(mirrored.target for mirrored in self._partitions.values())

    async def begin(self, starts: Mapping[TopicPartition, PartitionStart]) -> None:
        """Note where partitions begin, before their first batch is read. Raises what the target answers.

        What is known of a partition that this worker had before stays, unless the mirror was sent back.
        """
        ends = await LogAdmin(self._target).offsets_at([start.target for start in starts.values()], LATEST)
        source = await self._source.topics(sorted({key.topic for key in starts}))
        target = await self._target.topics(sorted({start.target.topic for start in starts.values()}))
        begun: dict[TopicPartition, Mirrored] = {}
        for partition, start in starts.items():
            ids = TopicIds(source.topic(partition.topic).id, target.topic(start.target.topic).id)
            now = Mirrored(
                start.target, None if NO_TOPIC_ID in ids else ids, start.position, ends[start.target]
            )
            if self._goes_on(partition, now):
                self.index.add(partition, point(start.position, now.target_end_offset))
                self._partitions[partition] = now
                continue
            begun[partition] = now
            self._forget(partition)
            first = (beginning if start.is_from_beginning else point)(start.position, now.target_end_offset)
            self.index.begin(partition, [first])
            self._targets[partition] = start.target
            self._sources[start.target] = partition
        kept = self._partitions.keys() - begun.keys()
        self._syncs.pending.keep(kept)
        self._checkpoints.keep(self._partitions[partition].target for partition in kept)
        self._partitions |= begun
        if begun:
            self._rebuilt.clear()
            self._tasks.start(self._rebuild(begun), name="stored offsets")

    def _goes_on(self, partition: TopicPartition, now: Mirrored) -> bool:
        before, last = self._partitions.get(partition), self.index.last(partition)
        return (
            before is not None
            and last is not None
            and (before.target, before.ids) == (now.target, now.ids)
            and last.source_end_offset <= now.position
            and last.target_end_offset <= now.target_end_offset
        )

    def note_passed(self, batches: Sequence[PassedBatch]) -> None:
        """These batches are committed at the target."""
        for batch in batches:
            partition = batch.topic_partition_source
            if batch.target_first_offset == _NO_TARGET_OFFSET or partition not in self._partitions:
                continue
            run = OffsetRun(
                batch.source_first_offset,
                batch.source_end_offset,
                batch.target_first_offset,
                batch.target_first_offset + batch.record_count,
                batch.record_count,
            )
            self.index.add(partition, run)
            if self._settings.emit_offset_syncs_enabled:
                self._syncs.pending.add(partition, run)

    def _forget(self, partition: TopicPartition) -> None:
        self._partitions.pop(partition, None)
        target = self._targets.pop(partition, None)
        if target is not None:
            self._sources.pop(target, None)
        self.index.end(partition)

    def _ids(self, partition: TopicPartition | None) -> TopicIds | None:
        mirrored = None if partition is None else self._partitions.get(partition)
        return None if mirrored is None else mirrored.ids

    # --- after a restart ---------------------------------------------------------------------------------------------

    async def _rebuild(self, begun: Mapping[TopicPartition, Mirrored]) -> None:
        while True:
            try:
                history = await self._read_stored(begun)
                break
            except OdradekError as failure:
                self._note_failure("stored-offsets", "stored offsets were not read", failure)
            await asyncio.sleep(_RETRY_SECONDS)
            if not any(self._partitions.get(key) is mirrored for key, mirrored in begun.items()):
                return  # another assignment reads its own
        for partition, mirrored in begun.items():
            if self._partitions.get(partition) is mirrored:
                self.index.prepend(partition, history.runs(partition))
        current = {mirrored.target for mirrored in self._partitions.values()}
        self._checkpoints.restore(
            {key: last for key, last in history.checkpoints.items() if key[1] in current}
        )
        self._rebuilt.set()

    async def _read_stored(self, begun: Mapping[TopicPartition, Mirrored]) -> History:
        history = History(begun)
        settings = self._settings
        if settings.emit_offset_syncs_enabled:
            with suppress(UnknownTopicOrPartition):  # not made yet
                async for records in tail(
                    self._syncs_client, self._syncs_topic, offsets_max=MIRROR_STORED_OFFSETS_READ_MAX
                ):
                    history.add_syncs(records)
        if settings.emit_checkpoints_enabled:
            with suppress(UnknownTopicOrPartition):
                async for records in tail(
                    self._target, self._checkpoints_topic, offsets_max=MIRROR_STORED_OFFSETS_READ_MAX
                ):
                    history.add_checkpoints(records)
        return history

    # --- groups ------------------------------------------------------------------------------------------------------

    def _is_selected(self, group_id: str) -> bool:
        settings = self._settings
        return settings.groups.matches(group_id) and not settings.groups_exclude.matches(group_id)

    async def _look_for_groups(self) -> None:
        is_repeated = self._settings.refresh_groups_enabled
        while True:
            try:
                await self._groups.refresh()
                self._counters.groups = len(self._groups.group_ids)
                pause = float(self._settings.refresh_groups_interval_seconds)
                if not is_repeated:
                    return
            except OdradekError as failure:
                self._note_failure("groups", "groups of the source were not listed", failure)
                pause = _RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _write_checkpoints(self) -> None:
        await self._for_each_group("checkpoints", self._checkpoints.write)
        self._counters.checkpoints = self._checkpoints.written
        self._counters.checkpointed_at_ms = self._counters.wall_ms()

    async def _sync_groups(self) -> None:
        async def sync(translated: Translated) -> None:
            for group_id in {checkpoint.group_id for checkpoint in translated.values()}:
                await self._group_sync.sync(group_id, translated)

        await self._for_each_group("group-offsets", sync)
        self._counters.group_offsets = self._group_sync.written

    async def _for_each_group(self, kind: str, act: Callable[[Translated], Awaitable[object]]) -> None:
        if not self._targets:
            return  # other workers have all partitions
        for group_id in self._groups.group_ids:
            if not self._is_current():
                return
            try:
                await act(await self._groups.translate_group(group_id))
            except (ConnectionFailed, ClientTimeout):
                raise  # the others would wait as long
            except OdradekError as failure:
                self._note_failure(kind, f"offsets of group {group_id!r} were not mirrored", failure)

    # --- syncs and the rest ------------------------------------------------------------------------------------------

    async def _write_syncs(self) -> None:
        await self._syncs.write()
        self._counters.offset_syncs = self._syncs.written

    async def _write_due_syncs(self) -> None:
        now = asyncio.get_running_loop().time()
        is_time = now - self._all_synced_at >= OFFSET_SYNC_SECONDS
        if is_time:
            self._all_synced_at = now
        await self._syncs.write(is_due=not is_time)
        self._counters.offset_syncs = self._syncs.written

    async def _each(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        """Act after the start, and again and again. A failure is counted, and the next time comes as ever."""
        try:
            async with asyncio.timeout(seconds):
                await self._rebuilt.wait()
        except TimeoutError:
            pass
        while True:
            try:
                await act()
            except OdradekError as failure:
                self._note_failure("offsets", f"{act.__name__.strip('_').replace('_', ' ')} failed", failure)
            await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        """Sleep; and a little longer after a stand-still, in which the partitions may have gone to another worker."""
        now = asyncio.get_running_loop().time
        began = now()
        await asyncio.sleep(seconds)
        if now() - began > seconds + _STALL_SECONDS:
            await asyncio.sleep(_STALL_SECONDS)

    def _note_failure(self, kind: str, what: str, failure: OdradekError) -> None:
        text = f"{self._settings.label}: {what}, and will be tried again: {failure}"
        self._counters.note_failure(kind, text)
        self._log.warning("%s", text)


def offsets_to_write(
    translated: Translated,
    *,
    committed: Mapping[TopicPartition, CommittedOffset],
    log_starts: Mapping[TopicPartition, int],
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets to commit for a group: those that the target lacks, and those that move on."""
    wanted: dict[TopicPartition, CommittedOffset] = {}
    for partition, checkpoint in translated.items():
        offset = max(checkpoint.target_offset, log_starts.get(partition, 0))
        known = committed.get(partition)
        if known is None or known.offset < offset:
            wanted[partition] = CommittedOffset(offset=offset, leader_epoch=-1, metadata=checkpoint.metadata)
    return wanted


class GroupSync:
    """Writes translated offsets to groups of the target, so that consumers continue there without a step of their own.

    As KIP-545 has it, only a group that is EMPTY at the target, or unknown there, is written: consumers that run commit
    their own offsets. No offset is lowered, since a group may have worked at the target already. An offset below the
    target's first record is raised to it, which skips nothing: consumers would else reset, maybe to the end.

    The coordinator refuses such commits for a group with members. So a consumer that joins between the look and the
    commit is safe.
    """

    def __init__(self, target: Client) -> None:
        self._groups = GroupAdmin(target)
        self._logs = LogAdmin(target)
        self.written = 0

    async def sync(self, group_id: str, translated: Translated) -> int:
        """Write what is missing or behind. Returns how many offsets; 0 for a group with members."""
        if not translated or not await self._is_idle(group_id):
            return 0
        committed = await self._groups.offsets(group_id, translated)
        wanted = offsets_to_write(translated, committed=committed, log_starts={})
        if not wanted:
            return 0
        log_starts = await self._logs.known_offsets_at(wanted, EARLIEST)
        wanted = offsets_to_write(
            {partition: translated[partition] for partition in wanted},
            committed=committed,
            log_starts=log_starts,
        )
        try:
            await self._groups.alter_offsets(group_id, wanted)
        except NonEmptyGroup:
            return 0
        self.written += len(wanted)
        return len(wanted)

    async def _is_idle(self, group_id: str) -> bool:
        try:
            return (await self._groups.describe(group_id)).state in (EMPTY, _DEAD)
        except GroupIdNotFound:
            return True
