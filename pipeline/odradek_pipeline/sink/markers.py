"""Records that say what the sink has written: one for each task, one for each batch, in a compacted topic.

    key    <sink>/<task>       written in the task's transaction: it is there exactly when the rows are
           <sink>/plan         written before the first task's transaction is ended: how many tasks there are
           <sink>/batch        written after the last one is ended: the batch is whole
    value  JSON of a Marker

They are read without the last stable offset, where another query's open transaction would hold them back. So the
control records are read, too, and decide here which markers count. All of a sink's markers are in one partition.
"""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Final

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.errors import ClientTimeout
from odradek.foundation.errors import TopicAlreadyExists, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.batch import BatchView
from odradek.wire.records.control import parse_marker
from odradek.wire.records.record import records

PARTITIONS: Final = 8
PLAN: Final = "plan"
BATCH: Final = "batch"
_VERSION: Final = 1
_EMPTY_POLLS_MAX: Final = 60
_TOPIC_SETTINGS: Final = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class SinkMarker:
    """A summary of the rows of a query's task or batch. `tasks` is 0 where it is not known; `digest` is without order.

    The driver's also have its producer id, the epoch that it began the batch with, and the one that it wrote this with.
    """

    query: str
    batch: int
    rows: int
    digest: int
    tasks: int = 0
    producer_id: int = -1
    begun_epoch: int = -1
    epoch: int = -1
    version: int = _VERSION

    def encode(self) -> bytes:
        """The value of its record."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    def is_of(self, query: str, batch: int) -> bool:
        """Whether it belongs to this batch of this query."""
        return (self.query, self.batch) == (query, batch)


@dataclass(slots=True)
class MarkerState:
    """A sink's markers up to an offset. `pending` are those of transactions that are open there, by producer id."""

    sink: str
    partition: TopicPartition
    next_offset: int = -1
    committed: dict[str, SinkMarker] = field(default_factory=dict)
    pending: dict[int, dict[str, SinkMarker | None]] = field(default_factory=dict)

    @classmethod
    def empty(cls, sink: str, topic: str) -> MarkerState:
        """Nothing read yet."""
        number = zlib.crc32(sink.encode()) % PARTITIONS
        return cls(sink, TopicPartition(topic, number))

    def key(self, name: str | int) -> bytes:
        return f"{self.sink}/{name}".encode()

    def take(self, batch: BatchView) -> None:
        """Take a batch of the log, control batches too. Raises CorruptRecord."""
        header = batch.header
        if header.is_control:
            end = parse_marker(batch)
            if end is not None:
                ended = self.pending.pop(header.producer_id, {})
                if end.is_commit:
                    self._apply(ended)
            return
        found = {
            name: marker
            for record in records(batch)
            if record.offset >= self.next_offset and record.key is not None
            for name, marker in [self._parse_marker(record.key, record.value)]
            if name is not None
        }
        if header.is_transactional:
            self.pending.setdefault(header.producer_id, {}).update(found)
        else:
            self._apply(found)

    def _parse_marker(self, key: bytes, value: bytes | None) -> tuple[str | None, SinkMarker | None]:
        prefix = self.key("")
        if not key.startswith(prefix):
            return None, None
        return key[len(prefix) :].decode(), None if value is None else SinkMarker(**json.loads(value))

    def _apply(self, found: dict[str, SinkMarker | None]) -> None:
        for name, marker in found.items():
            if marker is None:
                self.committed.pop(name, None)
            else:
                self.committed[name] = marker


async def create_topic(client: Client, topic: str) -> None:
    try:
        await TopicAdmin(client).describe(topic)
    except UnknownTopicOrPartition:
        with suppress(TopicAlreadyExists):  # another sink was first
            await TopicAdmin(client).create(topic, partitions=PARTITIONS, configs=_TOPIC_SETTINGS)
        await client.with_retries(lambda: TopicAdmin(client).describe(topic))


async def read_on(client: Client, state: MarkerState) -> None:
    """Read what has been written since, up to the present end. Raises ClientTimeout and the client's errors."""
    logs, key = LogAdmin(client), state.partition
    end = (await logs.offsets_at([key], LATEST))[key]
    first = (await logs.offsets_at([key], EARLIEST))[key]
    start = max(state.next_offset, first)
    empty_polls = 0
    async with PartitionConsumer(client) as consumer:
        consumer.assign({key: start})
        while consumer.position(key) < end:
            batches = await consumer.poll_batches(timeout_ms=1_000)
            empty_polls = 0 if batches else empty_polls + 1
            if empty_polls > _EMPTY_POLLS_MAX:
                raise ClientTimeout(
                    f"{key} sent nothing from offset {consumer.position(key)} on, and ends at {end}"
                )
            for _, batch in batches:
                if batch.last_offset >= start:
                    state.take(batch)
        state.next_offset = consumer.position(key)
