"""Replacing a run of segments by others, so that a crash leaves the old run or the new one, never a part of both.

The steps are Apache Kafka's (`LocalLog.replaceSegments` and `LogLoader`), so that either side completes a swap that the
other one began. `b` is a base offset of the new run.

    step  files                                              after a crash, the next start
    1     b.log.cleaned and its indexes are written          deletes them
    2     .cleaned -> .swap, highest b first, b.log last     deletes both while one .cleaned is left
    3     the old run's files -> .deleted                    deletes what is left of the old run, continues with step 4
    4     b.log.swap -> b.log, lowest b first, then indexes  renames the rest

A device may keep any of the renames that were not synced, so each step ends with a sync of the directory. The start
finds the old run by offsets: its base offsets lie between the lowest `b` and the end of the new run. So the new run has
to end where the old one ends, which `SegmentSet.swap` checks.

Kafka deletes stale `.cleaned` files before stale `.swap` files; a crash between would complete half a step 2. Here
`.swap` files go first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from odradek.foundation.errors import CorruptRecord
from odradek.storage.files import Disk
from odradek.storage.headers import headers
from odradek.storage.index import IndexDamagedError
from odradek.storage.open_files import OpenFiles
from odradek.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, Segment
from odradek.storage.segment_files import Files, SegmentFactory, base_offset_of, list_files

logger = logging.getLogger(__name__)

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, ".tmp")


def end_of_run(segments: Iterable[Segment]) -> int | None:
    """The offset after the last record of these segments, -1 for none. Raises OSError, CorruptRecord."""
    return max((_next_offset(segment) for segment in segments if segment.size_bytes), default=None)


def _next_offset(segment: Segment) -> int:
    try:
        return segment.next_offset()
    except (IndexDamagedError, CorruptRecord):
        # An index that names a position inside of a batch makes the log look damaged there.
        end = segment.base_offset
        for _, header in headers(segment.file, 0, segment.size_bytes):
            end = header.last_offset + 1
        return end


class SegmentSwap:
    """Steps 2 and 4 for the new segments at `base_offsets`, rising, in one directory. The caller does step 3."""

    def __init__(self, disk: Disk, directory: str, base_offsets: Sequence[int]) -> None:
        self._disk = disk
        self._directory = directory
        self._base_offsets = tuple(base_offsets)

    def open_cleaned(self, *, now_ms: int) -> list[Segment]:
        """The new segments as step 1 left them. Raises OSError, also when one has no log file."""
        files = list_files(self._disk, self._directory)
        factory = SegmentFactory(self._directory, self._disk, OpenFiles())
        found = []
        for base in self._base_offsets:
            name = f"{base:020d}{LOG_SUFFIX}{CLEANED_SUFFIX}"
            if name not in files:
                raise FileNotFoundError(f"{self._directory}/{name} is not there")
            found.append(factory.from_files(base, files, now_ms=now_ms, suffix=CLEANED_SUFFIX))
        return found

    def begin(self) -> None:
        """Step 2. Raises OSError."""
        files = list_files(self._disk, self._directory)
        for name in files:
            # A round that was given up left them. At a crash they would void this swap.
            if name.endswith(CLEANED_SUFFIX):
                base = base_offset_of(name)
                if base is not None and base < self._base_offsets[-1] and base not in self._base_offsets:
                    self._disk.remove(f"{self._directory}/{name}")
        for base in reversed(self._base_offsets):
            stems = [f"{base:020d}{suffix}" for suffix in reversed(SEGMENT_SUFFIXES)]
            paths = [f"{self._directory}/{stem}" for stem in stems if stem + CLEANED_SUFFIX in files]
            for path in paths:
                self._disk.open(path + CLEANED_SUFFIX).sync()
            for path in paths:
                self._disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
            self._disk.sync_directory(self._directory)

    def finish(self) -> Files:
        """Step 4; the directory's files afterwards. Raises OSError."""
        files = list_files(self._disk, self._directory)
        _rename_swapped(self._disk, self._directory, files)
        return files


def remove_cleaned(disk: Disk, directory: str) -> None:
    """Remove what a round wrote that has ended and swapped nothing more in. Raises OSError."""
    for name in list_files(disk, directory):
        if name.endswith(CLEANED_SUFFIX):
            disk.remove(f"{directory}/{name}")


def settle_files(disk: Disk, directory: str, *, now_ms: int) -> Files:
    """Undo or complete the swaps and deletions that a crash interrupted; the files that are left.

    Raises OSError, and CorruptRecord when a log file to swap in cannot be read; nothing of its run is deleted then.
    """
    files = list_files(disk, directory)
    cleaned = [name for name in files if name.endswith(CLEANED_SUFFIX)]
    bases = [base for base in map(base_offset_of, cleaned) if base is not None]
    incomplete = [
        name
        for name in files
        if bases and name.endswith(SWAP_SUFFIX) and (base_offset_of(name) or 0) >= min(bases)
    ]
    if incomplete:
        logger.warning("%s: a swap of segments that did not get far is undone: %s", directory, incomplete)
        _remove(disk, directory, files, incomplete)
        disk.sync_directory(directory)
    _remove(disk, directory, files, cleaned)
    _remove(disk, directory, files, [name for name in files if name.endswith(_LEFTOVER_SUFFIXES)])
    if any(name.endswith(SWAP_SUFFIX) for name in files):
        _remove_replaced(disk, directory, files, now_ms=now_ms)
        _rename_swapped(disk, directory, files)
    return files


def _remove_replaced(disk: Disk, directory: str, files: Files, *, now_ms: int) -> None:
    """Step 3, as far as it was not done."""
    names = [name for name in files if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    bases = sorted(base for base in map(base_offset_of, names) if base is not None)
    if not bases:
        return
    factory = SegmentFactory(directory, disk, OpenFiles())
    run = [factory.from_files(base, files, now_ms=now_ms, suffix=SWAP_SUFFIX) for base in bases]
    end = end_of_run(run) or bases[0]
    replaced = []
    for name in files:
        base = base_offset_of(name)
        if base is None or not (base in bases or bases[0] <= base < end):
            continue
        # The producers' state at the base offset of a new segment is what it was.
        if name.endswith(SEGMENT_SUFFIXES) or (name.endswith(SNAPSHOT_SUFFIX) and base not in bases):
            replaced.append(name)
    # The names of the new run are on the device before the old run is removed.
    disk.sync_directory(directory)
    logger.info("%s: a swap of segments is completed, %d old files go: %s", directory, len(replaced), names)
    _remove(disk, directory, files, replaced)
    disk.sync_directory(directory)


def _rename_swapped(disk: Disk, directory: str, files: Files) -> None:
    """Step 4. A log file's new name is on the device before the next one and the indexes get theirs.

    So no file of the new run that has its name already lies in the range of a `.log.swap` that is left.
    """
    swapped = sorted(name for name in files if name.endswith(SWAP_SUFFIX))
    logs = [name for name in swapped if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    for name in logs:
        _rename(disk, directory, files, name)
        disk.sync_directory(directory)
    for name in swapped:
        if name in files:
            _rename(disk, directory, files, name)


def _rename(disk: Disk, directory: str, files: Files, name: str) -> None:
    target = name.removesuffix(SWAP_SUFFIX)
    disk.rename(f"{directory}/{name}", f"{directory}/{target}")
    files[target] = files.pop(name)


def _remove(disk: Disk, directory: str, files: Files, names: Iterable[str]) -> None:
    for name in names:
        disk.remove(f"{directory}/{name}")
        del files[name]
