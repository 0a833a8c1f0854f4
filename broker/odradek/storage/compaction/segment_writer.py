"""Writes the segments that replace a run of old ones, as `.cleaned` files with their indexes.

The new files are on the device, with the time of their last source, when `finish` returns. One old run becomes one new
segment, unless its batches grow beyond segment.bytes by being compressed again.
"""

from __future__ import annotations

from typing import Final

from odradek.storage.files import Disk
from odradek.storage.headers import header_at
from odradek.storage.open_files import OpenFiles
from odradek.storage.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, Segment
from odradek.storage.segment_files import SegmentFactory
from odradek.storage.segment_swap import CLEANED_SUFFIX
from odradek.storage.transaction_index import AbortedTxn
from odradek.wire.records.batch import Buffer

_UNWRITTEN_BYTES_MAX: Final = 1 << 20


class SegmentWriter:
    """The new segments of one run, from `base_offset` on."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        segment_bytes: int,
        index_interval_bytes: int,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._index_interval_bytes = index_interval_bytes
        self._now_ms = now_ms
        self._factory = SegmentFactory(directory, disk, OpenFiles())
        self._done: list[Segment] = []
        self._parts: list[Buffer] = []
        self._unwritten_bytes = 0
        self._next_offset = base_offset
        self._segment = self._new(base_offset)

    @property
    def base_offsets(self) -> tuple[int, ...]:
        """Of all new segments so far."""
        return tuple(segment.base_offset for segment in (*self._done, self._segment))

    def append(self, batch: Buffer, aborted: AbortedTxn | None) -> int:
        """Write a batch; `aborted` is the transaction that it ends. Returns how many records it has. Raises OSError."""
        header = header_at(batch, 0)
        segment = self._segment
        size = len(batch)
        if segment.size_bytes and segment.size_bytes + size > self._segment_bytes:
            self._write()
            self._done.append(segment)
            # Where the one before ends: a scan after a loss of power relies on it.
            segment = self._segment = self._new(self._next_offset)
        self._next_offset = header.last_offset + 1
        self._parts.append(batch)
        self._unwritten_bytes += size
        segment.note_batch(
            segment.size_bytes, size, header.last_offset, header.max_timestamp_ms, self._index_interval_bytes
        )
        if aborted is not None:
            segment.transaction_index.append(aborted)
        if self._unwritten_bytes >= _UNWRITTEN_BYTES_MAX:
            self._write()
        return header.record_count

    def finish(self, *, modified_ms: int, is_cached: bool) -> None:
        """Sync all to the device. `is_cached` says that readers may soon ask for it. Raises OSError."""
        self._write()
        for segment in (*self._done, self._segment):
            segment.write_indexes(final=True)
            for suffix in SEGMENT_SUFFIXES:
                path = segment.path + suffix + CLEANED_SUFFIX
                if self._disk.exists(path):
                    self._disk.open(path).sync()
            self._disk.set_modified(segment.path + LOG_SUFFIX + CLEANED_SUFFIX, modified_ms)
            if not is_cached:
                segment.file.drop_cached()
            segment.release()

    def discard(self) -> None:
        """Remove what was written. Raises OSError."""
        for segment in (*self._done, self._segment):
            segment.release()
            for suffix in SEGMENT_SUFFIXES:
                self._disk.remove(segment.path + suffix + CLEANED_SUFFIX)

    def _new(self, base_offset: int) -> Segment:
        stem = f"{self._directory}/{base_offset:020d}"
        for suffix in SEGMENT_SUFFIXES:
            # A round that was given up left them.
            self._disk.remove(stem + suffix + CLEANED_SUFFIX)
        return self._factory.new(base_offset, now_ms=self._now_ms, suffix=CLEANED_SUFFIX)

    def _write(self) -> None:
        if self._parts:
            self._segment.file.append(b"".join(self._parts))
            self._parts.clear()
            self._unwritten_bytes = 0
        self._segment.write_indexes(final=False)
