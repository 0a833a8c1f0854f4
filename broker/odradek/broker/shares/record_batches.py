"""The batches of one read, looked at one after the other and no further than they are needed.

A share fetch may read many megabytes and acquire few records of them. So headers are read as far as records are
acquired, and the answer has the batches from the first to the last of those.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.storage.files import DiskFile, FileSlice
from odradek.storage.headers import LEGACY_ENTRY_BYTES_MIN, header_at
from odradek.wire.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader

_CHUNK_BYTES: Final = 16 * 1024
_NO_PRODUCER: Final = -1

_last_offset = attrgetter("last_offset")


class FoundBatch(NamedTuple):
    """One batch: its offsets, and where it lies in the read. `producer_id` is that of a transaction, or -1."""

    base_offset: int
    last_offset: int
    position: int
    size: int
    producer_id: int = _NO_PRODUCER
    is_control: bool = False


class RecordBatches:
    """The batches of one read; there is at least one. `aborted` are (producer id, first offset) of transactions.

    The methods raise OSError where the disk fails.
    """

    def __init__(self, batches: Iterable[FoundBatch], aborted: Sequence[tuple[int, int]] = ()) -> None:
        self._rest = iter(batches)
        self.found: list[FoundBatch] = []
        self._aborted = deque(sorted(aborted, key=lambda transaction: transaction[1]))
        # Producers whose transaction, aborted later, is open where reading has come to.
        self._aborting: set[int] = set()
        self.aborted_ranges: list[tuple[int, int]] = []
        """Offsets of batches found whose transactions were aborted."""
        self._advance()

    @classmethod
    def of(cls, records: FileSlice, aborted: Sequence[tuple[int, int]] = ()) -> RecordBatches:
        """Those of a slice. The last one may be torn by the limit of bytes: it is left out."""
        assert records.file is not None, "an empty slice has no batches"
        return cls(_whole_batches(records.file, records.position, records.position + records.size), aborted)

    @property
    def is_empty(self) -> bool:
        return not self.found

    @property
    def first_offset(self) -> int:
        return self.found[0].base_offset

    def reach(self, offset: int) -> int:
        """Look as far as the batch that has `offset`; the last offset of what was looked at."""
        while self.found[-1].last_offset < offset and self._advance():
            pass
        return self.found[-1].last_offset

    def starts(self, first: int, last: int) -> Iterator[int]:
        """The first offsets of the batches behind `first`, up to `last`."""
        self.reach(last)
        for batch in self.found:
            if batch.base_offset > last:
                return
            if batch.base_offset > first:
                yield batch.base_offset

    def end_of(self, offset: int) -> int:
        """The last offset of the batch that has `offset`. `offset` where no batch has it; no more than there is."""
        last = self.reach(offset)
        if last <= offset:
            return last
        batch = self.found[bisect_left(self.found, offset, key=_last_offset)]
        return batch.last_offset if batch.base_offset <= offset else offset

    def span(self, first: int, last: int) -> tuple[int, int]:
        """(position, size) of the batches with the offsets from `first` to `last`."""
        inside = [batch for batch in self.found if batch.last_offset >= first and batch.base_offset <= last]
        position = inside[0].position
        return position, inside[-1].position + inside[-1].size - position

    def _advance(self) -> bool:
        batch = next(self._rest, None)
        if batch is None:
            return False
        self.found.append(batch)
        while self._aborted and self._aborted[0][1] <= batch.last_offset:
            self._aborting.add(self._aborted.popleft()[0])
        if batch.producer_id in self._aborting:
            if batch.is_control:
                # The marker that ends the transaction.
                self._aborting.discard(batch.producer_id)
            else:
                self.aborted_ranges.append((batch.base_offset, batch.last_offset))
        return True


def _whole_batches(file: DiskFile, position: int, end: int) -> Iterator[FoundBatch]:
    chunk, chunk_position = b"", position
    while end - position >= LEGACY_ENTRY_BYTES_MIN:
        if len(chunk) - (position - chunk_position) < HEADER_BYTES:
            wanted = min(_CHUNK_BYTES, end - position)
            chunk = file.pread_cached(position, wanted) or file.pread(position, wanted)
            chunk_position = position
            if len(chunk) < HEADER_BYTES:
                return
        header: BatchHeader = header_at(chunk, position - chunk_position)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if size < LEGACY_ENTRY_BYTES_MIN or position + size > end:
            return
        yield FoundBatch(
            header.base_offset,
            header.last_offset,
            position,
            size,
            header.producer_id if header.is_transactional else _NO_PRODUCER,
            header.is_control,
        )
        position += size
