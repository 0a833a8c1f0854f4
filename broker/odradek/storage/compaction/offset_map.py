"""The map from keys to offsets, as the two passes use it, and the plain one: a dict of keys.

A map says, for keys of the dirty part of a log, at which offset the newest record of the key is. It is exact: a record
is found superseded only where a newer one has the same bytes as its key. The plain map keeps the keys themselves in
memory, which takes some 120 bytes and the key for each. `vector_map` takes 24 bytes and needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from odradek.foundation.errors import CorruptRecord
from odradek.storage.compaction.reading import StoredBatch
from odradek.wire.records.record import record_spans

# What a key takes in a dict of bytes, itself left out: table, object of the key, object of the offset.
ENTRY_BYTES: Final = 120


class Kept(NamedTuple):
    """The part of a batch's records that stays."""

    record_count: int
    payload: bytes | None
    """The records that stay, not compressed; None when all stay."""
    has_tombstone: bool
    """Whether a record without value is among them."""
    max_timestamp_ms: int
    """The newest of their timestamps by delta; of no account when all stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The condition for removing a tombstone: its batch's horizon is over, and it lies below the bound."""

    now_ms: int
    removal_bound_offset: int

    def is_over(self, batch: StoredBatch) -> bool:
        """Whether the tombstones of this batch may go."""
        header = batch.header
        return (
            header.has_delete_horizon
            and header.base_timestamp_ms <= self.now_ms
            and header.last_offset < self.removal_bound_offset
        )


class OffsetMap(Protocol):
    """Filled by the first pass, asked by the second."""

    latest_offset: int
    """Records above it are not known; -1 while it knows none."""

    def __len__(self) -> int:
        """The number of its keys."""
        ...

    @property
    def size_bytes(self) -> int:
        """The memory that it takes."""
        ...

    def add(self, batches: Sequence[StoredBatch], from_offset: int) -> bool:
        """Note the keys of these batches, the records below `from_offset` left out; whether the map is full.

        A map that is full has noted all up to `latest_offset`. Raises CorruptRecord.
        """
        ...

    def keep_newest(self, batches: Sequence[StoredBatch], retention: Retention) -> list[Kept]:
        """The part of each batch that stays. Raises CorruptRecord."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


class PlainOffsetMap:
    """A dict. `capacity_bytes` bounds what it takes."""

    def __init__(self, capacity_bytes: int) -> None:
        self.latest_offset = -1
        self.size_bytes = 0
        self._capacity_bytes = capacity_bytes
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, batches: Sequence[StoredBatch], from_offset: int) -> bool:
        offsets = self._offsets
        for batch in batches:
            header = batch.header
            payload = bytes(batch.payload)
            for span in record_spans(payload, record_count=header.record_count):
                offset = header.base_offset + span.offset_delta
                if span.key_start < 0 or offset < from_offset:
                    continue
                key = payload[span.key_start : span.key_end]
                if key not in offsets:
                    size_bytes = self.size_bytes + ENTRY_BYTES + len(key)
                    if size_bytes > self._capacity_bytes:
                        return True
                    self.size_bytes = size_bytes
                offsets[key] = offset
                self.latest_offset = offset
            self.latest_offset = max(self.latest_offset, header.last_offset)
        return False

    def keep_newest(self, batches: Sequence[StoredBatch], retention: Retention) -> list[Kept]:
        return [self._keep_of_batch(batch, is_over=retention.is_over(batch)) for batch in batches]

    def _keep_of_batch(self, batch: StoredBatch, *, is_over: bool) -> Kept:
        header = batch.header
        payload = bytes(batch.payload)
        parts = []
        has_tombstone = False
        newest_ms = -1
        before = -1
        for span in record_spans(payload, record_count=header.record_count):
            if not before < span.offset_delta <= header.last_offset_delta:
                raise CorruptRecord(
                    f"the batch at offset {header.base_offset} has the offset delta {span.offset_delta} after {before}"
                )
            before = span.offset_delta
            offset = header.base_offset + span.offset_delta
            if offset <= self.latest_offset:
                if span.key_start < 0:
                    continue
                newest = self._offsets.get(payload[span.key_start : span.key_end], -1)
                if offset < newest or (span.value_start < 0 and is_over):
                    continue
                has_tombstone = has_tombstone or span.value_start < 0
            newest_ms = max(newest_ms, header.base_timestamp_ms + span.timestamp_delta_ms)
            parts.append(payload[span.start : span.end])
        is_whole = len(parts) == header.record_count
        return Kept(len(parts), None if is_whole else b"".join(parts), has_tombstone, newest_ms)

    def close(self) -> None:
        self._offsets = {}
