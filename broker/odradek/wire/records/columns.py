"""The records of many batches as columns: where each begins, its key, its value, its offset.

Only the length of a record says where the next one begins. So the loop takes one step in all batches at once, which
costs as many steps as the longest batch has records. The rest is decoded for all records together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from odradek.foundation.errors import CorruptRecord
from odradek.wire.records.batch import BatchHeader

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Fewer batches than this at once, and a plain loop is faster.
_BATCHES_AT_ONCE_MIN: Final = 16
# The shortest record: seven fields of one byte.
_RECORD_BYTES_MIN: Final = 7
_PADDING: Final = bytes(16)

Buffer = bytes | bytearray | memoryview


class RecordColumns:
    """One element for each record, in the order of offsets. Raises CorruptRecord when the records cannot be read.

    `payloads` are the records of each batch, decompressed, and `headers` the headers of these batches. A key or value
    of the size -1 is null. `headers_start` is where the number of a record's headers is.
    """

    def __init__(self, payloads: Sequence[Buffer], headers: Sequence[BatchHeader]) -> None:
        sizes = np.fromiter((len(one) for one in payloads), np.int64, len(payloads))
        self.data = b"".join([*payloads, _PADDING])
        self._bytes = np.frombuffer(self.data, np.uint8)
        ends = np.cumsum(sizes)
        counts = np.fromiter((header.record_count for header in headers), np.int64, len(headers))
        if (counts < 0).any() or (counts * _RECORD_BYTES_MIN > sizes).any():
            raise CorruptRecord(
                f"a batch between the offsets {headers[0].base_offset} and {headers[-1].last_offset} has "
                "fewer bytes than its number of records takes"
            )
        self.counts = counts
        self._name = (headers[0].base_offset, headers[-1].last_offset)
        self.batch = np.repeat(np.arange(len(headers)), counts)
        total = len(self.batch)
        self.start: Ints = np.empty(total, np.int64)
        self._body: Ints = np.empty(total, np.int64)
        self.end: Ints = np.empty(total, np.int64)
        self._walk(ends - sizes, ends, counts)
        self._decode(headers)

    def __len__(self) -> int:
        return len(self.batch)

    def _walk(self, starts: Ints, ends: Ints, counts: Ints) -> None:
        """Find where each record begins and ends, one step in all batches at once."""
        order = np.argsort(-counts, kind="stable")
        position, end = starts[order], ends[order]
        first = (np.cumsum(counts) - counts)[order]
        sorted_counts = counts[order]
        longest = int(sorted_counts[0]) if len(sorted_counts) else 0
        # How many batches have more than so many records.
        widths = np.searchsorted(-sorted_counts, -np.arange(longest), side="left")
        step = 0
        while step < longest and widths[step] >= _BATCHES_AT_ONCE_MIN:
            width = int(widths[step])
            at = position[:width]
            size, body = self._varint(at)
            # A difference does not overflow, as the sum with a false size does.
            if (size < _RECORD_BYTES_MIN - 1).any() or (size > end[:width] - body).any():
                raise self._damage()
            record_end = body + size
            numbers = first[:width] + step
            self.start[numbers], self._body[numbers], self.end[numbers] = at, body, record_end
            position[:width] = record_end
            step += 1
        if step < longest:
            for number in range(int(widths[step])):
                position[number] = self._walk_plainly(
                    int(position[number]),
                    int(end[number]),
                    int(first[number]) + step,
                    int(sorted_counts[number]) - step,
                )
        if (position != end).any():
            raise self._damage()

    def _walk_plainly(self, position: int, end: int, number: int, count: int) -> int:
        data = self.data
        starts, bodies, ends = [], [], []
        for _ in range(count):
            starts.append(position)
            size = shift = 0
            while position < end:
                byte = data[position]
                position += 1
                size |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
            bodies.append(position)
            position += (size >> 1) ^ -(size & 1)
            ends.append(position)
            if position > end or position - bodies[-1] < _RECORD_BYTES_MIN - 1:
                raise self._damage()
        part = slice(number, number + count)
        self.start[part], self._body[part], self.end[part] = starts, bodies, ends
        return position

    def _decode(self, headers: Sequence[BatchHeader]) -> None:
        self.timestamp_delta, position = self._varint(self._body + 1)
        offset_delta, position = self._varint(position)
        self.key_size, self.key_start = self._varint(position)
        if (self.key_size < -1).any() or (self.key_size >= self.end - self.key_start).any():
            raise self._damage()
        self.value_size, self.value_start = self._varint(self.key_start + np.maximum(self.key_size, 0))
        if (self.value_size < -1).any() or (self.value_size >= self.end - self.value_start).any():
            raise self._damage()
        self.headers_start = self.value_start + np.maximum(self.value_size, 0)
        self.has_value: Bools = self.value_size >= 0
        bases = np.fromiter((header.base_offset for header in headers), np.int64, len(headers))
        lasts = np.fromiter((header.last_offset for header in headers), np.int64, len(headers))
        self.offset: Ints = bases[self.batch] + offset_delta
        if (
            (offset_delta < 0).any()
            or (self.offset > lasts[self.batch]).any()
            or (np.diff(self.offset) <= 0).any()
        ):
            raise self._damage()

    def _varint(self, position: Ints) -> tuple[Ints, Ints]:
        """The signed integers at these positions, and the positions after them."""
        if len(position) and int(position.max()) >= len(self.data) - len(_PADDING):
            raise self._damage()
        byte = self._bytes[position]
        value = (byte & 0x7F).astype(np.uint64)
        after = position + 1
        more = np.nonzero(byte >= 0x80)[0]
        shift = 7
        while len(more):
            if shift > 63:
                raise self._damage()
            at = after[more]
            if int(at.max()) >= len(self.data):
                raise self._damage()
            byte = self._bytes[at]
            value[more] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[more] += 1
            more = more[byte >= 0x80]
            shift += 7
        one = np.uint64(1)
        signed = (value >> one).astype(np.int64) ^ -((value & one).astype(np.int64))
        return signed, after

    def _damage(self) -> CorruptRecord:
        return CorruptRecord(
            f"the records of a batch between the offsets {self._name[0]} and {self._name[1]} contradict its header"
        )
