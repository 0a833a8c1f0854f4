"""Keeps partitions of an internal topic short: writes the live state again, then deletes everything before it.

The topic is a log of changes, and a restart reads all of it. When a partition has grown to several times its live
state, that state is written again at the end. Once it is on the disk, the log's start moves up to where the rewrite
began. A crash in between leaves everything that was there before, and repetitions that say the same.

A partition with records of open transactions is not rewritten. They lie before the new start, and a repetition behind
them would count as the later value.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from odradek.coordination.shard import Shard, ShardState, StateMachine
from odradek.coordination.topic_log import EncodedRecord, InternalTopicLog
from odradek.foundation.errors import OdradekError

logger = logging.getLogger(__name__)

REWRITE_BYTES_MIN: Final = 1024 * 1024  # a log this small is read in a few milliseconds
REWRITE_GROWTH: Final = 4  # the log may hold this many times its live state
RECORDS_PER_BATCH: Final = 1000


def is_due(shard: Shard[StateMachine], log: InternalTopicLog) -> bool:
    """Whether the log has outgrown its live state. This is an estimate: an exact count of live bytes costs a walk."""
    if shard.has_pending:
        return False
    size_bytes = log.size_bytes(shard.partition)
    if size_bytes < REWRITE_BYTES_MIN:
        return False
    return size_bytes > REWRITE_GROWTH * max(_live_bytes(shard), REWRITE_BYTES_MIN // REWRITE_GROWTH)


def _live_bytes(shard: Shard[StateMachine], sample: int = 500) -> int:
    """The size of the live state, from its first records."""
    sizes = [len(key) + len(value or b"") + 24 for key, value in islice(shard.live_records(), sample)]
    if len(sizes) < sample:
        return sum(sizes)
    return sum(sizes) * max(shard.machine.live_record_count(), sample) // sample


async def rewrite(shard: Shard[StateMachine], log: InternalTopicLog) -> bool:
    """Write the live state again and delete the rest; returns whether it was done.

    Every live key is written after `begin`: by this, or by a change to it in the meantime. Raises what the log raises.
    """
    if shard.has_pending:
        return False
    begin = log.bounds(shard.partition)[1]
    live = shard.live_records()
    is_finished = has_pending = False
    while not is_finished:
        written: asyncio.Future[OdradekError | None] = asyncio.get_running_loop().create_future()
        produced: list[EncodedRecord] = []

        def produce(produced: list[EncodedRecord] = produced) -> Sequence[EncodedRecord]:
            nonlocal has_pending
            # From here to the append nothing else happens: what is repeated is the newest value of its key.
            has_pending = has_pending or shard.has_pending
            if not has_pending:
                produced += islice(live, RECORDS_PER_BATCH)
            return produced

        def on_written(
            error: OdradekError | None, written: asyncio.Future[OdradekError | None] = written
        ) -> None:
            if not written.done():
                written.set_result(error)

        shard.writer.rewrite(produce, on_written)
        error = await written
        if error is not None or shard.state is not ShardState.ACTIVE:
            logger.warning(
                "%s, partition %d, was not rewritten: %s", shard.topic.title, shard.partition, error
            )
            return False
        if has_pending:
            logger.info(
                "%s, partition %d, is not rewritten while transactions are open",
                shard.topic.title,
                shard.partition,
            )
            return False
        is_finished = len(produced) < RECORDS_PER_BATCH
    await log.flush(shard.partition)
    if shard.state is not ShardState.ACTIVE:
        return False
    log.advance_start(shard.partition, begin)
    return True
