"""Finds in a log what a snapshot of producer states lacks: the batches before each producer's last.

A client may have five batches in flight. When their leader fails before it has answered, the client sends all of them
again. The next leader may know that producer from a snapshot alone: after a clean stop, a roll, or a truncation. Apache
Kafka's snapshots, which these are, have one batch for each producer. Kafka answers OutOfOrderSequence to the older
ones, and librdkafka ends with a fatal error. The log has them, mostly close to its end, so it is searched once for each
producer.

Left out: batches further back than a few megabytes. A producer with that much in flight is refused, as with Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from odradek.storage.sequences import AppendedBatch
from odradek.wire.records.batch import HEADER_BYTES, BatchHeader, read_header

# Offsets to go back by at first; each step is as long as all before it, so that nearby batches cost one read.
_STEP_OFFSETS: Final = 256
_READ_BYTES_MAX: Final = 1024 * 1024
SEARCHED_BYTES_MAX: Final = 4 * 1024 * 1024

Read = Callable[[int, int], bytes]
"""(offset, most bytes) -> batches from the one that holds the offset, the last perhaps torn; b"" at the end."""


def older_batches(
    read: Read, *, producer_id: int, producer_epoch: int, below_offset: int, floor_offset: int, count_max: int
) -> list[AppendedBatch]:
    """The last `count_max` batches of a producer in its epoch between the two offsets, in the log's order. They are
    fewer where the search would pass its bound. Raises what `read` raises.
    """
    found: list[AppendedBatch] = []
    bytes_left = SEARCHED_BYTES_MAX
    end, step = below_offset, _STEP_OFFSETS
    while end > floor_offset and len(found) < count_max and bytes_left > 0:
        begin = position = max(end - step, floor_offset)
        here: list[AppendedBatch] = []
        while position < end and bytes_left > 0:
            data = read(position, min(_READ_BYTES_MAX, bytes_left))
            bytes_left -= max(len(data), 1)
            for header in _headers(data):
                position = header.last_offset + 1
                if header.base_offset >= end:
                    break
                begin = min(begin, header.base_offset)
                is_theirs = (header.producer_id, header.producer_epoch) == (producer_id, producer_epoch)
                if is_theirs and not header.is_control:
                    here.append(
                        AppendedBatch(
                            header.last_sequence,
                            header.last_offset,
                            header.last_offset_delta,
                            header.max_timestamp_ms,
                        )
                    )
            if not data:
                break
        found[:0] = here
        end, step = begin, 2 * step
    return found[-count_max:]


def _headers(data: bytes) -> Iterator[BatchHeader]:
    """Of all batches in `data`, the last of which may be torn."""
    position = 0
    while position + HEADER_BYTES <= len(data):
        header = read_header(data, position)
        yield header
        position += header.size_bytes
