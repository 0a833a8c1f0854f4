"""The segments of one log by offset, and everything that changes which there are: roll, truncate, delete and swap.

The list is copied on change: a reader takes the tuple `all` once, and a later change leaves that tuple as it was.
Producer snapshots belong to the segments at whose base offset they were taken, so they are written and deleted here
too.

Files are deleted in two steps: a rename that takes effect at once, and the removal after a delay. Readers that still
send from a deleted segment keep its file open. The delay serves those that are about to open it, and a person who
deleted the wrong topic. Files that a crash leaves behind end in .deleted; the next start removes them.

What an OSError means for the log is decided by the caller.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from operator import attrgetter

from odradek.foundation.clock import Clock
from odradek.storage.config import LogConfig
from odradek.storage.files import Disk
from odradek.storage.index import OFFSET_ENTRY, TIME_ENTRY, IndexDamagedError
from odradek.storage.open_files import OpenFiles
from odradek.storage.producers import ProducerStates
from odradek.storage.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment
from odradek.storage.segment_files import SegmentFactory
from odradek.storage.segment_swap import SegmentSwap, end_of_run
from odradek.storage.unsynced_files import UnsyncedFiles

RELATIVE_OFFSET_MAX = 2**31 - 1


class SegmentSet:
    """Never empty. `active` is the last segment, the only one that grows."""

    def __init__(
        self,
        directory: str,
        segments: Iterable[Segment],
        *,
        disk: Disk,
        clock: Clock,
        open_files: OpenFiles,
        producers: ProducerStates,
        unsynced: UnsyncedFiles,
        config: LogConfig,
    ) -> None:
        self.all: tuple[Segment, ...]
        self._directory = directory
        self._disk = disk
        self._clock = clock
        self._factory = SegmentFactory(directory, disk, open_files)
        self._producers = producers
        self._unsynced = unsynced
        self._deletes = _DeferredDeletes(disk)
        self.reconfigure(config)
        self._replace(segments)
        for segment in self.all[:-1]:
            segment.close_to_appends()

    def reconfigure(self, config: LogConfig) -> None:
        """Use these settings from now on."""
        self._config = config
        self._offset_entries_max = config.segment_index_bytes // OFFSET_ENTRY.size
        self._time_entries_max = config.segment_index_bytes // TIME_ENTRY.size - 1

    def __len__(self) -> int:
        return len(self.all)

    @property
    def first(self) -> Segment:
        return self.all[0]

    @property
    def size_bytes(self) -> int:
        """Bytes of the log files."""
        return sum(segment.size_bytes for segment in self.all)

    # --- search ----------------------------------------------------------------------------------------------------

    def floor(self, offset: int) -> int:
        """The number in `all` of the segment that `offset` belongs to; -1 when all begin above it."""
        return bisect_right(self._bases, offset) - 1

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that `offset` belongs to and all after it."""
        return self.all[max(self.floor(offset), 0) :]

    def upper_offset(self, number: int, *, end_offset: int) -> int:
        """The first offset after those of segment `number`, in a log that ends at `end_offset`."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else end_offset

    def _replace(self, segments: Iterable[Segment]) -> None:
        ordered = tuple(sorted(segments, key=attrgetter("base_offset")))
        self._bases = [segment.base_offset for segment in ordered]
        self.all = ordered
        if ordered:
            self.active = ordered[-1]

    def _without(self, segments: Iterable[Segment]) -> list[Segment]:
        removed = set(segments)
        return [segment for segment in self.all if segment not in removed]

    def move_to(self, directory: str) -> None:
        """The files are in `directory` from now on, with all that is in memory written."""
        self._directory = directory
        self._factory = self._factory._replace(directory=directory)
        for segment in self.all:
            segment.move_to(directory)

    def release(self) -> None:
        """Drop all open files."""
        for segment in self.all:
            segment.release()

    # --- roll ------------------------------------------------------------------------------------------------------

    def is_roll_due(self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int) -> bool:
        """Whether an append of `size_bytes` has to go to a new segment. Raises OSError."""
        segment = self.active
        position = segment.size_bytes
        config = self._config
        if position + size_bytes > config.segment_bytes:
            return True
        if not position:
            return last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
        first_ms = segment.first_timestamp_ms
        if first_ms is None:
            first_ms = segment.roll_timestamp_ms()
        if first_ms >= 0 and max_timestamp_ms >= 0:
            waited_ms = max_timestamp_ms - first_ms
        else:
            waited_ms = now_ms - segment.created_ms
        return (
            waited_ms > config.segment_ms - segment.jitter_ms
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.offset_index.count >= self._offset_entries_max
            or segment.time_index.count >= self._time_entries_max
        )

    def roll(self, base_offset: int) -> None:
        """Close the active segment and begin one at the log's end, `base_offset`; nothing when it is there and empty.

        Raises OSError; the active segment stays the active one then.
        """
        old = self.active
        if old.size_bytes == 0 and old.base_offset == base_offset:
            return
        old.write_indexes(final=True)
        self._producers.take_snapshot(base_offset)
        new = self._new_segment(base_offset)
        if old.size_bytes == 0:
            self._replace(self._without([old]))
            self._deletes.schedule([old], due_at_seconds=self._clock.monotonic_seconds())
        self._replace([*self.all, new])
        old.close_to_appends()

    def _new_segment(self, base_offset: int) -> Segment:
        segment = self._factory.new(
            base_offset, now_ms=self._clock.wall_ms(), jitter_ms=self._config.segment_jitter_ms
        )
        self._unsynced.add_names()
        return segment

    # --- truncate and delete ---------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; where the log ends now. Raises OSError.

        `offset` is at or above the first segment's base offset. The log ends behind what is left. A batch at a damaged
        offset, which compaction's gaps make credible, may have stood for those before `offset`.
        """
        removed = [segment for segment in self.all if segment.base_offset > offset]
        self._replace(self._without(removed))
        self._deletes.schedule(removed, due_at_seconds=self._clock.monotonic_seconds())
        active = self.active
        active.open_to_appends()
        if active.truncate_to(offset):
            # The removed records must not reappear after a crash.
            active.file.sync()
        self._disk.sync_directory(self._directory)
        try:
            return min(offset, active.next_offset())
        except IndexDamagedError:
            return offset  # the next reader rebuilds it

    def restart_at(self, offset: int) -> None:
        """Remove all segments and begin with an empty one at `offset`. Raises OSError."""
        self._deletes.schedule(self.all, due_at_seconds=self._clock.monotonic_seconds())
        self._replace([self._new_segment(offset)])
        self._disk.sync_directory(self._directory)

    def remove(self, segments: Sequence[Segment]) -> None:
        """Take closed segments out of the list; `delete_files` is next."""
        self._replace(self._without(segments))

    def delete_files(self, segments: Sequence[Segment]) -> None:
        """Let the files of removed segments go after file.delete.delay.ms. Raises OSError."""
        self._deletes.schedule(segments, due_at_seconds=self._delete_due_seconds())

    def _delete_due_seconds(self) -> float:
        return self._clock.monotonic_seconds() + self._config.file_delete_delay_ms / 1000

    def pop_due_deletes(self, now_seconds: float) -> list[str]:
        """The files of deleted segments whose delay is over, for the caller to remove; each is returned once."""
        return self._deletes.pop_due(now_seconds)

    # --- swap ------------------------------------------------------------------------------------------------------

    def swap(self, replaced: Sequence[Segment], base_offsets: Sequence[int]) -> None:
        """Put the `.cleaned` segments at `base_offsets` in the place of `replaced`, a run of closed segments.

        `segment_swap` says what a crash leaves. Waits for the device a few times; the new files should be on it
        already. Raises ValueError when the new run cannot replace the old one, CorruptRecord when a new log file is
        damaged; nothing is changed then. Raises OSError.
        """
        now_ms = self._clock.wall_ms()
        swap = SegmentSwap(self._disk, self._directory, base_offsets)
        self._check_swap(replaced, base_offsets)
        old_end, new_end = end_of_run(replaced), end_of_run(swap.open_cleaned(now_ms=now_ms))
        if old_end != new_end:
            raise ValueError(
                f"segments of {self._directory} that end at {old_end} cannot be replaced by segments that end at "
                f"{new_end}. The last batch has to stay, if necessary without records."
            )
        swap.begin()
        self._deletes.schedule(
            replaced, due_at_seconds=self._delete_due_seconds(), keep_snapshots=frozenset(base_offsets)
        )
        self._disk.sync_directory(self._directory)
        files = swap.finish()
        new = [self._factory.from_files(base, files, now_ms=now_ms) for base in base_offsets]
        for segment in new:
            segment.close_to_appends()
        self._replace([*self._without(replaced), *new])
        self._unsynced.add_names()

    def _check_swap(self, replaced: Sequence[Segment], base_offsets: Sequence[int]) -> None:
        number = self.all.index(replaced[0]) if replaced and replaced[0] in self.all else len(self.all)
        after = number + len(replaced)
        if self.all[number:after] != tuple(replaced) or after >= len(self.all) or not replaced:
            raise ValueError(
                f"{list(replaced)} are not a run of closed segments of {self._directory} (any more)"
            )
        if (
            not base_offsets
            or base_offsets[0] != replaced[0].base_offset
            or base_offsets[-1] >= self._bases[after]
            or any(low >= high for low, high in pairwise(base_offsets))
        ):
            raise ValueError(
                f"base offsets {list(base_offsets)} have to rise from {replaced[0].base_offset} and stay below "
                f"{self._bases[after]} to replace segments of {self._directory}"
            )


class _DeferredDeletes:
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
