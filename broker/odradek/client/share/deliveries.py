"""What a share-partition gives to a member: the records, how often each was given, and what the member answers.

An answer of a broker has whole batches, and the ranges of offsets that the member has acquired. Records outside of
these ranges belong to others. An acquired offset may have no record, as that of a marker: it is answered as a gap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.client.consumer.blocks import RecordBlock
from odradek.foundation.errors import CorruptRecord
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.record import Headers

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.shares import AcquiredRecords

_GAP: Final = 0
_offset_of = attrgetter("offset")


class Acknowledgement(IntEnum):
    """What becomes of a record that was delivered."""

    ACCEPT = 1
    """It was processed, and is delivered no more."""
    RELEASE = 2
    """It is delivered again, to this member or to another."""
    REJECT = 3
    """It cannot be processed, and is delivered no more."""
    RENEW = 4
    """It is being processed: its lock begins again (KIP-1222)."""


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
    at = 0
    try:
        for batch in split(data, may_be_cut=True):
            first, last = batch.header.base_offset, batch.header.last_offset
            while at < len(ranges) and ranges[at][1] < first:
                at += 1
            end = at
            while end < len(ranges) and ranges[end][0] <= last:
                end += 1
            if end > at and not batch.header.is_control:
                _open_batch(key, batch, ranges[at:end], found, settled)
            # The last range of a batch may reach into the next one.
            at = max(end - 1, at)
    except CorruptRecord:
        # What follows cannot be read. Its locks end by themselves, and it is delivered again.
        read = found[-1].block.end_offset if found else 0
        settled = {offset: kind for offset, kind in settled.items() if offset < read}
    return PartitionDelivery(found, settled)


def _open_batch(
    key: TopicPartition,
    batch: BatchView,
    ranges: Sequence[tuple[int, int, int]],
    found: list[DeliveredBlock],
    settled: dict[int, int],
) -> None:
    """Add the records of a batch in these ranges to `found`, and take them out of `settled`."""
    header = batch.header
    whole = RecordBlock(key, batch, header, header.base_offset, header.last_offset + 1)
    try:
        batch.verify()
        records = whole.records()
    except CorruptRecord:
        for first, last, _ in ranges:
            rejected = range(max(first, header.base_offset), min(last, header.last_offset) + 1)
            settled.update(dict.fromkeys(rejected, int(Acknowledgement.REJECT)))
        return
    for first, last, count in ranges:
        begin, end = (bisect_left(records, offset, key=_offset_of) for offset in (first, last + 1))
        if begin < end:
            mine = records[begin:end]
            found.append(DeliveredBlock(whole.between(first, last + 1).with_records(mine), count))
            for record in mine:
                del settled[record.offset]


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
