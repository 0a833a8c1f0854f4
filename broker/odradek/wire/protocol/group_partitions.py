"""Which partition of `__consumer_offsets` holds a group: what the broker serves by, and clients look up.

Source: Apache Kafka, `GroupCoordinatorService.partitionFor`.
"""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, in 32 bits with a sign."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partition_count: int) -> int:
    """The partition of the offsets topic that holds the group, as Kafka computes it: its hash without the sign."""
    value = java_hash(group_id)
    return 0 if value == -(1 << 31) else abs(value) % partition_count
