"""Deleting in two steps: a rename that takes effect at once, and the removal after a delay.

Readers that still send from a deleted segment keep their open file; the delay is for those that are about to open
it, and for the person who deleted the wrong thing. What a crash leaves half-way ends in .deleted and is removed when
the log is opened again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable

from odradek.log.files import Disk
from odradek.log.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment

logger = logging.getLogger(__name__)


class Disposal:
    """Files of one log that wait for their removal, in the order in which they are due."""

    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # Bounded by the number of segments that a log had; (when due, monotonic seconds; path).
        self._waiting: deque[tuple[float, str]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def discard(
        self, segments: Iterable[Segment], *, due_at_seconds: float, keep_snapshots: bool = False
    ) -> None:
        """Rename the segments' files, and let `remove_due` remove them later. Raises OSError."""
        suffixes = SEGMENT_SUFFIXES if keep_snapshots else (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX)
        for segment in segments:
            # The log file opens before its name goes, for slices that were handed out and are yet to be read.
            segment.release()
            for suffix in suffixes:
                path = segment.path + suffix
                try:
                    self._disk.rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    continue
                self._waiting.append((due_at_seconds, path + DELETED_SUFFIX))

    def take_due(self, now_seconds: float) -> list[str]:
        """The files whose time has come; they are the caller's to remove."""
        due = []
        while self._waiting and self._waiting[0][0] <= now_seconds:
            due.append(self._waiting.popleft()[1])
        return due
