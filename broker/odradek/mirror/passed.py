"""The report of the data path on each batch that is committed at the target, and the interface of a listener."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from odradek.foundation.ids import TopicPartition


class PassedBatch(NamedTuple):
    """One batch, written to the target in a transaction that is committed (or acknowledged, at least once).

    Offsets from `source_first_offset` to before `source_end_offset` are covered: records there that are not among
    `record_count` do not exist for readers of committed records. `target_first_offset` is -1 where the target answered
    a repeated request without it.
    """

    topic_partition_source: TopicPartition
    topic_partition_target: TopicPartition
    source_first_offset: int
    source_end_offset: int
    target_first_offset: int
    record_count: int
    is_contiguous: bool
    """Whether record n of the batch has the source offset `source_first_offset + n`, for each n."""
    max_timestamp_ms: int
    size_bytes: int
    opened_because: str | None
    """Why the batch was opened and written again; None for one that passed unopened."""


class PartitionStart(NamedTuple):
    """Where one partition of the source begins in an assignment."""

    target: TopicPartition
    position: int
    is_from_beginning: bool
    """Whether the mirror has no position yet, and begins at the source's first record."""


class PassedListener(Protocol):
    """Receives batches in the order of their offsets, per partition. Must not block; must not raise."""

    def note_passed(self, batches: Sequence[PassedBatch]) -> None:
        """These batches are committed."""

    def set_assignment(self, partitions: Sequence[TopicPartition]) -> None:
        """These source partitions are this worker's from now on, and no others; what was seen of others is old."""
