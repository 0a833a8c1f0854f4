"""The records that are not yet acknowledged, by partition and batch. A partition has at most one batch in flight.
Behind it full batches wait, and records are added to the last one. So retries keep the order, as an idempotent producer
needs. While one batch is in flight the next one grows, which keeps throughput up.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Sequence
from itertools import accumulate
from operator import add
from typing import NamedTuple, cast

from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import NO_PRODUCER_ID, TopicPartition
from odradek.wire.records.batch import HEADER_BYTES, BatchView, read_header, update_crc, write_header
from odradek.wire.records.builder import RECORD_OVERHEAD_BYTES_MAX, BatchBuilder
from odradek.wire.records.compression import Compression
from odradek.wire.records.record import Headers, records

OnDone = Callable[[Sequence[int], OdradekError | None], None]


class RecordMetadata(NamedTuple):
    """The place of a written record. `offset` is -1 without acknowledgements; `timestamp_ms` is the stored one."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class ProducerIdAndEpoch(NamedTuple):
    """The id and epoch of an idempotent producer."""

    id: int
    epoch: int


NO_IDENTITY = ProducerIdAndEpoch(NO_PRODUCER_ID, -1)


class PendingBatch:
    """One batch from its first record to its acknowledgement. The result of `done` is (base offset, log append time or
    -1), or the final error. A batch that is too large for its topic gets `halves`, which have futures of their own.
    """

    __slots__ = (
        "attempts",
        "builder",
        "created_at",
        "data",
        "done",
        "halves",
        "identity",
        "is_full",
        "may_be_written",
        "retry_at",
        "sequence",
        "serials",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, now: float) -> None:
        self.topic_partition = topic_partition
        self.serials = array("q")  # the serial numbers of its records in this producer
        self.is_full = False
        self.may_be_written = False
        """Whether a request with it was sent, and not refused."""
        self.halves: tuple[PendingBatch, PendingBatch] | None = None
        self.builder = BatchBuilder()
        self.created_at = now
        self.retry_at = 0.0
        self.attempts = 0
        self.data: bytearray | None = None
        self.identity = NO_IDENTITY
        self.sequence = -1
        self.done: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self.done.add_done_callback(_look_at_failure)

    @property
    def payload_bytes(self) -> int:
        """The bytes of its records, uncompressed."""
        return self.builder.payload_bytes

    def has_room(self, size_bytes: int, *, batch_bytes_max: int) -> bool:
        """Whether a record of at most `size_bytes` fits. Any record fits in an empty batch."""
        return len(self.builder) == 0 or self.payload_bytes + size_bytes + HEADER_BYTES <= batch_bytes_max

    def seal(
        self,
        *,
        compression: Compression,
        identity: ProducerIdAndEpoch,
        sequence: int,
        is_transactional: bool = False,
    ) -> None:
        """Write the batch's bytes, or only its producer fields if the bytes exist already."""
        self.identity = identity
        self.sequence = sequence
        if self.data is None:
            self.data = self.builder.build(
                compression=compression,
                producer_id=identity.id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
                is_transactional=is_transactional,
            )
            return
        header = read_header(self.data)._replace(
            producer_id=identity.id, producer_epoch=identity.epoch, base_sequence=sequence
        )
        write_header(self.data, 0, header)
        update_crc(self.data)

    def split(self) -> tuple[PendingBatch, PendingBatch]:
        """Split its records, two or more, into two batches. The second begins in the middle. `done` ends."""
        assert self.data is not None
        middle = len(self.builder) // 2
        halves = (
            PendingBatch(self.topic_partition, now=self.created_at),
            PendingBatch(self.topic_partition, now=self.created_at),
        )
        for index, record in enumerate(records(BatchView(self.data))):
            halves[index >= middle].builder.append(*record[1:])
        halves[0].serials, halves[1].serials = self.serials[:middle], self.serials[middle:]
        for half in halves:
            half.is_full = True
        self.halves = halves
        if not self.done.done():
            self.done.set_result((-1, -1))
        return halves


def _look_at_failure(done: asyncio.Future[tuple[int, int]]) -> None:
    # The producer reports failures by itself (`Producer.flush`), so a caller need not await each record.
    if not done.cancelled():
        done.exception()


class Delivery:
    """Await it for the record's RecordMetadata, or the error of its write."""

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: PendingBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def is_done(self) -> bool:
        """Whether the record is written or failed, so that `await` does not wait."""
        self._follow_split()
        return self._batch.done.done()

    def _follow_split(self) -> None:
        while self._batch.halves is not None:
            first, second = self._batch.halves
            is_in_first = self._index < len(first.builder)
            self._batch = first if is_in_first else second
            self._index -= 0 if is_in_first else len(first.builder)

    async def _result(self) -> RecordMetadata:
        while not self.is_done:
            if self._batch.done.get_loop() is not asyncio.get_running_loop():
                raise RuntimeError(
                    "this delivery belongs to the event loop of its send, and no other learns its end; await it there"
                )
            await asyncio.wait((self._batch.done,))
        base_offset, append_time_ms = self._batch.done.result()
        topic, partition = self._batch.topic_partition
        offset = -1 if base_offset < 0 else base_offset + self._index
        return RecordMetadata(
            topic, partition, offset, self._timestamp_ms if append_time_ms < 0 else append_time_ms
        )

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        return self._result().__await__()


