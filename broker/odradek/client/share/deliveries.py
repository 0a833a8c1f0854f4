"""What a share-partition gives to a member: the records, how often each was given, and what the member answers.

An answer of a broker has whole batches, and the ranges of offsets that the member has acquired. Records outside of
these ranges belong to others. An acquired offset may have no record, as that of a marker: it is answered as a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.consumer.blocks import RecordBlock
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import split
from odradek.wire.records.record import Headers

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.shares import AcquiredRecords

_GAP: Final = 0


class Acknowledgement(IntEnum):
    """What becomes of a record that was delivered."""

    ACCEPT = 1
    """It was processed, and is delivered no more."""
    RELEASE = 2
    """It is delivered again, to this member or to another."""
    REJECT = 3
    """It cannot be processed, and is delivered no more."""
    RENEW = 4
    """It is being processed: its lock begins anew (KIP-1222)."""


class ShareRecord(NamedTuple):
    """One record of a share group. `timestamp_type` is 0 for the producer's clock and 1 for the broker's.

    `delivery_count` is 1 when the record is delivered for the first time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    delivery_count: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class DeliveredBlock(NamedTuple):
    """Records of one batch that were delivered equally often."""

    block: RecordBlock
    delivery_count: int

    def share_records(self) -> list[ShareRecord]:
        key, timestamp_type = self.block.topic_partition, int(self.block.header.timestamp_type)
        return [
            ShareRecord(*key, offset, timestamp_ms, timestamp_type, name, value, headers, self.delivery_count)
            for offset, timestamp_ms, name, value, headers in self.block.records()
        ]


class PartitionDelivery(NamedTuple):
    """The records of one partition in one answer, and offsets that are answered at once: gaps, and damaged records."""

    blocks: list[DeliveredBlock]
    settled: dict[int, int]


def open_delivery(
    key: TopicPartition, data: memoryview, acquired: Iterable[AcquiredRecords]
) -> PartitionDelivery:
    """Decode what was acquired. A batch that is damaged is rejected; a later delivery would be damaged as well."""
    ranges = sorted((one.first_offset, one.last_offset, one.delivery_count) for one in acquired)
    found: list[DeliveredBlock] = []
    settled: dict[int, int] = {}
    for first, last, _ in ranges:
        settled.update(dict.fromkeys(range(first, last + 1), _GAP))
    try:
        for batch in split(data, may_be_cut=True):
            header = batch.header
            if header.is_control:
                continue
            for first, last, count in ranges:
                begin, end = max(first, header.base_offset), min(last, header.last_offset) + 1
                if begin >= end:
                    continue
                block = RecordBlock(key, batch, header, begin, end)
                try:
                    batch.verify()
                    records = block.records()
                except CorruptRecord:
                    settled.update(dict.fromkeys(range(begin, end), int(Acknowledgement.REJECT)))
                    continue
                for record in records:
                    settled.pop(record.offset, None)
                if records:
                    found.append(DeliveredBlock(block, count))
    except CorruptRecord:
        # What follows cannot be read. Its locks end by themselves, and it is delivered again.
        read = found[-1].block.end_offset if found else 0
        settled = {offset: kind for offset, kind in settled.items() if offset < read}
    return PartitionDelivery(found, settled)


def acknowledgement_rows(answers: Mapping[int, int]) -> Iterator[dict[str, object]]:
    """Rows of a request: runs of offsets that follow each other, with one type for all of a run that has one."""
    first = before = -2
    types: list[int] = []
    for offset in sorted(answers):
        if offset != before + 1 and types:
            yield _row(first, before, types)
            types = []
        if not types:
            first = offset
        types.append(answers[offset])
        before = offset
    if types:
        yield _row(first, before, types)


def _row(first: int, last: int, types: list[int]) -> dict[str, object]:
    one = types[0]
    is_uniform = types.count(one) == len(types)
    return {
        "first_offset": first,
        "last_offset": last,
        "acknowledge_types": [one] if is_uniform else types,
    }
