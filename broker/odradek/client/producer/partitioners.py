"""Chooses the partition of a record.

Records with a key go by murmur2 of the key, exactly as in Java's client. So every Kafka client picks the same partition
for a key. Records without a key stick to one partition until its batch is full, because full batches cost the broker
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random

from odradek.foundation.client_limits import PRODUCER_KEYS_REMEMBERED_MAX

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_KEY_BYTES_REMEMBERED = 64


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 of Kafka's Java client, as an unsigned number."""
    length = len(data)
    digest = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        k = (int.from_bytes(data[position : position + 4], "little") * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        digest = ((digest * _M) & _MASK) ^ k
    tail = data[whole:]
    if tail:
        digest = ((digest ^ int.from_bytes(tail, "little")) * _M) & _MASK
    digest = ((digest ^ (digest >> 13)) * _M) & _MASK
    return digest ^ (digest >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key among `partition_count`."""
    if partition_count == 1:
        return 0
    digest = _remembered_murmur2(key) if len(key) <= _KEY_BYTES_REMEMBERED else murmur2(key)
    return (digest & 0x7FFFFFFF) % partition_count


_remembered_murmur2 = lru_cache(PRODUCER_KEYS_REMEMBERED_MAX)(murmur2)


class StickyPartitioner:
    """The partition of records without a key: one at a time, a random other one after each batch."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current: dict[str, int] = {}

    def partition(self, topic: str, available: Sequence[int]) -> int:
        """The present partition of `topic`, out of those with a leader."""
        current = self._current.get(topic)
        if current is None or current not in available:
            current = available[self._random.randrange(len(available))]
            self._current[topic] = current
        return current

    def batch_full(self, topic: str, partition: int, available: Sequence[int]) -> None:
        """Choose another partition next: the batch of this one is full or in flight."""
        if self._current.get(topic) != partition:
            return
        others = [other for other in available if other != partition]
        if others:
            self._current[topic] = others[self._random.randrange(len(others))]
