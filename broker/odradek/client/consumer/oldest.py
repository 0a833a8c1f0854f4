"""The timestamps of single records, which show how long the oldest unread record has waited."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.client.client import Client
from odradek.client.consumer.fetches import FetchBounds, fetch_on
from odradek.client.consumer.positions import whole_batches
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.record import records

# One batch of each partition is enough. A broker sends at least one batch, also above the limit.
_BOUNDS = FetchBounds(bytes_min=1, wait_ms_max=0, partition_bytes_max=1)


async def timestamps_at(client: Client, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The timestamp in ms of the first record at or after each offset; partitions without one are left out. Each
    partition has a request of its own, because the limit of bytes may end an answer after the first partition.
    """
    found: dict[TopicPartition, int] = {}
    if not offsets:
        return found
    for leader, keys in (await client.leaders(offsets)).items():
        epochs = client.leader_epochs(keys)
        for key in keys:
            answers = await fetch_on(
                await client.broker(leader),
                {key: offsets[key]},
                leader_epochs=epochs,
                bounds=_BOUNDS,
                is_read_committed=False,
                timeout_ms=client.request_timeout_ms,
            )
            answer = answers.get(key)
            if answer is None or isinstance(answer.failure, OdradekError):
                continue
            timestamp_ms = _first_timestamp(answer.data, offsets[key])
            if timestamp_ms is not None:
                found[key] = timestamp_ms
    return found


def _first_timestamp(data: memoryview, offset: int) -> int | None:
    for batch in whole_batches(data):
        if batch.is_control:
            continue
        for record in records(batch):
            if record.offset >= offset:
                return record.timestamp_ms
    return None
