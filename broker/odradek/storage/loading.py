"""Opens a partition's directory: which segments there are, where the log starts and ends, which producers wrote to it.

After a clean stop it reads names and sizes, the last few kilobytes of the last segment, and the newest producer
snapshot. Where these contradict each other, it reads the part concerned from the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.checkpoints import CheckpointDamagedError
from odradek.storage.config import LogConfig
from odradek.storage.epochs import FILE_NAME as EPOCHS_FILE
from odradek.storage.epochs import LeaderEpochs
from odradek.storage.files import Disk
from odradek.storage.headers import headers
from odradek.storage.index import OFFSET_ENTRY, TIME_ENTRY, IndexDamagedError
from odradek.storage.log_offsets import LogOffsets
from odradek.storage.open_files import OpenFiles
from odradek.storage.producer_rules import ProducerRules
from odradek.storage.producer_snapshots import SnapshotFiles, snapshot_offset
from odradek.storage.producers import ProducerStates
from odradek.storage.recovery import first_to_scan, rebuild_indexes, recover, replay_producers
from odradek.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
)
from odradek.storage.segment_files import Files, SegmentFactory, base_offset_of
from odradek.storage.segment_swap import settle_files

logger = logging.getLogger(__name__)


class LoadedLog(NamedTuple):
    """A log's parts, ready to be used."""

    segments: list[Segment]
    offsets: LogOffsets
    epochs: LeaderEpochs
    producers: ProducerStates
    bytes_scanned: int = 0
    bytes_truncated: int = 0


class LogLoader:
    """Reads one partition's directory."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        *,
        config: LogConfig,
        disk: Disk,
        open_files: OpenFiles,
        now_ms: int,
        producer_rules: ProducerRules | None,
        on_loss: Callable[[], None] | None,
    ) -> None:
        """`on_loss` is called before anything is removed that other replicas may rely on."""
        self._directory = directory
        self._on_loss = on_loss or (lambda: None)
        self._name = str(topic_partition)
        self._config = config
        self._disk = disk
        self._factory = SegmentFactory(directory, disk, open_files)
        self._now_ms = now_ms
        # Base offsets of the segments whose indexes are absent or cannot be right.
        self._unindexed: set[int] = set()
        # What a scan found out about producers, by base offset.
        self._tails: dict[int, list[int]] = {}
        self._producers = ProducerStates(
            topic_partition, files=SnapshotFiles(disk=disk, directory=directory), rules=producer_rules
        )

    def load(self, *, log_start_offset: int, recovery_point: int, clean: bool) -> LoadedLog:
        """`log_start_offset` and `recovery_point` are as checkpointed. Raises OSError, CorruptRecord."""
        files = settle_files(self._disk, self._directory, now_ms=self._now_ms)
        segments = self._segments(files)
        epochs, epochs_known = self._epochs()
        scanned = truncated = 0
        first_scanned: int | None = None
        if segments and not clean:
            first_scanned = segments[first_to_scan(segments, recovery_point)].base_offset
            done = recover(
                segments,
                recovery_point=recovery_point,
                config=self._config,
                epochs=epochs,
                name=self._name,
                on_loss=self._on_loss,
            )
            segments, scanned, truncated = done.kept, done.bytes_scanned, done.bytes_truncated
            self._tails = done.producer_tails
            for segment in done.removed:
                self._remove(segment)
            self._unindexed = {base for base in self._unindexed if base < first_scanned}
            _forget_aborts(segments, first_scanned)
        for segment in segments:
            if segment.base_offset in self._unindexed:
                rebuild_indexes(segment, config=self._config, name=self._name, why="a file is absent or torn")
                scanned += segment.size_bytes
        if not segments:
            segments = [self._factory.new(log_start_offset, now_ms=self._now_ms)]
        end, scanned_again, truncated_again = self._end(segments, epochs)
        scanned += scanned_again
        truncated += truncated_again
        log_start_offset = max(log_start_offset, segments[0].base_offset)
        if end < log_start_offset:
            logger.error(
                "%s: the log ends at %d, below its checkpointed start %d: what it holds is removed",
                self._name,
                end,
                log_start_offset,
            )
            self._on_loss()
            for segment in segments:
                self._remove(segment)
            segments = [self._factory.new(log_start_offset, now_ms=self._now_ms)]
            end = log_start_offset
        if not epochs_known:
            self._read_epochs(segments, epochs)
        epochs.truncate_from_end(end)
        epochs.truncate_from_start(log_start_offset)
        span = (log_start_offset, end)
        self._load_producers(segments, files, span, snapshot_offset_max=first_scanned, clean=clean)
        for segment in segments[:-1]:
            # A broker with many logs keeps no files open that it does not need.
            segment.release()
        offsets = LogOffsets(
            log_start_offset=log_start_offset,
            recovery_point=end if clean and not truncated else min(recovery_point, end),
            log_end_offset=end,
        )
        return LoadedLog(segments, offsets, epochs, self._producers, scanned, truncated)

    def _segments(self, files: Files) -> list[Segment]:
        bases = []
        for name in files:
            base = base_offset_of(name)
            if base is None:
                continue
            if name.endswith(LOG_SUFFIX):
                bases.append(base)
            elif name.endswith(SEGMENT_SUFFIXES) and name[:20] + LOG_SUFFIX not in files:
                logger.warning("%s: %s has no log file and is removed", self._name, name)
                self._disk.remove(f"{self._directory}/{name}")
        return [self._segment(base, files) for base in sorted(bases)]

    def _segment(self, base: int, files: Files) -> Segment:
        segment = self._factory.from_files(base, files, now_ms=self._now_ms)
        index = files.get(f"{base:020d}{INDEX_SUFFIX}")
        times = files.get(f"{base:020d}{TIME_INDEX_SUFFIX}")
        whole = (
            index is not None
            and times is not None
            and index.size_bytes % OFFSET_ENTRY.size == 0
            and times.size_bytes % TIME_ENTRY.size == 0
        )
        if not whole and segment.size_bytes:
            self._unindexed.add(base)
        return segment

    def _remove(self, segment: Segment) -> None:
        segment.release()
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
            self._disk.remove(segment.path + suffix)

    def _end(self, segments: list[Segment], epochs: LeaderEpochs) -> tuple[int, int, int]:
        """The log's end, and how many bytes had to be read in full to learn it, and were truncated."""
        active = segments[-1]
        try:
            return active.next_offset(), 0, 0
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
            on_loss=self._on_loss,
        )
        if done.bytes_truncated:
            active.transaction_index.truncate(done.next_offset)
        return done.next_offset, size_bytes, done.bytes_truncated

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
        self,
        segments: list[Segment],
        files: Files,
        span: tuple[int, int],
        *,
        snapshot_offset_max: int | None,
        clean: bool,
    ) -> None:
        start, end = span
        listed = (snapshot_offset(name) for name in files)
        snapshots = [offset for offset in listed if offset is not None]
        from_offset = self._producers.reload(
            log_start_offset=start,
            log_end_offset=end,
            now_ms=self._now_ms,
            # Recovery may have removed some; after a clean stop the list is still true.
            snapshots=snapshots if clean else None,
            snapshot_offset_max=snapshot_offset_max,
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


def _forget_aborts(segments: list[Segment], first_scanned: int) -> None:
    """A loss of power may have left less of a transaction index than of its log. The replay writes all of it again."""
    for segment in segments:
        if segment.base_offset >= first_scanned:
            segment.transaction_index.truncate(0)
