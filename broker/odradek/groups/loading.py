"""Reads one partition of the offsets topic into its shard, in bounded pieces, without holding up the loop.

Offsets committed in a transaction (a log that Apache Kafka wrote may have them) count from the commit marker
on, and not at all after an abort.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import Final

from odradek.foundation.errors import KafkaStorageError
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.shard import Shard
from odradek.records.batch import BatchView, split
from odradek.records.control import ControlType
from odradek.records.record import records

RECORDS_PER_TURN: Final = 2000  # about 5 ms of decoding: other connections are served in between

_Pending = dict[int, list[tuple[bytes, bytes | None]]]  # records of open transactions by producer id


async def load(shard: Shard, log: OffsetsLog, *, bytes_max: int) -> None:
    """Apply every record of the shard's partition. Raises what the log raises, CorruptRecord for a damaged
    batch.
    """
    start, end = log.bounds(shard.partition)
    pending: _Pending = {}
    position = start
    applied = 0
    while position < end:
        data = log.read(shard.partition, position, bytes_max=bytes_max)
        if inspect.isawaitable(data):
            data = await data
        if not data:
            raise KafkaStorageError(
                f"the offsets topic, partition {shard.partition}, ends at {position} and should reach {end}"
            )
        for batch in split(memoryview(data), may_be_cut=True):
            batch.verify()
            if batch.last_offset < position:
                continue
            for _ in _apply_batch(shard, batch, position, pending):
                applied += 1
                if applied % RECORDS_PER_TURN == 0:
                    await asyncio.sleep(0)
            position = batch.last_offset + 1


def holds_nothing(shard: Shard, log: OffsetsLog) -> bool:
    """Whether the partition is empty: then there is nothing to wait for."""
    start, end = log.bounds(shard.partition)
    return start == end


def _apply_batch(shard: Shard, batch: BatchView, position: int, pending: _Pending) -> Iterator[None]:
    """Apply the records from `position` on, giving up control after each."""
    if batch.is_control:
        for record in records(batch):
            key = record.key or b""
            is_commit = int.from_bytes(key[2:4], "big") == ControlType.COMMIT
            for pending_key, value in pending.pop(batch.producer_id, ()):
                if is_commit:
                    shard.apply(pending_key, value)
                yield
        return
    for record in records(batch):
        if record.offset < position or record.key is None:
            continue
        value = record.value
        if batch.is_transactional:
            pending.setdefault(batch.producer_id, []).append((record.key, value))
        else:
            shard.apply(record.key, value)
        yield