class PartitionQueue:
    """The batches of one partition, oldest first. Records are added to the last one until it is full or sent."""

    __slots__ = (
        "batch_bytes_max",
        "batches",
        "in_flight",
        "next_sequence",
        "sequence_identity",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, *, batch_bytes_max: int) -> None:
        self.topic_partition = topic_partition
        self.batch_bytes_max = batch_bytes_max
        self.batches: deque[PendingBatch] = deque()
        self.in_flight: PendingBatch | None = None
        self.next_sequence = 0
        self.sequence_identity = NO_IDENTITY

    @property
    def oldest(self) -> PendingBatch | None:
        """The first batch that is not acknowledged."""
        return self.in_flight or (self.batches[0] if self.batches else None)

    def append(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        *,
        serial: int,
        now: float,
    ) -> tuple[Delivery, int]:
        """Add a record. Returns its delivery and its bytes in the batch."""
        batch = self._last_with_room(record_bytes(key, value, headers), now=now)
        before = batch.payload_bytes
        index = batch.builder.append(timestamp_ms, key, value, headers)
        batch.serials.append(serial)
        return Delivery(batch, index, timestamp_ms), batch.payload_bytes - before

    def extend(
        self, timestamp_ms: int, given: Incoming, start: int, serials: Sequence[int], *, now: float
    ) -> tuple[int, int]:
        """Add to one batch the records from `start` on that fit, at most as many as there are `serials`. Returns their
        number and bytes. A record that does not fit makes the batch full.
        """
        batch = self._last_with_room(given.size_bytes(start, start + 1), now=now)
        before = batch.payload_bytes
        wanted = start + len(serials)
        fitting = given.fitting(start, self.batch_bytes_max - HEADER_BYTES - before)
        end = min(max(fitting, start + 1), wanted)  # any record fits in an empty batch
        batch.builder.extend(
            timestamp_ms,
            given.values[start:end],
            keys=None if given.keys is None else given.keys[start:end],
            key=given.key,
            headers=given.headers,
        )
        batch.serials.extend(serials[: end - start])
        batch.is_full = end < wanted
        return end - start, batch.payload_bytes - before

    def _last_with_room(self, size_bytes: int, *, now: float) -> PendingBatch:
        """The batch for a record of at most `size_bytes`: a new one if the last is full or in flight."""
        last = self.batches[-1] if self.batches else None
        if last is not None and last.data is None and not last.is_full:
            if last.has_room(size_bytes, batch_bytes_max=self.batch_bytes_max):
                return last
            last.is_full = True
        self.batches.append(PendingBatch(self.topic_partition, now=now))
        return self.batches[-1]

    def due_at(self, *, linger_seconds: float) -> float | None:
        """The loop's time when the first batch may be sent; None if none waits or one is in flight."""
        if self.in_flight is not None or not self.batches:
            return None
        first = self.batches[0]
        if first.attempts:
            return first.retry_at
        full = first.is_full or first.payload_bytes + HEADER_BYTES >= self.batch_bytes_max
        return first.created_at if full else first.created_at + linger_seconds


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of a record's bytes in a batch, uncompressed."""
    size = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


class Incoming:
    """Records with one timestamp and the same headers.

    `keys` has one for each value; without it all have `key`.
    """

    __slots__ = ("_ends", "_overhead_bytes", "headers", "key", "keys", "values")

    def __init__(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None,
        key: bytes | None,
        headers: Headers,
    ) -> None:
        self.values = values
        self.keys = keys
        self.key = key
        self.headers = headers
        self._overhead_bytes = record_bytes(None if keys is not None else key, None, headers)
        # The end of each record's content, in bytes from the first record's beginning.
        lengths = _lengths(values) if keys is None else list(map(add, _lengths(values), _lengths(keys)))
        self._ends = [0, *accumulate(lengths)]

    def __len__(self) -> int:
        return len(self.values)

    def size_bytes(self, start: int, end: int) -> int:
        """An upper bound of the bytes of the records from `start` to `end` in a batch, uncompressed."""
        return self._ends[end] - self._ends[start] + (end - start) * self._overhead_bytes

    def fitting(self, start: int, room_bytes: int) -> int:
        """The end of the records from `start` on that fit in `room_bytes`; `start` if none fits."""
        ends = range(start + 1, len(self) + 1)
        return start + bisect_right(ends, room_bytes, key=lambda end: self.size_bytes(start, end))


def _lengths(parts: Sequence[bytes | None]) -> list[int]:
    if None in parts:
        return [0 if part is None else len(part) for part in parts]
    return list(map(len, parts))  # type: ignore[arg-type]


class Values:
    """The values of one call with many, whose batches are followed: by their positions from `start` on."""

    __slots__ = ("_on_done", "_positions", "_start")

    def __init__(self, positions: Sequence[int], start: int, on_done: OnDone | None) -> None:
        self._positions = positions
        self._start = start
        self._on_done = on_done

    def follow(self, batch: PendingBatch, count: int) -> None:
        """The next `count` values are the last ones of `batch`."""
        if self._on_done is None:
            return
        taken, self._positions = self._positions[:count], self._positions[count:]
        if self._start:
            taken = [self._start + position for position in taken]
        _follow(batch, len(batch.builder) - count, taken, self._on_done)


def _follow(batch: PendingBatch, first: int, positions: Sequence[int], on_done: OnDone) -> None:
    """Call `on_done` when the batch's records from number `first` on, one for each position, are written or lost."""

    def look(done: asyncio.Future[tuple[int, int]]) -> None:
        if batch.halves is None:
            on_done(positions, cast("OdradekError | None", done.exception()))
            return
        one, other = batch.halves
        middle = len(one.builder)
        count = max(middle - first, 0)
        if positions[:count]:
            _follow(one, first, positions[:count], on_done)
        if positions[count:]:
            _follow(other, max(first - middle, 0), positions[count:], on_done)

    batch.done.add_done_callback(look)
