"""Writes dead letters from Spark's tasks through the project's own client, and makes their topic.

All letters are acknowledged by all replicas in sync before the good rows are committed. A task that is repeated writes
its letters again, and so does a run after a kill. A letter is the same as another one of its record and attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from odradek.client.admin.admin import Admin
from odradek.client.producer.producer import Producer
from odradek.client.results import ResourceType
from odradek.foundation.errors import TopicAlreadyExists
from odradek_pipeline.connection.client_loop import ClientLoop
from odradek_pipeline.connection.clients import connect_client
from odradek_pipeline.settings.options import CONNECTION, SECURITY, Options
from odradek_pipeline.sink.rows import PartitionRows, group_rows

# A letter is its record and nine headers; a topic has to take the largest of them.
_HEADER_BYTES_MAX: Final = 64 * 1024
_MESSAGE_BYTES: Final = "max.message.bytes"
_COUNTED: Final = "topic string, letters bigint"


@dataclass(frozen=True, slots=True)
class LetterTopic:
    """A dead-letter topic. `is_new` says that this run has made it."""

    name: str
    partitions: int
    is_new: bool


def ensure_letter_topic(settings: Mapping[str, str], name: str, origin: str) -> LetterTopic:
    """The dead-letter topic, made when it is missing: as many partitions as the origin, kept for ever.

    `settings` are those of Kafka's clients. Raises PipelineError.
    """
    return asyncio.run(_ensure_topic(settings, name, origin))


async def _ensure_topic(settings: Mapping[str, str], name: str, origin: str) -> LetterTopic:
    async with connect_client(settings, f"the dead-letter topic {name} cannot be made or found") as client:
        admin = Admin(client)
        there = {one.name: one for one in await admin.topics.list()}
        is_new = name not in there
        if is_new:
            found = await admin.configs.describe(ResourceType.TOPIC, origin, keys=[_MESSAGE_BYTES])
            size_bytes = max((int(one.value or 0) for one in found), default=0)
            configs = {"retention.ms": "-1", _MESSAGE_BYTES: str(size_bytes + _HEADER_BYTES_MAX)}
            try:
                await admin.topics.create(name, partitions=len(there[origin].partitions), configs=configs)
            except TopicAlreadyExists:
                is_new = False  # another run was faster
        cluster = await client.with_retries(lambda: client.refresh([name]))
        return LetterTopic(name, len(cluster.partitions(name)), is_new)


def write_letters(letters: DataFrame, settings: Mapping[str, str]) -> int:
    """Write the letters and wait until all are acknowledged. Returns how many there were. Raises what Spark raises."""
    wanted = {*CONNECTION, *SECURITY}
    given = {name: value for name, value in settings.items() if name in wanted}

    def send(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from send_letters(batches, given)

    counted = letters.mapInArrow(send, _COUNTED)
    return sum(int(row.letters) for row in counted.collect())


def send_letters(batches: Iterable[pa.RecordBatch], settings: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Send one task's letters; the counts of them by topic, once all are acknowledged."""
    counts: dict[str, int] = {}
    loop: ClientLoop | None = None
    producer: Producer | None = None
    try:
        for batch in batches:
            for group in group_rows(batch, ""):
                if loop is None:  # most tasks have no letters, and need no connection
                    loop = ClientLoop(Options(settings, CONNECTION)).__enter__()
                    producer = Producer(loop.client)
                    loop.run(producer.start())
                assert producer is not None
                loop.run(_send(producer, group))
                counts[group.topic] = counts.get(group.topic, 0) + len(group.values)
        if loop is not None and producer is not None:
            loop.run(producer.flush())
    finally:
        if loop is not None:
            if producer is not None:
                loop.run(producer.close(is_flushing=False))
            loop.__exit__(None, None, None)
    if counts:
        yield pa.RecordBatch.from_pydict(
            {"topic": list(counts), "letters": pa.array(list(counts.values()), pa.int64())}
        )


async def _send(producer: Producer, group: PartitionRows) -> None:
    assert group.headers is not None
    for key, value, headers in zip(group.keys, group.values, group.headers, strict=True):
        await producer.send(group.topic, value, key=key, headers=headers, partition=group.partition)
