"""Whole frames as the transport sends them: bytes, or bytes and ranges of files in order.

A range of a file stays one until the socket has room, so that a large answer costs no memory. What it leaves out: how a
frame is taken from a stream (`framing`), and how a range is sent (`network.sendfile`).
"""

from __future__ import annotations

from typing import Protocol


class SliceFile(Protocol):
    """An open file of which parts are read. `pread_cached` gives None for bytes that are not in the page cache."""

    def pread(self, position: int, size: int) -> bytes: ...

    def pread_cached(self, position: int, size: int) -> bytes | None: ...


class Slice(Protocol):
    """A range of a file that is part of an answer; `storage.files.FileSlice` is one.

    `read_cached` gives the bytes if that needs no wait for a device, else None; `read` may wait and raises OSError.
    Large slices are sent in parts, which are read from `file`. `fileno` is negative when there is nothing from which
    the kernel could send. `file` is None for an empty slice.
    """

    @property
    def size(self) -> int: ...

    @property
    def position(self) -> int: ...

    @property
    def file(self) -> SliceFile | None: ...

    def __len__(self) -> int: ...

    def fileno(self) -> int: ...

    def read(self) -> bytes: ...

    def read_cached(self) -> bytes | None: ...


Part = bytes | bytearray | memoryview | Slice
# A whole frame, its size included: bytes, or its parts in order.
Frame = bytes | bytearray | memoryview | list[Part]


def size_of(frame: Frame) -> int:
    return sum(map(len, frame)) if isinstance(frame, list) else len(frame)
