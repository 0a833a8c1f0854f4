"""What one flow has done, in plain numbers: by partition of the source, and for the flow as a whole.

The data path and the group path count here. A scrape and the page `/mirror` read it (`flow_samples`, `flow_page`). The
seconds of lag do not come from the records' own times, which programs set as they like. They are the time since the
source had a record that is not at the target yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from odradek.foundation.ids import NO_TIMESTAMP_MS, TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.mirror.passed import PassedBatch

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
_NOT_BEHIND: Final = -1


class FlowError(NamedTuple):
    """The last error of a flow or of a partition."""

    at_ms: int
    kind: str
    text: str
    """What happened, to what, and what to do."""


class PartitionCounters:
    """One partition of the source."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.batches = 0
        self.opened: Counter[str] = Counter()
        self.position = 0
        self.end_offset = 0
        self.last_timestamp_ms = NO_TIMESTAMP_MS
        self.stopped: FlowError | None = None
        # The oldest end of the source that was seen and is not reached, and when it was seen.
        self._behind_end = _NOT_BEHIND
        self._behind_since_ms = 0

    @property
    def lag_records(self) -> int:
        """Offsets between what is at the target and the end of the readable records."""
        return max(0, self.end_offset - self.position)

    def lag_ms(self, now_ms: int) -> int:
        """For how long records of the source have waited; 0 when all are at the target."""
        return max(0, now_ms - self._behind_since_ms) if self._behind_end != _NOT_BEHIND else 0

    def moved(self, now_ms: int, *, position: int | None = None, end_offset: int | None = None) -> None:
        """Note how far the target and the source are now."""
        if position is not None:
            self.position = position
        if end_offset is not None:
            self.end_offset = end_offset
        if self._behind_end != _NOT_BEHIND and self.position >= self._behind_end:
            self._behind_end = _NOT_BEHIND
        if self._behind_end == _NOT_BEHIND and self.position < self.end_offset:
            self._behind_end = self.end_offset
            self._behind_since_ms = now_ms


class FlowCounters:
    """One flow. It is a `PassedListener`: the data path reports batches and partitions to it."""

    def __init__(self, source_alias: str, *, wall_ms: Callable[[], int]) -> None:
        self.source_alias = source_alias
        self.wall_ms = wall_ms
        self.partitions: dict[TopicPartition, PartitionCounters] = {}
        """The partitions that this worker mirrors now."""
        self.errors: Counter[tuple[TopicPartition | None, str]] = Counter()
        self.last_error: FlowError | None = None
        self.transactions: Counter[str] = Counter()
        self.fencings = 0
        self.groups = 0
        self.checkpoints = 0
        self.checkpointed_at_ms: int | None = None
        self.group_offsets = 0
        self.offset_syncs = 0
        self.heartbeats = 0
        # Counts of partitions that went to other workers: a counter must not fall when one comes back.
        self._before: dict[TopicPartition, PartitionCounters] = {}

    # --- from the data path ------------------------------------------------------------------------------------------

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are mirrored here from now on, and no others."""
        self._before |= self.partitions
        self.partitions = {}
        for partition in partitions:
            known = self._before.pop(partition, None) or PartitionCounters()
            known.stopped = None
            self.partitions[partition] = known
        topics = {partition.topic for partition in partitions}
        # Bounded by the partitions of topics that are mirrored here.
        self._before = {key: kept for key, kept in self._before.items() if key.topic in topics}

    def passed(self, batches: Sequence[PassedBatch]) -> None:
        """These batches are at the target."""
        now_ms = self.wall_ms()
        for batch in batches:
            of = self.partitions.get(batch.topic_partition_source)
            if of is None:
                continue
            of.records += batch.record_count
            of.bytes += batch.size_bytes
            of.batches += 1
            if batch.opened_because is not None:
                of.opened[batch.opened_because] += 1
            of.last_timestamp_ms = max(of.last_timestamp_ms, batch.max_timestamp_ms)
            of.moved(now_ms, position=batch.source_end_offset)

    def at(
        self, partition: TopicPartition, *, position: int | None = None, end_offset: int | None = None
    ) -> None:
        """Note the position after a start or after skipped batches, or the end of the source's readable records."""
        of = self.partitions.get(partition)
        if of is not None:
            of.moved(self.wall_ms(), position=position, end_offset=end_offset)

    def failed(
        self, kind: str, text: str, *, partition: TopicPartition | None = None, is_stopped: bool = False
    ) -> None:
        """Note an error of the flow, or of one partition. `is_stopped`: it stands still until the cause is removed."""
        self.errors[partition, kind] += 1
        self.last_error = FlowError(self.wall_ms(), kind, text)
        if is_stopped and partition is not None and partition in self.partitions:
            self.partitions[partition].stopped = self.last_error

    def resumed(self, partition: TopicPartition) -> None:
        """A partition that stood still is mirrored again."""
        if partition in self.partitions:
            self.partitions[partition].stopped = None
