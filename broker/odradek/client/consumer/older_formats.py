"""Message sets of magic 0 and 1 in a fetch's answer, turned into batches of magic 2.

A topic that was written before Kafka 0.11, or with its message.format.version, has them, also beside newer batches.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from odradek.records.batch import LOG_OVERHEAD_BYTES, MAGIC_POSITION
from odradek.records.legacy import upconvert

_MAGIC_OF_BATCHES: Final = 2
_size_at = Struct(">i").unpack_from
_SIZE_POSITION: Final = 8


def modern_batches(data: memoryview) -> memoryview:
    """`data` itself if it has batches of magic 2 alone, as usual. Raises CorruptRecord for a damaged message.

    A last message that the size limit has truncated is left out, as `whole_batches` leaves out a batch.
    """
    entries = _entries(data)
    if all(magic >= _MAGIC_OF_BATCHES for _, _, magic in entries):
        return data
    parts = [
        data[start:end] if magic >= _MAGIC_OF_BATCHES else upconvert(data[start:end])
        for start, end, magic in entries
    ]
    return memoryview(b"".join(parts))


def _entries(data: memoryview) -> list[tuple[int, int, int]]:
    """Where each whole batch or message begins and ends, and its magic."""
    found: list[tuple[int, int, int]] = []
    position, size = 0, len(data)
    while size - position > MAGIC_POSITION:
        end = position + LOG_OVERHEAD_BYTES + _size_at(data, position + _SIZE_POSITION)[0]
        # What is damaged or truncated is left to the reader of batches.
        if not position + LOG_OVERHEAD_BYTES < end <= size:
            break
        found.append((position, end, data[position + MAGIC_POSITION]))
        position = end
    return found
