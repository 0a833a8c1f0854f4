"""The synchronous `Consumer`. The loop's thread takes records in lists, and the program gets them one at a time.

A turn of another thread's loop costs more than a record, so there is one for each list. Positions and commits count a
record when the program gets it (`odradek.client.consumer.ahead`).
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final

from odradek.client.consumer.ahead import NOTHING_AHEAD
from odradek.client.consumer.blocks import ConsumerRecord
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.consumer.topics import Consumer as AsyncConsumer
from odradek.client.schemas.registry import SchemaRegistry
from odradek.client.sync.client import Client, blocking_client_of
from odradek.client.sync.faces import Face, blocking, reading
from odradek.foundation.ids import TopicPartition

_LIST_RECORDS: Final = 500
_WAIT_MS: Final = 1_000


class Consumer(Face[AsyncConsumer]):
    """`with Consumer(client, "orders") as consumer:`, and then `for record in consumer:`.

    As `odradek.Consumer`. Several threads may share it: each record goes to one of them. `commit` covers what any of
    them got.
    """

    def __init__(
        self,
        client: Client,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: str = "latest",
        is_read_committed: bool = False,
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        bounds: FetchBounds | None = None,
        schema_registry: SchemaRegistry | str | None = None,
        schema_parts: Collection[str] = ("value",),
    ) -> None:
        client = blocking_client_of(client, "Consumer")
        # The loop's thread makes it, as all that changes the client.
        inner = client._engine.read(
            lambda: AsyncConsumer(
                client._inner,
                *topics,
                group_id=group_id,
                group_instance_id=group_instance_id,
                auto_offset_reset=auto_offset_reset,
                is_read_committed=is_read_committed,
                session_timeout_ms=session_timeout_ms,
                max_poll_interval_ms=max_poll_interval_ms,
                heartbeat_interval_ms=heartbeat_interval_ms,
                bounds=bounds,
                schema_registry=schema_registry,
                schema_parts=schema_parts,
            )
        )
        super().__init__(client._engine, inner, owner=client)
        self._ahead = NOTHING_AHEAD
        self._filling = threading.Lock()

    def __enter__(self) -> Consumer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading and leave the group. It commits nothing."""
        if not self._engine.is_closed:
            self._call(lambda inner: inner.close())

    def __iter__(self) -> Consumer:
        return self

    def __next__(self) -> ConsumerRecord:
        """The next record. Waits for one without a time limit. Raises as `poll`."""
        while True:
            record = None if self._inner.is_interrupted else self._ahead.take()
            if record is None:
                with self._filling:
                    self._fill(_LIST_RECORDS, timeout_ms=_WAIT_MS)
                    record = self._ahead.take()
            if record is not None:
                return record

    def poll(self, *, records_max: int = 500, timeout_ms: int = 1_000) -> list[ConsumerRecord]:
        """Up to `records_max` records, as soon as there are any; an empty list when the time is up. Threads that share
        the consumer wait for one another.

        Raises a partition's final error: OffsetOutOfRange, LogTruncated, UnknownTopicOrPartition, CorruptRecord. Raises
        FencedInstanceId when another member has replaced this one.
        """
        with self._filling:
            self._fill(records_max, timeout_ms=timeout_ms)
            return self._ahead.take_many(records_max)

    def _fill(self, records_max: int, *, timeout_ms: int) -> None:
        """Take records from the loop, unless some are left. Interrupted by Ctrl-C, it loses none."""
        if self._inner.is_interrupted or not self._ahead.has_left:
            self._ahead = self._call(
                lambda inner: inner.read_ahead(records_max=records_max, timeout_ms=timeout_ms)
            )

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions that the consumer reads now."""
        return self._read(lambda inner: inner.assignment)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition that is read now."""
        return self._read(lambda inner: inner.positions)

    start = blocking(AsyncConsumer.start)
    assign = blocking(AsyncConsumer.assign)
    seek = blocking(AsyncConsumer.seek)
    seek_to_committed = blocking(AsyncConsumer.seek_to_committed)
    commit = blocking(AsyncConsumer.commit)
    position = reading(AsyncConsumer.position)
    high_watermark = reading(AsyncConsumer.high_watermark)
    group_metadata = reading(AsyncConsumer.group_metadata)
