"""The records of one call of a producer, before they are in batches: their bytes, and how many fit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import add

from odradek.records.builder import RECORD_OVERHEAD_BYTES_MAX
from odradek.records.record import Headers


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of a record's bytes in a batch, uncompressed."""
    size = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


class Incoming:
    """Records with one timestamp and the same headers.

    `keys` has one for each value; without it all have `key`.
    """

    __slots__ = ("_ends", "_overhead_bytes", "headers", "key", "keys", "values")

    def __init__(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None,
        key: bytes | None,
        headers: Headers,
    ) -> None:
        self.values = values
        self.keys = keys
        self.key = key
        self.headers = headers
        self._overhead_bytes = record_bytes(None if keys is not None else key, None, headers)
        # The end of each record's content, in bytes from the first record's beginning.
        lengths = _lengths(values) if keys is None else list(map(add, _lengths(values), _lengths(keys)))
        self._ends = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return len(self.values)

    def size_bytes(self, start: int, end: int) -> int:
        """An upper bound of the bytes of the records from `start` to `end` in a batch, uncompressed."""
        return self._ends[end] - self._ends[start] + (end - start) * self._overhead_bytes

    def fitting(self, start: int, room_bytes: int) -> int:
        """The end of the records from `start` on that fit in `room_bytes`; `start` if none fits."""
        ends = range(start + 1, len(self) + 1)
        return start + bisect_right(ends, room_bytes, key=lambda end: self.size_bytes(start, end))


def _lengths(parts: Sequence[bytes | None]) -> list[int]:
    if None in parts:
        return [0 if part is None else len(part) for part in parts]
    return list(map(len, parts))  # type: ignore[arg-type]
