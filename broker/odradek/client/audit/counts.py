"""Counts of records with sums that do not depend on order: what two tiers compare for one window of a partition.

A record's digest is the first 60 bits of the MD5 of these bytes, as texts with lengths in front and -1 for null:

    TIMESTAMP_MS:KEY_BYTES:keyVALUE_BYTES:valueHEADER_COUNT:NAME_BYTES:nameVALUE_BYTES:value…

MD5 guards against accidents here, not against attackers. Spark SQL, Java and every other language have it. The XOR of
the digests finds loss and swaps; the sum modulo 2^60 finds an even number of duplicates, which XOR hides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import md5
from typing import Final

DIGEST_BITS: Final = 60
_DIGEST_MASK: Final = (1 << DIGEST_BITS) - 1


def digest(
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> int:
    parts = [b"%d:" % timestamp_ms, *_with_size(key), *_with_size(value)]
    named = list(headers)
    parts.append(b"%d:" % len(named))
    for name, content in named:
        parts += _with_size(name.encode())
        parts += _with_size(content)
    hashed = md5(b"".join(parts), usedforsecurity=False).digest()
    return int.from_bytes(hashed[:8], "big") >> (64 - DIGEST_BITS)


def _with_size(part: bytes | None) -> tuple[bytes, bytes]:
    return (b"-1:", b"") if part is None else (b"%d:" % len(part), part)


@dataclass(slots=True)
class Counts:
    """Records of one window of one partition. `size_bytes` is of keys and values.

    Offsets are -1 where none is known. `late` are records that came after their producer's promise.
    """

    count: int = 0
    size_bytes: int = 0
    xor_hash: int = 0
    sum_hash: int = 0
    first_offset: int = -1
    last_offset: int = -1
    late: int = 0

    def add(self, size_bytes: int, digest_: int, offset: int = -1, *, is_late: bool = False) -> None:
        self.count += 1
        self.size_bytes += size_bytes
        self.xor_hash ^= digest_
        self.sum_hash = (self.sum_hash + digest_) & _DIGEST_MASK
        self.late += is_late
        self._span(offset, offset)

    def merge(self, other: Counts) -> None:
        """Add what another one has counted: records that this one has not."""
        self.count += other.count
        self.size_bytes += other.size_bytes
        self.xor_hash ^= other.xor_hash
        self.sum_hash = (self.sum_hash + other.sum_hash) & _DIGEST_MASK
        self.late += other.late
        self._span(other.first_offset, other.last_offset)

    def _span(self, first: int, last: int) -> None:
        if first >= 0:
            self.first_offset = first if self.first_offset < 0 else min(first, self.first_offset)
            self.last_offset = max(last, self.last_offset)

    def is_same(self, other: Counts) -> bool:
        """Whether both counted the same records, as far as hashes say."""
        return (self.count, self.xor_hash, self.sum_hash) == (other.count, other.xor_hash, other.sum_hash)


def window_start(timestamp_ms: int, window_ms: int) -> int:
    """The beginning of the window that a time lies in, in milliseconds since 1970."""
    return timestamp_ms - timestamp_ms % window_ms
