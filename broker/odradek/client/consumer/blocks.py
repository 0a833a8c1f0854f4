"""The records of one batch as a consumer returns them: decoded on demand, and only as far as asked. A program that
prints or counts a whole topic needs no object per record; `values` makes none.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Final, NamedTuple

from odradek.client.schemas.header import Decoded
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchHeader, BatchView
from odradek.wire.records.bulk_decoding import all_records, values
from odradek.wire.records.compression import decompress
from odradek.wire.records.record import Headers, Record

_NO_REGISTRY: Final = (
    "the record's consumer has no schema registry: name one, as in "
    "Consumer(client, 'orders', schema_registry='http://127.0.0.1:8081')"
)
_new_tuple = tuple.__new__
_offset_of = attrgetter("offset")


class ConsumerRecord(NamedTuple):
    """One record. `timestamp_type` is 0 for the producer's clock and 1 for the broker's."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int

    @property
    def decoded_key(self) -> Decoded:
        """As `decoded_value`."""
        raise InvalidRequest(_NO_REGISTRY)

    @property
    def decoded_value(self) -> Decoded:
        """The value by its schema: a message of Protobuf, or else dicts, lists, numbers, texts, dates and decimals.

        None where the value is. Needs a consumer with a `schema_registry`, else it raises InvalidRequest. Raises
        UndecodableRecord for bytes that do not follow their schema, and SchemaUnavailable.
        """
        raise InvalidRequest(_NO_REGISTRY)


class RecordBlock:
    """The records of one batch with offsets from `first_offset` to before `end_offset`. Every method raises
    CorruptRecord for a batch whose records cannot be decoded.
    """

    __slots__ = (
        "_batch",
        "_payload",
        "_records",
        "_start",
        "_stop",
        "end_offset",
        "first_offset",
        "header",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        batch: BatchView,
        header: BatchHeader,
        first_offset: int,
        end_offset: int,
    ) -> None:
        self.topic_partition = topic_partition
        self.header = header
        self.first_offset = first_offset
        self.end_offset = end_offset
        self._batch = batch
        self._payload: bytes | bytearray | memoryview | None = None
        # All records of the batch, shared with its other blocks, and the range of this block's.
        self._records: list[Record] | None = None
        self._start = 0
        self._stop = 0

    @property
    def record_count(self) -> int:
        """The number of records. Decodes them if the block is a part of the batch."""
        if self._records is None and self._is_whole:
            return self.header.record_count
        self._read()
        return self._stop - self._start

    def records(self) -> list[Record]:
        """The records, without the fields that all of them share."""
        found = self._read()
        return found if self._stop - self._start == len(found) else found[self._start : self._stop]

    def payload(self) -> bytes | bytearray | memoryview:
        """The records of the whole batch as plain bytes, also those outside of this block; decompressed once."""
        if self._payload is None:
            self._payload = decompress(self._batch.payload, self.header.compression)
        return self._payload

    def values(self) -> list[bytes | None]:
        """The values alone: half the work of `records`."""
        if self._records is None and self._is_whole:
            return values(self._batch)
        return [record.value for record in self.records()]

    def consumer_records(self) -> list[ConsumerRecord]:
        """The records with topic, partition and all other fields."""
        topic, partition = self.topic_partition
        timestamp_type, leader_epoch = int(self.header.timestamp_type), self.header.leader_epoch
        return [
            _new_tuple(
                ConsumerRecord,
                (topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers, leader_epoch),
            )
            for offset, timestamp_ms, key, value, headers in self.records()
        ]

    def with_records(self, records: list[Record]) -> RecordBlock:
        """A block of these records in place of its own; the batch is not read again."""
        found = self._part(self.first_offset, self.end_offset)
        found._records, found._stop = records, len(records)
        return found

    def between(self, first_offset: int, end_offset: int) -> RecordBlock:
        """The part of this block from one offset to before the other."""
        if first_offset <= self.first_offset and end_offset >= self.end_offset:
            return self
        return self._part(max(first_offset, self.first_offset), min(end_offset, self.end_offset))

    def split(self, count: int) -> tuple[RecordBlock, RecordBlock]:
        """The first `count` records, and the rest. `count` must be less than the number of records."""
        records = self._read()
        middle = self._start + count
        offset = records[middle].offset
        first, rest = self._part(self.first_offset, offset), self._part(offset, self.end_offset)
        first._records = rest._records = records
        first._start, first._stop = self._start, middle
        rest._start, rest._stop = middle, self._stop
        return first, rest

    def _part(self, first_offset: int, end_offset: int) -> RecordBlock:
        return RecordBlock(self.topic_partition, self._batch, self.header, first_offset, end_offset)

    def _read(self) -> list[Record]:
        if self._records is None:
            found = all_records(self._batch)
            self._start = bisect_left(found, self.first_offset, key=_offset_of)
            self._stop = bisect_left(found, self.end_offset, key=_offset_of)
            self._records = found
        return self._records

    @property
    def _is_whole(self) -> bool:
        return self.first_offset <= self.header.base_offset and self.end_offset > self.header.last_offset
