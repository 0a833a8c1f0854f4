"""The log of a partition as spans of offsets: its committed records, and what explains offsets without one.

Batches are read twice where they have to be. Once for committed records, as every reader sees them. Then, around
offsets that have none, as they are stored: markers, aborted records, and what compaction emptied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchView
from odradek.wire.records.record import records
from odradek_pipeline.audit.collecting.blocks import SILENCE_MS, read_blocks
from odradek_pipeline.audit.spans import Span, Spans, append, join_spans, subtract_spans
from odradek_pipeline.audit.tiles import LogPicture
from odradek_pipeline.errors import AnswerTimeoutError

# Gaps that are nearer to each other than this many offsets are read in one go.
_NEAR: Final = 10_000


async def read_spans(
    client: Client, wanted: Mapping[TopicPartition, Span], *, is_read_committed: bool
) -> dict[TopicPartition, list[Span]]:
    """The offsets of records in a span of each partition, or those of committed ones alone."""
    found: dict[TopicPartition, list[Span]] = {key: [] for key in wanted}

    def take(block: RecordBlock) -> None:
        spans = found[block.topic_partition]
        if block.record_count == block.end_offset - block.first_offset:
            append(spans, (block.first_offset, block.end_offset))
        else:
            for one in block.records():
                append(spans, (one.offset, one.offset + 1))

    starts = {key: start for key, (start, _) in wanted.items()}
    ends = {key: end for key, (_, end) in wanted.items()}
    await read_blocks(client, starts, ends, take, is_read_committed=is_read_committed)
    return {
        key: subtract_spans(spans, [(wanted[key][1], max([wanted[key][1], *(end for _, end in spans)]))])
        for key, spans in found.items()
    }


async def read_picture(
    client: Client,
    key: TopicPartition,
    start: int,
    readable: Spans,
    gaps: Iterable[Span],
    *,
    is_compacted: bool,
) -> LogPicture:
    """The picture of one partition: what its stored batches say about `gaps`."""
    control: list[Span] = []
    stored: list[Span] = []
    compacted: list[Span] = []
    async with PartitionConsumer(client) as consumer:
        for first, end in _widen_gaps(gaps):
            consumer.assign({key: first})
            while consumer.position(key) < end:
                batches = await consumer.poll_batches(timeout_ms=SILENCE_MS)
                if not batches:
                    raise AnswerTimeoutError(f"{key} sent nothing for {SILENCE_MS // 1000} s")
                for _, batch in batches:
                    _sort(batch, control, stored, compacted)
    aborted = subtract_spans(stored, readable)
    return LogPicture(
        start=start,
        readable=readable,
        control=join_spans(control),
        aborted=aborted,
        compacted=join_spans(compacted),
        is_compacted=is_compacted,
    )


def _sort(batch: BatchView, control: list[Span], stored: list[Span], compacted: list[Span]) -> None:
    header = batch.header
    whole = (header.base_offset, header.last_offset + 1)
    if header.is_control:
        control.append(whole)
        return
    if header.record_count == whole[1] - whole[0]:
        if header.is_transactional:
            stored.append(whole)
        return
    held = [(one.offset, one.offset + 1) for one in records(batch)]
    compacted += subtract_spans([whole], held)
    if header.is_transactional:
        stored += held


def _widen_gaps(gaps: Iterable[Span]) -> list[Span]:
    made: list[Span] = []
    for start, end in join_spans(gaps):
        if made and start - made[-1][1] < _NEAR:
            made[-1] = (made[-1][0], end)
        else:
            made.append((start, end))
    return made
