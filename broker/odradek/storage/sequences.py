"""The sequence numbers of an idempotent producer's batches: which batch has come before, and which one is next."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.transaction_errors import OutOfOrderSequence
from odradek.wire.records.batch import SEQUENCE_MAX, BatchHeader


class AppendedBatch(NamedTuple):
    """A batch that was written: the answer to a duplicate of it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


def duplicate_of(header: BatchHeader, batches: Sequence[AppendedBatch]) -> AppendedBatch | None:
    """The batch of the same epoch that has come before; None where it is new, or older than those remembered."""
    last_sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MAX
    for batch in batches:
        if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
            return batch
    return None


def check_gap(
    header: BatchHeader, *, epoch: int, batches: Sequence[AppendedBatch], topic_partition: TopicPartition
) -> None:
    """Raises OutOfOrderSequence for a batch that is not the next one, unless a new epoch begins with it.

    `epoch` and `batches` are the newest that were written.
    """
    if header.producer_epoch != epoch:
        if header.base_sequence != 0 and epoch != -1:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} starts epoch {header.producer_epoch} on {topic_partition} with the"
                f" sequence number {header.base_sequence}; a new epoch starts with 0 (before: {epoch})"
            )
        return
    raise OutOfOrderSequence(
        f"producer {header.producer_id} (epoch {header.producer_epoch}) sent the sequence number"
        f" {header.base_sequence} to {topic_partition}, but the last one was"
        f" {batches[-1].last_sequence if batches else -1}. A batch before it is missing, or it is older than those"
        " remembered"
    )
