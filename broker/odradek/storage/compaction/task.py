"""The task of one round of compaction, and its results: plain values that cross a pipe.

The broker makes a task and takes the results. Everything between happens on files that it does not change then:
closed segments, which are only read, and `.cleaned` files, which nothing else opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.config import LONG_MAX

# Records of 100 bytes that are not compressed take three times their bytes. A whole window of them is a portion.
_WINDOWS_PER_PORTION: Final = 4
NO_RATE_LIMIT: Final = 1.7976931348623157e308


class SourceSegment(NamedTuple):
    """A closed segment below the first uncleanable offset."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    modified_ms: int
    next_base_offset: int
    """The base offset of the segment after it."""


class CleaningTask(NamedTuple):
    """One round on one log. Offsets below `first_dirty_offset` hold one record of each key already."""

    directory: str
    name: str
    """The partition, for messages."""
    segments: tuple[SourceSegment, ...]
    """All that may be cleaned, from the log's first on."""
    transaction_indexes: tuple[int, ...]
    """Base offsets of the log's segments that have a `.txnindex`, those that may not be cleaned among them."""
    first_dirty_offset: int
    removal_bound_offset: int
    """Tombstones and markers at or above it stay: some replica has not cleaned that far."""
    producers: Mapping[int, tuple[int, int]]
    """By producer id: its epoch, and the last offset of its newest data batch, -1 for none."""
    now_ms: int
    delete_retention_ms: int = 24 * 3600 * 1000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    map_bytes: int = 128 << 20
    map_load_factor: float = 0.9
    window_bytes: int = 8 << 20
    bytes_per_second: float = NO_RATE_LIMIT

    @property
    def portion_bytes(self) -> int:
        """About what decompressed records may take at once, with all that is made of them."""
        return _WINDOWS_PER_PORTION * self.window_bytes

    @property
    def first_uncleanable_offset(self) -> int:
        """The base offset of the first segment that stays as it is."""
        return self.segments[-1].next_base_offset

    @property
    def offset_range(self) -> int:
        """The most records that may have to enter the map."""
        return min(self.first_uncleanable_offset - self.first_dirty_offset, LONG_MAX)


class CleanedRun(NamedTuple):
    """Segments whose replacement is written, as `.cleaned` files on the device."""

    replaced: tuple[int, ...]
    """Base offsets of the segments to replace."""
    base_offsets: tuple[int, ...]
    """Base offsets of the new segments; none when the old ones can stay."""


@dataclass(slots=True, kw_only=True)
class CleaningSummary:
    """The results of a round. It is complete once all runs are swapped in."""

    next_dirty_offset: int = -1
    """All below holds one record of each key."""
    map_entries: int = 0
    map_bytes: int = 0
    """Memory that the map took."""
    map_fill_ratio: float = 0.0
    """The part of the map's bound that its keys took; 1.0 when a part of the log was left for the next round."""
    bytes_before: int = 0
    """The segments that the second pass read; `bytes_written` is what stays of them."""
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    map_seconds: float = 0.0
    """Time of the first pass."""
    write_seconds: float = 0.0
    """Time of the second pass."""
