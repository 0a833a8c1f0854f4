"""The files of a log's directory as its listing has them: which belong to which segment, and segments made of them."""

from __future__ import annotations

from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.private_files import link_refused
from odradek.storage.files import DirectoryEntry, Disk
from odradek.storage.open_files import OpenFiles
from odradek.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)

Files = dict[str, DirectoryEntry]
"""Files by name."""


def list_files(disk: Disk, directory: str) -> Files:
    """The files of a log's directory. Raises OSError, also when one of a segment is a link."""
    files: Files = {}
    for entry in disk.entries(directory):
        if entry.is_link:
            if base_offset_of(entry.name) is not None:
                raise link_refused(f"{directory}/{entry.name}")
        elif not entry.is_directory:
            files[entry.name] = entry
    return files


def base_offset_of(name: str) -> int | None:
    """The offset in the name of a segment's file; None for other files."""
    stem, _, suffix = name.partition(".")
    return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() and suffix else None


class SegmentFactory(NamedTuple):
    """Makes the segments of one log's directory."""

    directory: str
    disk: Disk
    open_files: OpenFiles

    def new(self, base_offset: int, *, now_ms: int, jitter_ms: int = 0, suffix: str = "") -> Segment:
        """An empty segment; its log file takes the place of a leftover of that name. Raises OSError."""
        segment = Segment(*self, base_offset, now_ms=now_ms, jitter_ms=jitter_ms, suffix=suffix)
        segment.create()
        return segment

    def from_files(self, base_offset: int, files: Files, *, now_ms: int, suffix: str = "") -> Segment:
        """The segment whose log file is among the listed `files`."""
        stem = f"{base_offset:020d}"
        log = files[stem + LOG_SUFFIX + suffix]
        index = files.get(stem + INDEX_SUFFIX + suffix)
        times = files.get(stem + TIME_INDEX_SUFFIX + suffix)
        return Segment(
            *self,
            base_offset,
            now_ms=now_ms,
            size_bytes=log.size_bytes,
            index_bytes=index.size_bytes if index else 0,
            time_index_bytes=times.size_bytes if times else 0,
            has_transaction_index=stem + TRANSACTION_INDEX_SUFFIX + suffix in files,
            modified_ms=log.modified_ms,
            suffix=suffix,
        )
