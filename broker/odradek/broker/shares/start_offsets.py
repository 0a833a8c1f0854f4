"""Where a share group begins to read a partition that it has never read: share.auto.offset.reset."""

from __future__ import annotations

from typing import Final

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.partition import Partition
from odradek.broker.replication.time_searches import run_search
from odradek.metadata.image.group_configs import parse_reset_duration_ms

_LATEST: Final = "latest"
_EARLIEST: Final = "earliest"


async def find_start_offset(partition: Partition, reset: str, *, now_ms: int, blocking: BlockingWork) -> int:
    """The offset that `reset` means now: the log's end as members see it, its start, or that of a time."""
    if reset == _LATEST:
        return partition.high_watermark
    if reset == _EARLIEST:
        return partition.log.log_start_offset
    time_ms = max(now_ms - parse_reset_duration_ms(reset), 0)
    search = partition.log.search_timestamp(time_ms, offset_limit=partition.high_watermark)
    found = await run_search(search, blocking)
    return partition.high_watermark if found is None else found.offset
