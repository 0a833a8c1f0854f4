"""The segments of a log by offset: a sorted list that is copied on change.

A reader takes the tuple once and searches it by halves; a roll or a deletion meanwhile makes a new tuple and leaves
the reader's alone. Nothing here touches a file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from odradek.log.segment import Segment


class Segments:
    """Never empty once its log is open; `active` is the last, the only one that grows."""

    __slots__ = ("_bases", "active", "all")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.all: tuple[Segment, ...] = ()
        self.replace(segments)

    def __len__(self) -> int:
        return len(self.all)

    @property
    def first(self) -> Segment:
        return self.all[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of the log files."""
        return sum(segment.size_bytes for segment in self.all)

    def replace(self, segments: Iterable[Segment]) -> None:
        """Hold these instead."""
        ordered = tuple(sorted(segments, key=_base_offset))
        self._bases = [segment.base_offset for segment in ordered]
        self.all = ordered
        if ordered:
            self.active = ordered[-1]

    def add(self, segment: Segment) -> None:
        """Put in a segment; one of the same base offset is replaced."""
        self.replace([*(other for other in self.all if other.base_offset != segment.base_offset), segment])

    def remove(self, segments: Iterable[Segment]) -> None:
        """Take out these."""
        gone = {segment.base_offset for segment in segments}
        self.replace([segment for segment in self.all if segment.base_offset not in gone])

    def floor(self, offset: int) -> int:
        """The number in `all` of the segment that `offset` belongs to; -1 when all begin above it."""
        return bisect_right(self._bases, offset) - 1

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that `offset` belongs to and all after it."""
        return self.all[max(self.floor(offset), 0) :]

    def upper_offset(self, number: int, *, end_offset: int) -> int:
        """The first offset that is no longer segment `number`'s, where the log ends at `end_offset`."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else end_offset


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
