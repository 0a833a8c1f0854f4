"""Deleting in two steps: a rename that takes effect at once, and the removal after a delay.

Readers that still send from a deleted segment keep its file open. The delay serves those that are about to open it, and
a person who deleted the wrong topic. Files that a crash leaves behind end in .deleted; the next start removes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from odradek.log.files import Disk
from odradek.log.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment


class DeferredDeletes:
    """Files of one log that wait for their removal, in the order in which they are due."""

    __slots__ = ("_disk", "_waiting")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # (when due, monotonic seconds; path). Bounded by the number of segments that the log had.
        self._waiting: deque[tuple[float, str]] = deque()

    def schedule(
        self, segments: Iterable[Segment], *, due_at_seconds: float, keep_snapshots: Collection[int] = ()
    ) -> None:
        """Rename the segments' files, which `pop_due` returns when they are due. Raises OSError.

        The producer snapshots at the offsets `keep_snapshots` stay.
        """
        for segment in segments:
            segment.release()
            for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
                if suffix == SNAPSHOT_SUFFIX and segment.base_offset in keep_snapshots:
                    continue
                path = segment.path + suffix
                try:
                    self._disk.rename(path, path + DELETED_SUFFIX)
                except FileNotFoundError:
                    continue
                self._waiting.append((due_at_seconds, path + DELETED_SUFFIX))

    def pop_due(self, now_seconds: float) -> list[str]:
        """The paths of the files whose delay is over, for the caller to remove."""
        due = []
        while self._waiting and self._waiting[0][0] <= now_seconds:
            due.append(self._waiting.popleft()[1])
        return due
