"""Snapshots of producer state, `<offset>.snapshot` beside the segments, in Apache Kafka's binary format.

    0   int16   version, 1
    2   uint32  CRC-32C of everything from byte 6 on
    6   int32   number of entries, then for each
        int64   producer id
        int16   producer epoch
        int32   last sequence            -1: no batch kept
        int64   last offset              -1: no batch kept
        int32   offset delta             last offset minus first offset of that batch
        int64   timestamp                ms, of that batch or marker
        int32   coordinator epoch        of the last marker, -1: none
        int64   first offset of the open transaction, -1: none

The name's offset is the log's end when it was taken: state of all batches below, none at or above it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from odradek.foundation.errors import KafkaStorageError
from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.files import Disk
from odradek.wire.records.checksum import crc32c

SUFFIX: Final = ".snapshot"
VERSION: Final = 1

_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class SnapshotDamagedError(KafkaStorageError):
    """A snapshot whose length, version or CRC is wrong. It is removed, and batches are replayed instead."""


class SnapshotEntry(NamedTuple):
    """One producer, as the file has it; see the module's layout."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """The whole file."""
    packed = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, *, name: str) -> list[SnapshotEntry]:
    """The producers in a file. Raises SnapshotDamagedError, whose message begins with `name`."""
    if len(data) < _PREFIX.size + _COUNT.size:
        raise SnapshotDamagedError(f"{name} has {len(data)} bytes, fewer than a snapshot's front")
    version, checksum = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise SnapshotDamagedError(f"{name} has the version {version}; only {VERSION} is known")
    body = memoryview(data)[_PREFIX.size :]
    if crc32c(body) != checksum:
        raise SnapshotDamagedError(f"{name} has a checksum that its contents do not have")
    (count,) = _COUNT.unpack_from(body)
    if count < 0 or len(body) - _COUNT.size != count * _ENTRY.size:
        raise SnapshotDamagedError(f"{name} announces {count} producers in {len(body) - _COUNT.size} bytes")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def snapshot_name(offset: int) -> str:
    """The file's name for a log that ended at `offset`."""
    return f"{offset:020d}{SUFFIX}"


def snapshot_offset(name: str) -> int | None:
    """The offset in a file's name; None when it is no snapshot's name."""
    stem = name.removesuffix(SUFFIX)
    return int(stem) if stem != name and stem.isascii() and stem.isdigit() else None


class SnapshotFiles:
    """The snapshots in one partition's directory."""

    def __init__(self, *, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def move_to(self, directory: str) -> None:
        """The snapshots are in `directory` from now on. Those that are not there are replayed from the log."""
        self._directory = directory

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{snapshot_name(offset)}"

    def offsets(self) -> list[int]:
        """The offsets of all that are there, in no order. Raises OSError."""
        found = (snapshot_offset(entry.name) for entry in self._disk.entries(self._directory))
        return [offset for offset in found if offset is not None]

    def write(self, offset: int, entries: Iterable[SnapshotEntry]) -> None:
        """Write one, in place of an older one of the same offset; a flush syncs it. Raises OSError."""
        self._disk.replace(self._path(offset), encode_snapshot(entries), sync=False)

    def read(self, offset: int) -> list[SnapshotEntry]:
        """The producers in one. Raises SnapshotDamagedError, OSError."""
        path = self._path(offset)
        return decode_snapshot(self._disk.read(path), name=path)

    def remove(self, offset: int) -> None:
        """Remove one; it need not be there. A log does so when it deletes the segment that begins there."""
        self._disk.remove(self._path(offset))
