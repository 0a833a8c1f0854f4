"""Opens a partition's directory: which segments there are, where the log starts and ends, who wrote to it.

After a clean stop only names and sizes are read, the last few kilobytes of the last segment, and the newest producer
snapshot. Anything that does not fit together makes the part concerned be read anew rather than be believed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.log.checkpoints import CheckpointDamagedError
from odradek.log.config import LogConfig
from odradek.log.epochs import FILE_NAME as EPOCHS_FILE
from odradek.log.epochs import LeaderEpochs
from odradek.log.files import DirectoryEntry, Disk
from odradek.log.headers import headers
from odradek.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexDamagedError
from odradek.log.producer_snapshots import SnapshotFiles, snapshot_offset
from odradek.log.producers import ProducerStates
from odradek.log.recovery import first_to_scan, rebuild_indexes, recover, replay_producers
from odradek.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)

logger = logging.getLogger(__name__)

_SWAP_SUFFIX = ".swap"
_LEFTOVER_SUFFIXES = (DELETED_SUFFIX, ".cleaned", ".tmp")


@dataclass(slots=True, kw_only=True)
class Loaded:
    """A log's parts, ready to be used."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    bytes_scanned: int = 0
    bytes_cut: int = 0


class Loader:
    """Reads one partition's directory."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: LogConfig,
        disk: Disk,
        now_ms: int,
        producer_expiration_ms: int,
    ) -> None:
        self._directory = directory
        self._name = str(topic_partition)
        self._config = config
        self._disk = disk
        self._now_ms = now_ms
        # Base offsets of the segments whose indexes are absent or cannot be right.
        self._unindexed: set[int] = set()
        # What a scan found out about producers, by base offset.
        self._tails: dict[int, list[int]] = {}
        self._producers = ProducerStates(
            topic_partition,
            files=SnapshotFiles(disk=disk, directory=directory),
            expiration_ms=producer_expiration_ms,
        )

    def load(self, *, log_start_offset: int, recovery_point: int, clean: bool) -> Loaded:
        """`log_start_offset` and `recovery_point` are as checkpointed. Raises OSError, CorruptRecord."""
        files = self._settle_leftovers()
        segments = self._segments(files)
        epochs, epochs_known = self._epochs()
        scanned = cut = 0
        if segments and not clean:
            first_scanned = segments[first_to_scan(segments, recovery_point)].base_offset
            done = recover(
                segments, recovery_point=recovery_point, config=self._config, epochs=epochs, name=self._name
            )
            segments, scanned, cut = done.kept, done.bytes_scanned, done.bytes_cut
            self._tails = done.producer_tails
            for segment in done.removed:
                self._remove(segment)
            self._unindexed = {base for base in self._unindexed if base < first_scanned}
        for segment in segments:
            if segment.base_offset in self._unindexed:
                rebuild_indexes(segment, config=self._config, name=self._name, why="a file is absent or torn")
                scanned += segment.size_bytes
        if not segments:
            segments = [self._new_segment(log_start_offset)]
        end, more = self._end(segments, epochs)
        scanned += more
        log_start_offset = max(log_start_offset, segments[0].base_offset)
        if end < log_start_offset:
            logger.error(
                "%s: the log ends at %d, below its checkpointed start %d: what it holds is removed",
                self._name,
                end,
                log_start_offset,
            )
            for segment in segments:
                self._remove(segment)
            segments, end = [self._new_segment(log_start_offset)], log_start_offset
        if not epochs_known:
            self._read_epochs(segments, epochs)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(log_start_offset)
        self._load_producers(segments, files, start=log_start_offset, end=end, clean=clean)
        for segment in segments[:-1]:
            # Whatever had to be read of them is: a broker with many logs keeps no files open that it does not need.
            segment.release()
        return Loaded(
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=end,
            recovery_point=end if clean and not cut else min(recovery_point, end),
            epochs=epochs,
            producers=self._producers,
            bytes_scanned=scanned,
            bytes_cut=cut,
        )

    def _settle_leftovers(self) -> dict[str, DirectoryEntry]:
        """Finish or undo what a crash interrupted; the files that are left, by name."""
        files = {entry.name: entry for entry in self._disk.entries(self._directory) if not entry.is_directory}
        swaps = [name for name in files if name.endswith(_SWAP_SUFFIX)]
        for name in list(files):
            if name.endswith(_LEFTOVER_SUFFIXES):
                self._disk.remove(f"{self._directory}/{name}")
                del files[name]
        for name in swaps:
            # A finished compaction that was about to take its segments' place: its data is whole, its range is
            # from its own base offset to its last offset, and the segments that it replaces lie inside.
            files[name.removesuffix(_SWAP_SUFFIX)] = files.pop(name)
        if swaps:
            self._take_swaps(swaps, files)
        return files

    def _take_swaps(self, swaps: list[str], files: dict[str, DirectoryEntry]) -> None:
        for name in swaps:
            target = name.removesuffix(_SWAP_SUFFIX)
            self._disk.rename(f"{self._directory}/{name}", f"{self._directory}/{target}")
        for name in swaps:
            target = name.removesuffix(_SWAP_SUFFIX)
            base = _base_offset(target)
            if base is None or not target.endswith(LOG_SUFFIX) or not files[target].size_bytes:
                continue
            swapped = self._segment(base, files)
            end = swapped.base_offset
            for _, header in headers(swapped.file, 0, swapped.size_bytes):
                end = header.last_offset + 1
            for other in [one for one in files if one.endswith(LOG_SUFFIX)]:
                other_base = _base_offset(other)
                if other_base is not None and base < other_base < end:
                    for suffix in SEGMENT_SUFFIXES:
                        stem = other.removesuffix(LOG_SUFFIX)
                        if files.pop(stem + suffix, None) is not None:
                            self._disk.remove(f"{self._directory}/{stem}{suffix}")

    def _segments(self, files: dict[str, DirectoryEntry]) -> list[Segment]:
        bases = []
        for name in files:
            base = _base_offset(name)
            if base is None:
                continue
            if name.endswith(LOG_SUFFIX):
                bases.append(base)
            elif name.endswith(SEGMENT_SUFFIXES) and name[:20] + LOG_SUFFIX not in files:
                logger.warning("%s: %s has no log file and is removed", self._name, name)
                self._disk.remove(f"{self._directory}/{name}")
        return [self._segment(base, files) for base in sorted(bases)]

    def _segment(self, base: int, files: dict[str, DirectoryEntry]) -> Segment:
        stem = f"{base:020d}"
        log = files[stem + LOG_SUFFIX]
        index = files.get(stem + INDEX_SUFFIX)
        times = files.get(stem + TIME_INDEX_SUFFIX)
        segment = Segment(
            self._directory,
            base,
            disk=self._disk,
            now_ms=self._now_ms,
            size_bytes=log.size_bytes,
            index_bytes=index.size_bytes if index else 0,
            time_index_bytes=times.size_bytes if times else 0,
            has_transaction_index=stem + TRANSACTION_INDEX_SUFFIX in files,
            modified_ms=log.modified_ms,
        )
        whole = (
            index is not None
            and times is not None
            and index.size_bytes % OFFSET_ENTRY.size == 0
            and times.size_bytes % TIME_ENTRY.size == 0
        )
        if not whole and log.size_bytes:
            self._unindexed.add(base)
        return segment

    def _new_segment(self, base: int) -> Segment:
        segment = Segment(self._directory, base, disk=self._disk, now_ms=self._now_ms)
        segment.create()
        return segment

    def _remove(self, segment: Segment) -> None:
        segment.release()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            self._disk.remove(segment.path + suffix)

    def _end(self, segments: list[Segment], epochs: LeaderEpochs) -> tuple[int, int]:
        """The log's end, and how many bytes had to be read in full to learn it."""
        active = segments[-1]
        try:
            return active.next_offset(), 0
        except (IndexDamagedError, CorruptRecord) as error:
            logger.warning(
                "%s: %s.log is scanned although it was closed cleanly: %s", self._name, active.path, error
            )
        size_bytes = active.size_bytes
        done = recover(
            segments,
            recovery_point=active.base_offset + 1,
            config=self._config,
            epochs=epochs,
            name=self._name,
        )
        return done.next_offset, size_bytes

    def _epochs(self) -> tuple[LeaderEpochs, bool]:
        path = f"{self._directory}/{EPOCHS_FILE}"
        try:
            return LeaderEpochs.load(disk=self._disk, path=path), True
        except CheckpointDamagedError as error:
            logger.warning("%s: the leader epochs are read from the log: %s", self._name, error)
            return LeaderEpochs(disk=self._disk, path=path), False

    def _read_epochs(self, segments: list[Segment], epochs: LeaderEpochs) -> None:
        for segment in segments:
            for _, header in headers(segment.file, 0, segment.size_bytes):
                if header.leader_epoch > epochs.latest_epoch:
                    epochs.assign(epoch=header.leader_epoch, start_offset=header.base_offset)

    def _load_producers(
        self, segments: list[Segment], files: dict[str, DirectoryEntry], *, start: int, end: int, clean: bool
    ) -> None:
        listed = (snapshot_offset(name) for name in files)
        snapshots = [offset for offset in listed if offset is not None]
        from_offset = self._producers.reload(
            log_start_offset=start,
            log_end_offset=end,
            now_ms=self._now_ms,
            # Recovery may have removed some; after a clean stop nobody has to look again.
            snapshots=snapshots if clean else None,
        )
        if from_offset >= end or (clean and not snapshots):
            return
        replay_producers(
            segments,
            self._producers,
            from_offset=from_offset,
            now_ms=self._now_ms,
            rebuild_aborts=not clean,
            tails=self._tails,
        )


def _base_offset(name: str) -> int | None:
    """The offset in the name of a segment's file; None for other files."""
    stem, _, suffix = name.partition(".")
    return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() and suffix else None
