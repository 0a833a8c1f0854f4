"""Reads one partition of an internal topic into its shard, in bounded pieces, without holding up the loop.

Records of a transaction count from the commit marker on, and never after an abort. Which of two values of a key counts
is the state machine's rule, the same as for live changes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Final

from odradek.broker.coordination.shard import Shard, StateMachine
from odradek.broker.coordination.topic_log import InternalTopicLog
from odradek.foundation.errors import KafkaStorageError
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.control import parse_marker
from odradek.wire.records.record import records

RECORDS_PER_TURN: Final = 2000  # about 5 ms of decoding: other connections are served in between


async def load(shard: Shard[StateMachine], log: InternalTopicLog, *, bytes_max: int) -> int:
    """Apply every record of the shard's partition; the end offset of what is applied.

    Raises what the log raises, and CorruptRecord for a damaged batch.
    """
    start, end = log.bounds(shard.partition)
    offset = start
    applied = 0
    while offset < end:
        data = log.read(shard.partition, offset, bytes_max=bytes_max)
        if inspect.isawaitable(data):
            data = await data
        if not data:
            raise KafkaStorageError(f"{shard.name}, ends at {offset} and should reach {end}")
        for batch in split(memoryview(data), may_be_cut=True):
            batch.verify()
            if batch.last_offset < offset:
                continue
            for _ in _apply_batch(shard, batch, offset):
                applied += 1
                if applied % RECORDS_PER_TURN == 0:
                    await asyncio.sleep(0)
            offset = batch.last_offset + 1
    return end


def holds_nothing(partition: int, log: InternalTopicLog) -> bool:
    """Whether the partition's log is empty, so that there is nothing to wait for."""
    start, end = log.bounds(partition)
    return start == end


def _apply_batch(shard: Shard[StateMachine], batch: BatchView, offset: int) -> Iterator[None]:
    """Apply the records from `offset` on, giving up control after each."""
    if batch.is_control:
        marker = parse_marker(batch)
        if marker is not None:
            shard.end_transaction(marker.producer_id, is_commit=marker.is_commit)
            yield
        return
    for record in records(batch):
        if record.offset < offset or record.key is None:
            continue
        value = record.value
        if batch.is_transactional:
            shard.replay_pending(batch.producer_id, record.key, value)
        else:
            shard.replay(record.key, value)
        yield
