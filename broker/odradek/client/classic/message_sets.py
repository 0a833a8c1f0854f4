"""The messages of one partition in a fetch's answer, decoded while a program iterates over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from odradek.client.classic.errors import MessageSizeTooLargeException, OutOfRangeException
from odradek.client.classic.messages import MessageSet
from odradek.client.consumer.fetches import CompletedFetch
from odradek.client.consumer.positions import Chunk, PartitionPosition
from odradek.foundation.errors import OdradekError, OffsetOutOfRange
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.record import Headers

_new_tuple = tuple.__new__


class MessageAndOffset(NamedTuple):
    """A message. `offset` is its own; `next_offset` is where a later fetch continues."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    payload: bytes | None
    headers: Headers

    @property
    def next_offset(self) -> int:
        """The offset of the next message to read."""
        return self.offset + 1


class ByteBufferMessageSet(MessageSet):
    """An iterable of MessageAndOffset: batches are decompressed and decoded one at a time, as far as it is iterated.

    `valid_bytes` are those of whole batches; a truncated last one is left out. `next_offset` is behind the last
    message, also where control records or aborted ones follow it.
    """

    def __init__(
        self, partition: TopicPartition, offset: int, answer: CompletedFetch, *, fetch_size: int
    ) -> None:
        super().__init__()
        self.partition = partition
        self.offset = offset
        self.high_watermark = answer.high_watermark
        self.error: Exception | None = _convert_failure(answer.failure, partition)
        self._fetch_size = fetch_size
        self._answer = answer

    @property
    def size_in_bytes(self) -> int:
        return len(self._answer.data)

    @property
    def next_offset(self) -> int:
        """The offset at which the next fetch continues. Raises as the iteration."""
        self._check()
        chunk = self._chunk()
        return self.offset if chunk is None else chunk.next_offset

    def __iter__(self) -> Iterator[MessageAndOffset]:
        """Raises the partition's error, CorruptRecord, and MessageSizeTooLargeException for no whole message."""
        self._check()
        position = self._position()
        if position is None:
            return
        while True:
            block = position.take_next_block()
            if block is None:
                return
            for row in block.records():
                yield _new_tuple(MessageAndOffset, row)

    def messages(self) -> Sequence[MessageAndOffset]:
        """All of them at once. Raises as the iteration."""
        return list(self)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def _chunk(self) -> Chunk | None:
        position = self._position()
        return None if position is None else position.chunks[0]

    def _position(self) -> PartitionPosition | None:
        """A new reader of the answer; None for one without a byte."""
        answer = self._answer
        if not len(answer.data):
            return None
        position = PartitionPosition(self.partition, self.offset)
        try:
            position.add(answer.data, answer.aborted)
        except OdradekError as failure:
            if len(answer.data) < self._fetch_size:
                raise
            raise MessageSizeTooLargeException(
                f"partition {self.partition}: the message at offset {self.offset} does not fit in the fetch size of "
                f"{self._fetch_size} bytes; fetch again with twice as many"
            ) from failure
        return position


def _convert_failure(failure: OdradekError | None, partition: TopicPartition) -> Exception | None:
    if isinstance(failure, OffsetOutOfRange):
        return OutOfRangeException(f"{failure}; get_offsets_before has the offsets that it holds", partition)
    return failure
