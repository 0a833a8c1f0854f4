"""The work of one flow in plain numbers: by partition of the source, and for the flow as a whole.

The data path and the group path count here. A scrape and the page `/mirror` read it (`flow_samples`, `flow_page`). The
seconds of lag do not come from the records' own times, which programs set as they like. They are the time since the
source had a record that is not at the target yet.

What is not known is None, and never 0. The position is not known while a worker has no place in its group, since
another worker may move it. The source's end is not known before the first answer, and once the source does not answer.
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
# A partition that stopped so has another log now, whose offsets cannot be compared with the position.
_OTHER_LOG: Final = frozenset({"cluster-changed", "topic-recreated", "truncated"})


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
        self.position: int | None = None
        self.end_offset: int | None = None
        self.end_seen_ms = 0
        self.last_timestamp_ms = NO_TIMESTAMP_MS
        self.stopped: FlowError | None = None
        # The oldest end of the source that was seen and is not reached, and when it was seen.
        self._behind_end = _NOT_BEHIND
        self._behind_since_ms = 0

    @property
    def lag_records(self) -> int | None:
        """Offsets between what is at the target and the end of the readable records; None while it is not known."""
        if not self._is_comparable or self.position is None or self.end_offset is None:
            return None
        if self.stopped is not None and self.end_offset < self.position:
            return None  # the source's log lost what the target has
        return max(0, self.end_offset - self.position)

    def lag_ms(self, now_ms: int) -> int | None:
        """For how long records of the source have waited; 0 when all are at the target, None while it is not known."""
        if self._is_comparable and self.position is not None and self._behind_end != _NOT_BEHIND:
            return max(0, now_ms - self._behind_since_ms)
        return None if self.lag_records is None else 0

    @property
    def _is_comparable(self) -> bool:
        return self.stopped is None or self.stopped.kind not in _OTHER_LOG

    def note_move(self, now_ms: int, *, position: int | None = None, end_offset: int | None = None) -> None:
        """Note how far the target and the source are now."""
        if position is not None:
            self.position = position
        if end_offset is not None:
            self.end_offset, self.end_seen_ms = end_offset, now_ms
        if self.position is None:
            return
        if self._behind_end != _NOT_BEHIND and self.position >= self._behind_end:
            self._behind_end = _NOT_BEHIND
        if (
            self._behind_end == _NOT_BEHIND
            and self.end_offset is not None
            and self.position < self.end_offset
        ):
            self._behind_end = self.end_offset
            self._behind_since_ms = now_ms

    def forget(self, *, is_position: bool = False) -> None:
        """The source's end is not known any more; with `is_position` the position is not known either."""
        self.end_offset = None
        if is_position:
            self.position = None


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

    def set_assignment(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are mirrored here from now on, and no others."""
        self._before |= self.partitions
        self.partitions = {}
        for partition in partitions:
            known = self._before.pop(partition, None) or PartitionCounters()
            known.stopped = None
            known.forget(is_position=True)
            self.partitions[partition] = known
        topics = {partition.topic for partition in partitions}
        # Bounded by the partitions of topics that are mirrored here.
        self._before = {key: kept for key, kept in self._before.items() if key.topic in topics}

    def clear_assignment(self) -> None:
        """This worker has no place in its group: another one may move the positions from now on."""
        for of in self.partitions.values():
            of.forget(is_position=True)

    def note_passed(self, batches: Sequence[PassedBatch]) -> None:
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
            of.note_move(now_ms, position=batch.source_end_offset)

    def at(
        self, partition: TopicPartition, *, position: int | None = None, end_offset: int | None = None
    ) -> None:
        """Note the position after a start or after skipped batches, or the end of the source's readable records."""
        of = self.partitions.get(partition)
        if of is not None:
            of.note_move(self.wall_ms(), position=position, end_offset=end_offset)

    def note_failure(
        self, kind: str, text: str, *, partition: TopicPartition | None = None, is_stopped: bool = False
    ) -> None:
        """Note an error of the flow, or of one partition. `is_stopped`: it stands still until the cause is removed."""
        self.errors[partition, kind] += 1
        self.last_error = FlowError(self.wall_ms(), kind, text)
        if is_stopped and partition is not None and partition in self.partitions:
            self.partitions[partition].stopped = self.last_error
