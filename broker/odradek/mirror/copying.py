"""The copying of one generation: from the committed positions on, until the group changes or the worker stops.

Batches that arrive join the open transaction. It ends at `transaction.bytes.max`, after `transaction.ms.max`, or once
nothing arrives for a moment: readers at the target see its records only then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import MIRROR_IDLE_MS, MIRROR_POSITIONS_RENEWED_SECONDS
from odradek.mirror.batch_passing import ReadyBatch, TargetRules
from odradek.mirror.counters import COMMITTED, FlowCounters
from odradek.mirror.errors import PartitionStopped, build_stop_error
from odradek.mirror.mirror_maker import KEY, positions_of_mirror_maker
from odradek.mirror.passed import PartitionStart, PassedListener
from odradek.mirror.positions import Mismatch, SourceIdentity, build_committed_position, read_position
from odradek.mirror.produce_queue import OutgoingBatch
from odradek.mirror.settings import FlowSettings, OffsetReset
from odradek.mirror.source_batches import Position
from odradek.mirror.source_reader import SourceReader, TakenRun
from odradek.mirror.target_writer import TargetWriter
from odradek.mirror.topic_sync import TopicSync

logger = logging.getLogger(__name__)

# How often the loop looks whether it has to end, while nothing arrives.
_LOOK_SECONDS: Final = 0.2


class _Step(NamedTuple):
    """One batch that was read, None for what readers do not see, and the position after it."""

    ready: ReadyBatch | None
    after: Position


class FlowParts(NamedTuple):
    """The parts that a worker uses."""

    settings: FlowSettings
    group_id: str
    source: Client
    target: Client
    topics: TopicSync
    reader: SourceReader
    counters: FlowCounters
    listeners: Sequence[PassedListener]
    begin: Callable[[Mapping[TopicPartition, PartitionStart]], Awaitable[None]]
    """Awaited between the reading of positions and the first fetch."""
    is_renewable: Callable[[str], bool]
    """Whether a topic of the source has nothing that can be lost or doubled, so that it may begin again: heartbeats."""


class Copying:
    """One generation's partitions. `begin`, then `run`."""

    def __init__(self, parts: FlowParts, writer: TargetWriter, *, must_end: Callable[[], bool]) -> None:
        self._parts = parts
        self._writer = writer
        self._must_end = must_end
        self._targets: dict[TopicPartition, TopicPartition] = {}
        self._identities: dict[TopicPartition, SourceIdentity] = {}
        self._positions: dict[TopicPartition, Position] = {}
        self._moved: set[TopicPartition] = set()
        self._backlog: dict[TopicPartition, deque[_Step]] = {}
        self._renewed_at = 0.0

    async def begin(
        self,
        targets: Sequence[TopicPartition],
        *,
        refused: Mapping[TopicPartition, Mismatch],
        renewed: Collection[TopicPartition] = (),
    ) -> None:
        """Read the positions of these partitions of the target, and begin to read their sources. `refused` are
        partitions of the source that the target takes no more of, `renewed` those that begin again.
        """
        parts = self._parts
        source_of = self._sources(targets)
        self._targets = {source: target for target, source in source_of.items()}
        await self._identify()
        committed = await GroupAdmin(parts.target).offsets(parts.group_id, targets, require_stable=True)
        mismatches: dict[TopicPartition, Mismatch] = {}
        for target, offset in committed.items():
            source = source_of.get(target)
            if source is None or source in renewed:
                continue
            found = refused.get(source) or read_position(offset, self._identities[source])
            if isinstance(found, Mismatch) and source not in refused and parts.is_renewable(source.topic):
                logger.info("partition %s begins again: %s", source, found.what)
            elif isinstance(found, Mismatch):
                mismatches[source] = found
            else:
                self._positions[source] = found
        mismatches |= {source: found for source, found in refused.items() if source in self._targets}
        new = [
            source for source in self._targets if source not in self._positions and source not in mismatches
        ]
        taken = await self._take_over(new)
        for source, one in taken.items():
            if isinstance(one, Mismatch):
                mismatches[source] = one
            else:
                self._positions[source] = one
        begun = [source for source in new if source not in taken]
        await self._find_starts(begun)
        rules = await self._rules()
        for listener in parts.listeners:
            listener.set_assignment(list(self._targets))
        halted = {
            source: self.stop(source, found.kind, f"partition {source}: {found.what}")
            for source, found in mismatches.items()
        }
        is_earliest = parts.settings.offset_reset is OffsetReset.EARLIEST
        await parts.begin(
            {
                source: PartitionStart(
                    self._targets[source], position.offset, source in begun and is_earliest
                )
                for source, position in self._positions.items()
            }
        )
        parts.reader.assign(
            self._positions,
            rules=rules,
            topic_ids={source.topic: one.topic_id for source, one in self._identities.items()},
            stopped=halted,
        )
        for source, position in self._positions.items():
            parts.counters.at(source, position=position.offset)
        self._moved = set(new) - mismatches.keys()
        self._renewed_at = _now()

    def stop(self, source: TopicPartition, kind: str, what: str) -> PartitionStopped:
        """Note that a partition is not mirrored any more, and why."""
        target = self._targets[source]
        failure = build_stop_error(
            what,
            group_id=self._parts.group_id,
            target_topic=target.topic,
            partition=target.partition,
            kind=kind,
            first=f", remove {KEY} from the file" if self._parts.settings.mirror_maker_offsets_topic else "",
        )
        self._parts.counters.note_failure(kind, str(failure), partition=source, is_stopped=True)
        return failure

    async def run(self) -> None:
        """Copy until the generation has to end; what is open is then committed. Raises what went wrong."""
        began_at = 0.0
        settings = self._parts.settings
        while not self._must_end():
            is_open = self._writer.is_open
            if not self._backlog:
                taken = await self._parts.reader.take(
                    settings.transaction_bytes_max,
                    timeout_seconds=MIRROR_IDLE_MS / 1000 if is_open or self._moved else _LOOK_SECONDS,
                )
                self._lay_out(taken)
            is_idle = not self._backlog
            if not is_idle:
                if not is_open:
                    began_at = _now()
                await self._write_some()
            if self._is_due(began_at, is_idle=is_idle):
                await self._commit()
            elif is_idle and _now() - self._renewed_at >= MIRROR_POSITIONS_RENEWED_SECONDS:
                self._moved = set(self._positions)
        if self._writer.is_open or self._moved:
            await self._commit()

    def _is_due(self, began_at: float, *, is_idle: bool) -> bool:
        writer, settings = self._writer, self._parts.settings
        if not writer.is_open and not self._moved:
            return False
        if is_idle or writer.bytes_open >= settings.transaction_bytes_max:
            return True
        return writer.is_open and (_now() - began_at) * 1000 >= settings.transaction_ms_max

    def _lay_out(self, taken: Sequence[TakenRun]) -> None:
        """Put what was read into the backlog, batch by batch: a transaction may end after any of them."""
        for source, run in taken:
            steps = self._backlog.setdefault(source, deque())
            steps.extend(
                _Step(ready, Position(ready.source_end_offset, ready.leader_epoch)) for ready in run.batches
            )
            # After the last batch there may be some that readers do not see.
            steps.append(_Step(None, run.after))

    async def _write_some(self) -> None:
        """Write a batch of each partition: one request takes them all."""
        batches: list[OutgoingBatch] = []
        for source, steps in list(self._backlog.items()):
            step = steps.popleft()
            if step.ready is not None:
                batches.append(OutgoingBatch(source, self._targets[source], step.ready))
            if len(steps) == 1 and steps[0].ready is None:
                step = steps.popleft()
            if not steps:
                del self._backlog[source]
            self._positions[source] = step.after
            self._moved.add(source)
        await self._writer.write(batches)

    async def _commit(self) -> None:
        moved = {
            self._targets[source]: build_committed_position(self._positions[source], self._identities[source])
            for source in self._moved
        }
        passed = await self._writer.commit(moved)
        counters = self._parts.counters
        if self._parts.settings.is_exactly_once:
            counters.transactions[COMMITTED] += 1
        for listener in self._parts.listeners:
            listener.note_passed(passed)
        for source in self._moved:
            counters.at(source, position=self._positions[source].offset)
        self._moved.clear()
        self._renewed_at = _now()

    # --- where to begin -------------------------------------------------------------------------------------------

    def _sources(self, targets: Sequence[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
        found: dict[TopicPartition, TopicPartition] = {}
        for target in targets:
            topic = self._parts.topics.topics.get(target.topic)
            if topic is None or target.partition >= topic.partitions:
                raise UnknownTopicOrPartition(
                    f"partition {target} of the target has no source any more; the mirror looks for topics again"
                )
            found[target] = TopicPartition(topic.source, target.partition)
        return found

    async def _identify(self) -> None:
        source = self._parts.source
        names = sorted({key.topic for key in self._targets})
        cluster = await source.with_retries(lambda: source.refresh(names))
        for key in self._targets:
            self._identities[key] = SourceIdentity(cluster.cluster_id or "", cluster.topic(key.topic).id)

    async def _take_over(self, new: Sequence[TopicPartition]) -> Mapping[TopicPartition, Position | Mismatch]:
        """The first positions of partitions that MirrorMaker has copied, if it is to be replaced."""
        settings, topic = self._parts.settings, self._parts.settings.mirror_maker_offsets_topic
        if not topic or not new:
            return {}
        taken = await positions_of_mirror_maker(
            self._parts.target,
            topic,
            new,
            source_alias=settings.source.alias,
            target_alias=settings.target.alias,
        )
        logger.info(
            "%s: %d of %d new partitions begin where MirrorMaker stopped (%s)",
            settings.label,
            len(taken),
            len(new),
            topic,
        )
        return taken

    async def _find_starts(self, new: Sequence[TopicPartition]) -> None:
        """The first positions of partitions without one."""
        where = EARLIEST if self._parts.settings.offset_reset is OffsetReset.EARLIEST else LATEST
        listed = await LogAdmin(self._parts.source).list_offsets(
            dict.fromkeys(new, where), read_committed=True
        )
        for source, found in listed.items():
            self._positions[source] = Position(found.offset)

    async def _rules(self) -> dict[TopicPartition, TargetRules]:
        by_topic = await self._parts.topics.rules(target.topic for target in self._targets.values())
        return {source: by_topic[target.topic] for source, target in self._targets.items()}

    async def renew_rules(self) -> None:
        """Learn again what the target's topics take: their settings may have changed."""
        try:
            self._parts.reader.set_rules(await self._rules())
        except OdradekError as failure:
            self._parts.counters.note_failure(type(failure).__name__, f"the target's settings: {failure}")


def _now() -> float:
    return asyncio.get_running_loop().time()
