"""Keeps partitions of the offsets topic short: writes what still counts once more, then drops all that lies
before.

The offsets topic is a log of changes, and a restart reads all of it. When a partition has grown to several
times its live state, the state is written again at the end and, once that is on the disk, the log's start is
moved up to where the rewriting began. A crash in between leaves everything that was there before, and
repetitions that say the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from odradek.foundation.errors import OdradekError
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.schema import Encoded
from odradek.groups.shard import Shard, ShardState

logger = logging.getLogger(__name__)

REWRITE_BYTES_MIN: Final = 1024 * 1024  # a log this small is read in a few milliseconds
REWRITE_GROWTH: Final = 4  # the log may hold this many times its live state
RECORDS_PER_BATCH: Final = 1000


def is_due(shard: Shard, log: OffsetsLog) -> bool:
    """Whether the log has outgrown its live state. An estimate: counting the live bytes exactly would cost
    a walk.
    """
    size_bytes = log.size_bytes(shard.partition)
    if size_bytes < REWRITE_BYTES_MIN:
        return False
    return size_bytes > REWRITE_GROWTH * max(_live_bytes(shard), REWRITE_BYTES_MIN // REWRITE_GROWTH)


def _live_bytes(shard: Shard, sample: int = 500) -> int:
    """The size of the live state, from the first records of it."""
    sizes = [len(key) + len(value or b"") + 24 for key, value in islice(shard.live_records(), sample)]
    if len(sizes) < sample:
        return sum(sizes)
    return sum(sizes) * max(shard.offsets.count + len(shard.groups), sample) // sample


async def rewrite(shard: Shard, log: OffsetsLog) -> bool:
    """Write the live state again and drop the rest; says whether it came to the end.

    Every live key is written after `begin`: by this or, when it changed meanwhile, by its change. Raises what
    the log raises.
    """
    begin = log.bounds(shard.partition)[1]
    live = shard.live_records()
    is_finished = False
    while not is_finished:
        written: asyncio.Future[OdradekError | None] = asyncio.get_running_loop().create_future()
        produced: list[Encoded] = []

        def produce(produced: list[Encoded] = produced) -> Sequence[Encoded]:
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
            logger.warning("the offsets topic, partition %d, was not rewritten: %s", shard.partition, error)
            return False
        is_finished = len(produced) < RECORDS_PER_BATCH
    await log.flush(shard.partition)
    if shard.state is not ShardState.ACTIVE:
        return False
    log.advance_start(shard.partition, begin)
    return True
