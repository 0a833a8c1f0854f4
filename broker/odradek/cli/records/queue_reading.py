"""The reading of `consume --share-group`: as a member of a queue, which accepts each record once it is printed."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from odradek.cli.records.reading import (
    ReadPlan,
    Watcher,
    find_topics,
    is_idle,
    require_named,
)
from odradek.client.client import Client
from odradek.client.consumer.blocks import RecordBlock
from odradek.client.share.deliveries import Acknowledgement, DeliveredBlock
from odradek.client.share.sessions import ShareBounds
from odradek.client.share.share_consumer import ShareConsumer

_POLL_MS: Final = 500
_RECORDS_MAX: Final = 500


async def read_queue(
    client: Client, plan: ReadPlan, watcher: Watcher
) -> AsyncGenerator[list[RecordBlock], None]:
    """Records in blocks as the queue gives them. Those that were not printed are given to others at the end."""
    assert plan.share_group is not None
    names = await find_topics(client, plan, watcher)
    await require_named(client, plan, watcher)
    left = plan.records_max
    bounds = ShareBounds(records_max=min(left or _RECORDS_MAX, _RECORDS_MAX), is_strict=left is not None)
    async with ShareConsumer(client, plan.share_group, names, bounds=bounds, is_explicit=True) as consumer:
        idle_since = time.monotonic()
        while left != 0:
            watcher.check_output()
            blocks = await consumer.poll_blocks(timeout_ms=_POLL_MS)
            if not blocks:
                if is_idle(plan, idle_since):
                    return
                continue
            idle_since = time.monotonic()
            printed = _first(blocks, left)
            yield [one.block for one in printed]
            count = 0
            for one in printed:
                for record in one.share_records():
                    consumer.acknowledge(record, Acknowledgement.ACCEPT)
                    count += 1
            left = None if left is None else left - count
            await consumer.commit()
            watcher.read(count, 0)


def _first(blocks: Sequence[DeliveredBlock], records_max: int | None) -> list[DeliveredBlock]:
    """The first records of these blocks."""
    if records_max is None:
        return list(blocks)
    found: list[DeliveredBlock] = []
    for one in blocks:
        count = one.block.record_count
        if count > records_max:
            if records_max:
                found.append(one._replace(block=one.block.split(records_max)[0]))
            break
        found.append(one)
        records_max -= count
    return found
