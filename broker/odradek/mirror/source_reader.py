"""Reads partitions of the source as batches for the target: committed records alone, ahead of the writer by a bound.

One fetch per leader is under way at a time, for all of its partitions that have room. A new leader is asked where the
epoch of the last batch ended in its own log (KIP-320). So records that were mirrored and truncated later are noticed.
Where that leader has never had this epoch, its end alone proves nothing. An older leader may have written as many
records of its own. Then the batch before the position has to be of the epoch that was mirrored. The end counts alone
where compaction or retention has removed that batch.

A partition stops for good, with an error, where continuing could lose or double records:

    offset-out-of-range   retention was faster than the mirror, or the log ends before the position
    truncated             the leader's log lacks batches that were mirrored
    topic-recreated       the topic's name belongs to another topic now
    damaged               a batch that has to be opened is damaged, also after it was read again

A topic of heartbeats has nothing to lose: but for damage it begins again instead (`FlowParts.is_renewable`).

Other errors are tried again with growing pauses, for as long as they last.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from odradek.client.client import Client
from odradek.client.consumer.fetches import AskedEpoch, CompletedFetch, FetchBounds, epoch_ends, fetch_on
from odradek.client.errors import METADATA_STALE, UnsupportedByBroker
from odradek.client.metadata import NO_LEADER, NO_TOPIC_ID
from odradek.foundation.errors import (
    CorruptRecord,
    LeaderNotAvailable,
    OdradekError,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import (
    MIRROR_BYTES_BUFFERED_MAX,
    MIRROR_DAMAGED_READS_MAX,
    MIRROR_FETCH_BYTES_MAX,
    MIRROR_FETCH_PARTITION_BYTES_MAX,
    MIRROR_FETCH_WAIT_MS_MAX,
    MIRROR_FETCHES_BUFFERED_MAX,
    MIRROR_RETRY_PAUSE_MS_MAX,
    MIRROR_RETRY_PAUSE_MS_MIN,
)
from odradek.foundation.tasks import TaskOwner
from odradek.mirror.bandwidth import Bandwidth
from odradek.mirror.batch_passing import TargetRules
from odradek.mirror.errors import DAMAGED, PartitionStopped
from odradek.mirror.source_batches import Position, SourceRun, entries, read_committed_run
from odradek.wire.records.batch import read_header

logger = logging.getLogger(__name__)

_FETCH_BYTES_MIN: Final = 64 * 1024

Stop = Callable[[TopicPartition, str, str], PartitionStopped]


class TakenRun(NamedTuple):
    """Batches of one partition in order, and the position after them."""

    topic_partition: TopicPartition
    run: SourceRun


class SourcePartition:
    """One partition that is read."""

    def __init__(self, topic_partition: TopicPartition, position: Position, rules: TargetRules) -> None:
        self.topic_partition = topic_partition
        self.fetch_position = position
        self.rules = rules
        self.runs: deque[SourceRun] = deque()
        self.validated_epoch = -1
        self.is_fetching = False
        self.failures = 0
        self.damaged_reads = 0
        self.retry_at = 0.0
        self.stopped: PartitionStopped | None = None

    def can_fetch(self, now: float) -> bool:
        """Whether one more answer fits, and may be asked for now."""
        return (
            self.stopped is None
            and not self.is_fetching
            and now >= self.retry_at
            and len(self.runs) < MIRROR_FETCHES_BUFFERED_MAX
        )


class SourceReader:
    """Reads what `assign` says. `take` returns what has arrived."""

    def __init__(
        self,
        client: Client,
        *,
        bandwidth: Bandwidth,
        stop: Stop,
        on_failure: Callable[[TopicPartition | None, OdradekError], None],
        on_end: Callable[[TopicPartition, int], None],
    ) -> None:
        """`on_end` gets the end of the readable records of a partition, with each answer."""
        self._client = client
        self._bandwidth = bandwidth
        self._stop = stop
        self._on_failure = on_failure
        self._on_end = on_end
        self._lane = client.new_lane("mirror")
        self._partitions: dict[TopicPartition, SourcePartition] = {}
        self._topic_ids: dict[str, uuid.UUID] = {}
        self._generation = 0
        self._buffered_bytes = 0
        self._busy: set[int] = set()
        self._tasks = TaskOwner("mirror's source")
        self._wake = asyncio.Event()
        self._arrived = asyncio.Event()
        rate = bandwidth.bytes_per_second_max
        share = max(_FETCH_BYTES_MIN, rate // 4) if rate else MIRROR_FETCH_BYTES_MAX
        self._bounds = FetchBounds(
            wait_ms_max=MIRROR_FETCH_WAIT_MS_MAX,
            bytes_max=min(share, MIRROR_FETCH_BYTES_MAX),
            partition_bytes_max=min(share, MIRROR_FETCH_PARTITION_BYTES_MAX),
        )

    def start(self) -> None:
        """Begin to read."""
        self._tasks.start(self._run(), name="fetches")

    async def close(self) -> None:
        """Stop reading."""
        await self._tasks.close()
        await self._client.release_lane(self._lane)

    def assign(
        self,
        positions: Mapping[TopicPartition, Position],
        *,
        rules: Mapping[TopicPartition, TargetRules],
        topic_ids: Mapping[str, uuid.UUID],
        stopped: Mapping[TopicPartition, PartitionStopped],
    ) -> None:
        """Read these partitions from there on, and no others; what was fetched before is forgotten."""
        self._generation += 1
        self._buffered_bytes = 0
        self._arrived.clear()
        self._topic_ids = {name: one for name, one in topic_ids.items() if one != NO_TOPIC_ID}
        self._partitions = {key: SourcePartition(key, at, rules[key]) for key, at in positions.items()}
        for key, failure in stopped.items():
            self._partitions[key] = SourcePartition(key, Position(-1), TargetRules(0))
            self._partitions[key].stopped = failure
        self._wake.set()

    def set_rules(self, rules: Mapping[TopicPartition, TargetRules]) -> None:
        """The target's topics take other batches from now on."""
        for key, one in rules.items():
            if key in self._partitions:
                self._partitions[key].rules = one

    async def take(self, bytes_max: int, *, timeout_seconds: float) -> list[TakenRun]:
        """Return what has arrived, about `bytes_max` of it; waits for the first for some time."""
        if not self._arrived.is_set() and timeout_seconds > 0:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await self._arrived.wait()
            except TimeoutError:
                return []
        taken: list[TakenRun] = []
        for partition in self._partitions.values():
            while partition.runs and bytes_max > 0:
                run = partition.runs.popleft()
                bytes_max -= run.size_bytes
                self._buffered_bytes -= run.size_bytes
                taken.append(TakenRun(partition.topic_partition, run))
        if not any(partition.runs for partition in self._partitions.values()):
            self._arrived.clear()
        # Those that waited go first at the next call.
        for one in taken:
            self._partitions[one.topic_partition] = self._partitions.pop(one.topic_partition)
        self._wake.set()
        return taken

    # --- fetching -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._bandwidth.wait()
            self._wake.clear()
            now = _now()
            if self._buffered_bytes < MIRROR_BYTES_BUFFERED_MAX:
                ready = [one for one in self._partitions.values() if one.can_fetch(now)]
                if ready:
                    await self._begin(ready)
            later = [
                one.retry_at for one in self._partitions.values() if one.retry_at > now and not one.stopped
            ]
            try:
                async with asyncio.timeout(max(0.001, min(later) - now) if later else None):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _begin(self, ready: list[SourcePartition]) -> None:
        """Begin a fetch at each leader that has none under way."""
        by_leader: dict[int, list[SourcePartition]] = {}
        generation = self._generation
        try:
            cluster = await self._client.topics(sorted({one.topic_partition.topic for one in ready}))
        except OdradekError as failure:
            if generation == self._generation:
                self._note_failure(ready, failure)
            return
        if generation != self._generation:
            return
        for one in ready:
            try:
                topic = cluster.topic(one.topic_partition.topic)
                known = self._topic_ids.get(topic.name)
                if known is not None and topic.id not in (known, NO_TOPIC_ID):
                    self._stop_partition(
                        one, "topic-recreated", f"topic {topic.name} was deleted and created again"
                    )
                    continue
                partition = cluster.partition(one.topic_partition)
                is_old = one.fetch_position.leader_epoch > partition.leader_epoch >= 0
                # An old leader knows nothing of the epoch that was mirrored: a newer one is waited for.
                if is_old and self._client.note_leader_epoch(
                    one.topic_partition, one.fetch_position.leader_epoch
                ):
                    leader = NO_LEADER
                else:
                    leader = partition.leader
            except OdradekError as failure:
                self._note_failure([one], failure)
                continue
            if leader == NO_LEADER:
                self._client.invalidate()
                self._note_failure(
                    [one], UnknownTopicOrPartition(f"partition {one.topic_partition} has no leader")
                )
            elif leader not in self._busy:
                by_leader.setdefault(leader, []).append(one)
        for leader, partitions in by_leader.items():
            self._busy.add(leader)
            for one in partitions:
                one.is_fetching = True
            self._tasks.start(self._fetch(leader, partitions, generation), name=f"fetch {leader}")

    async def _fetch(self, leader: int, partitions: list[SourcePartition], generation: int) -> None:
        try:
            epochs = self._client.leader_epochs(one.topic_partition for one in partitions)
            unsure = [one for one in partitions if _must_validate(one, epochs[one.topic_partition])]
            if unsure:
                await self._validate(leader, unsure, epochs, generation)
                return
            for one in partitions:
                one.validated_epoch = epochs[one.topic_partition]
            topics = {one.topic_partition.topic for one in partitions}
            answers = await fetch_on(
                await self._client.broker(leader, lane=self._lane),
                {one.topic_partition: one.fetch_position.offset for one in partitions},
                leader_epochs=epochs,
                bounds=self._bounds,
                is_read_committed=True,
                timeout_ms=self._client.request_timeout_ms + self._bounds.wait_ms_max,
                topic_ids={name: self._topic_ids[name] for name in topics}
                if topics <= self._topic_ids.keys()
                else None,
            )
            if generation == self._generation:
                for one in partitions:
                    answer = answers.get(one.topic_partition)
                    if answer is not None:
                        self._take_answer(one, answer)
        except OdradekError as failure:
            if generation == self._generation:
                self._note_failure(partitions, failure)
        finally:
            self._busy.discard(leader)
            for one in partitions:
                one.is_fetching = False
            self._wake.set()

    async def _validate(
        self,
        leader: int,
        unsure: Iterable[SourcePartition],
        epochs: Mapping[TopicPartition, int],
        generation: int,
    ) -> None:
        """Ask a new leader whether it has the batches before these positions."""
        positions = {one.topic_partition: one.fetch_position for one in unsure}
        asked = {key: AskedEpoch(at.leader_epoch, epochs[key]) for key, at in positions.items()}
        try:
            ends = await epoch_ends(self._client, leader, asked, lane=self._lane)
        except UnsupportedByBroker:
            ends = {}
        doubtful = {
            key: at
            for key, at in positions.items()
            if key in ends and at.offset <= ends[key].end_offset and 0 <= ends[key].epoch != at.leader_epoch
        }
        lacking = await self._lacking(leader, doubtful, epochs) if doubtful else set()
        if generation != self._generation:
            return
        for one in unsure:
            key, end = one.topic_partition, ends.get(one.topic_partition)
            if end is not None and end.failure is not None:
                self._note_failure([one], end.failure)
            elif end is not None and (end.end_offset < one.fetch_position.offset or key in lacking):
                self._stop_partition(one, "truncated", _truncation(one, end.end_offset))
            else:
                one.validated_epoch = epochs[key]

    async def _lacking(
        self, leader: int, positions: Mapping[TopicPartition, Position], epochs: Mapping[TopicPartition, int]
    ) -> set[TopicPartition]:
        """Those where the leader has a batch of another epoch before the position."""
        answers = await fetch_on(
            await self._client.broker(leader, lane=self._lane),
            {key: at.offset - 1 for key, at in positions.items()},
            leader_epochs=epochs,
            bounds=self._bounds,
            is_read_committed=False,
            timeout_ms=self._client.request_timeout_ms + self._bounds.wait_ms_max,
        )
        lacking: set[TopicPartition] = set()
        for key, at in positions.items():
            answer = answers[key]
            if isinstance(answer.failure, OffsetOutOfRange):
                continue
            if answer.failure is not None:
                raise answer.failure
            first = next(entries(answer.data), None)
            if first is None:
                raise LeaderNotAvailable(f"broker {leader} does not show offset {at.offset - 1} of {key} yet")
            header = read_header(first)
            if header.base_offset < at.offset and header.leader_epoch != at.leader_epoch:
                lacking.add(key)
        return lacking

    def _take_answer(self, one: SourcePartition, answer: CompletedFetch) -> None:
        if answer.failure is not None:
            if isinstance(answer.failure, OffsetOutOfRange):
                self._out_of_range(one, answer)
            else:
                self._note_failure([one], answer.failure)
            return
        if answer.last_stable_offset >= 0:
            self._on_end(one.topic_partition, answer.last_stable_offset)
        one.failures = 0
        if not len(answer.data):
            return
        self._bandwidth.note_read(len(answer.data))
        try:
            run = read_committed_run(
                answer.data, answer.aborted, position=one.fetch_position, rules=one.rules
            )
        except CorruptRecord as failure:
            one.damaged_reads += 1
            if one.damaged_reads >= MIRROR_DAMAGED_READS_MAX:
                self._stop_partition(
                    one, DAMAGED, f"partition {one.topic_partition} cannot be read: {failure}"
                )
            else:
                self._note_failure([one], failure)
            return
        one.damaged_reads = 0
        one.fetch_position = run.after
        one.runs.append(run)
        self._buffered_bytes += run.size_bytes
        self._arrived.set()

    def _out_of_range(self, one: SourcePartition, answer: CompletedFetch) -> None:
        start, offset = answer.log_start_offset, one.fetch_position.offset
        if start >= 0 and offset < start:
            what = f"retention at the source was faster than the mirror: the log begins at {start}"
        else:
            what = "the source's log has no such offset"
        self._stop_partition(
            one,
            "offset-out-of-range",
            f"partition {one.topic_partition} cannot be read at offset {offset}: {what}",
        )

    def _stop_partition(self, one: SourcePartition, kind: str, what: str) -> None:
        one.stopped = self._stop(one.topic_partition, kind, what)

    def _note_failure(self, partitions: Iterable[SourcePartition], failure: OdradekError) -> None:
        if isinstance(failure, METADATA_STALE):
            self._client.invalidate()
        for one in partitions:
            pause_ms = min(MIRROR_RETRY_PAUSE_MS_MIN << min(one.failures, 10), MIRROR_RETRY_PAUSE_MS_MAX)
            one.failures += 1
            one.retry_at = _now() + pause_ms / 1000
            self._on_failure(one.topic_partition, failure)


def _must_validate(one: SourcePartition, leader_epoch: int) -> bool:
    return one.fetch_position.leader_epoch >= 0 and leader_epoch >= 0 and leader_epoch != one.validated_epoch


def _truncation(one: SourcePartition, end_offset: int) -> str:
    """The text of a truncation. `end_offset` is where both logs part, if that is before the position."""
    key, position = one.topic_partition, one.fetch_position.offset
    if 0 <= end_offset < position:
        return (
            f"the log of partition {key} was truncated at the source to offset {end_offset}, after the mirror had read "
            f"up to offset {position}. An unclean election does this. The target keeps the records that the source "
            f"lost, and --to-offset {end_offset} copies those that the source has in their place"
        )
    return (
        f"the log of partition {key} was truncated at the source: its leader lacks the record before offset "
        f"{position}, which the mirror had read. An unclean election does this. The target keeps the records that the "
        "source lost; compare both for the offset to continue from"
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
