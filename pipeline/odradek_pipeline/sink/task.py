"""The work of a task: write its rows and its marker in one transaction, flush, and leave it open for the driver.

Beginning its transactional id aborts what an earlier attempt left open, and waits for one that is half ended. After
that the marker says whether an earlier run of this batch has committed this task. If so the rows are only counted and
compared: a replay with other rows is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from odradek.client.producer.producer import Producer
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.sink.driver import Begun, PlanNotDeterministicError, Written, check_begun
from odradek_pipeline.sink.markers import SinkMarker, read_on
from odradek_pipeline.sink.rows import PartitionRows, group_rows
from odradek_pipeline.sink.settings import SinkSettings

_DIGESTS = 2**64


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """The number of a task, and its batch. `query` is the sink's name for a batch without a stream."""

    query: str
    batch: int
    task: int


class OldCheckpointError(RuntimeError):
    """The checkpoint is older than what the sink has written; the text has both batches."""


def write(
    rows: Iterator[pa.RecordBatch],
    loop: ClientLoop,
    settings: SinkSettings,
    begun: Begun,
    place: TaskPlace,
    *,
    note_step: Callable[[str], None],
) -> Written:
    """Write the rows of one task. Raises SinkFencedError, PlanNotDeterministicError, and the client's errors."""
    client = loop.client
    loop.run(check_begun(client, settings, begun))
    producer = Producer(
        client,
        transactional_id=settings.id_of(place.task),
        transaction_timeout_ms=settings.timeout_ms,
        compression=settings.compression,
        batch_bytes_max=settings.batch_bytes,
    )
    loop.run(producer.start())
    try:
        markers = begun.markers
        loop.run(read_on(client, markers))
        found = markers.committed.get(str(place.task))
        if found is not None and found.query == place.query and found.batch >= place.batch:
            return _compare_replay(rows, settings, found, place)
        loop.run(producer.begin_transaction())
        count = digest = 0
        for group in _group_all(rows, settings):
            loop.run(_send(producer, group))
            count += len(group.values)
            digest += group.digest()
        marker = SinkMarker(place.query, place.batch, rows=count, digest=digest % _DIGESTS)
        topic, partition = markers.partition
        loop.run(_send_marker(producer, topic, partition, markers.key(place.task), marker))
        prepared = loop.run(producer.prepare_transaction())
        note_step("flushed")
        return Written(place.task, count, digest % _DIGESTS, prepared)
    finally:
        loop.run(producer.close(is_flushing=False))


def _group_all(rows: Iterator[pa.RecordBatch], settings: SinkSettings) -> Iterator[PartitionRows]:
    for batch in rows:
        yield from group_rows(batch, settings.topic)


async def _send(producer: Producer, group: PartitionRows) -> None:
    if group.headers is None:
        await producer.send_many(group.topic, group.values, keys=group.keys, partition=group.partition)
        return
    for key, value, headers in zip(group.keys, group.values, group.headers, strict=True):
        await producer.send(group.topic, value, key=key, headers=headers, partition=group.partition)


async def _send_marker(
    producer: Producer, topic: str, partition: int, key: bytes, marker: SinkMarker
) -> None:
    await producer.send(topic, marker.encode(), key=key, partition=partition)


def _compare_replay(
    rows: Iterator[pa.RecordBatch], settings: SinkSettings, found: SinkMarker, place: TaskPlace
) -> Written:
    if found.batch > place.batch:
        raise OldCheckpointError(
            f"task {place.task} of sink {settings.sink!r} has written batch {found.batch} of this query, and batch "
            f"{place.batch} is to be written. The checkpoint is older than the topic; begin a new one behind its rows"
        )
    count = digest = 0
    for group in _group_all(rows, settings):
        count += len(group.values)
        digest += group.digest()
    if (count, digest % _DIGESTS) != (found.rows, found.digest):
        raise PlanNotDeterministicError(
            f"the plan is not deterministic: task {place.task} of batch {place.batch} had {found.rows} rows "
            f"(digest {found.digest:016x}). Its replay has {count} ({digest % _DIGESTS:016x}). The number of "
            "partitions may not change between runs, and rows may not depend on time or chance"
        )
    return Written(place.task, count, digest % _DIGESTS, None)
