"""The streams of a ConsumerConnector: what its loop fetches, and what programs take from it.

    connector's loop -> chunks of batches (bounded) -> a program's thread or task decodes a batch, takes its records

A record that was returned is *in hand* until the program asks for the next one. Everything below it is finished, and an
automatic commit covers that and no more. So a program that dies while it works on a record gets it again. A commit that
the program asks for covers the record in hand too.

The connector takes partitions away by a new generation. `next` states the record that it is about to return, and then
looks at the generation and the lease. The connector changes the generation, and then looks at the record. So either the
record is not returned, or the connector knows of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from odradek.client.classic.errors import ConsumerTimeoutException
from odradek.client.classic.lease import Lease, lease_clock
from odradek.client.classic.messages import Decoder
from odradek.client.consumer.blocks import RecordBlock
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.record import Headers, Record

# A wait in slices: for Ctrl-C, and for a lease that becomes valid again.
_SLICE_SECONDS: Final = 0.1
_NOWHERE: Final = TopicPartition("", -1)
# A loop over records that awaits nothing else still lets other tasks run this often.
_RECORDS_BETWEEN_TURNS: Final = 500
_new_tuple = tuple.__new__


class MessageAndMetadata(NamedTuple):
    """A message of a stream, decoded. `offset` is its own; the next one to read is behind it."""

    message: Any
    topic: str
    partition: int
    offset: int
    key: Any
    timestamp_ms: int
    headers: Headers

    @property
    def payload(self) -> object:
        """The message, as document 000 names it."""
        return self.message


class Progress(NamedTuple):
    """The progress of a stream in a partition: all messages below `next_offset` were returned.

    `end_offset` is where the readable messages of the partition ended at the last fetch; -1 if that is unknown.
    """

    topic: str
    partition: int
    next_offset: int
    end_offset: int


OnProgress = Callable[[Progress], None]


class StreamBuffer:
    """The state of one stream and its connector. The connector's side is called on its loop, the other one anywhere."""

    def __init__(self, lease: Lease, *, chunks_max: int) -> None:
        self._lease = lease
        self._chunks_max = chunks_max
        self.changed = threading.Condition()
        self.on_change: Callable[[], None] | None = None  # of a stream in asyncio, on the loop
        self._chunks: deque[deque[RecordBlock]] = deque()
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._asked = asyncio.Event()
        self._failure: Exception | None = None
        self.end_offsets: dict[TopicPartition, int] = {}
        self.taker: object = None
        """The thread or task that iterates."""
        self.generation = 0
        self.is_closed = False
        self._is_revoking = False
        self._is_asking = True
        self._finished: dict[TopicPartition, int] = {}
        # The batch whose records are taken, and the offset of the record in hand.
        self._partition = _NOWHERE
        self._end_offset = -1
        self.in_hand: int | None = None

    # --- the connector's side ---------------------------------------------------------------------------------------

    def begin(self, starts: Mapping[TopicPartition, int]) -> None:
        """The stream gets these partitions, to be read from these offsets on."""
        with self.changed:
            self._is_revoking = False
            self._finished = dict(starts)
            self._chunks.clear()
            self._partition = _NOWHERE  # what is in hand was taken before
        self._room.set()

    def add(self, starts: Mapping[TopicPartition, int]) -> None:
        """The stream gets these partitions too, beside those that it has."""
        with self.changed:
            self._finished |= starts

    async def wait_for_room(self) -> None:
        """Wait until one more chunk fits."""
        while len(self._chunks) >= self._chunks_max:
            self._room.clear()
            if len(self._chunks) >= self._chunks_max:
                await self._room.wait()

    def put(self, blocks: Sequence[RecordBlock], generation: int) -> None:
        """Add fetched batches as one chunk, unless they were fetched for an earlier generation."""
        with self.changed:
            if generation == self.generation:
                self._chunks.append(deque(blocks))
        self.notify()

    def fail(self, failure: Exception) -> None:
        """Let the stream raise `failure` once, after what it has."""
        self._failure = failure
        self.notify()

    def notify(self) -> None:
        """Wake the stream: it has something, or the lease is valid again."""
        with self.changed:
            self.changed.notify_all()
        if self.on_change is not None:
            self.on_change()

    def revoke(self) -> None:
        """Take all partitions away. What the stream has not returned is forgotten."""
        with self.changed:
            self.generation += 1
            self._is_revoking = True
            self._chunks.clear()
            self._failure = None
            self._asked.clear()
            if self._is_asking or self.in_hand is None:
                self._asked.set()
        self.notify()

    async def wait_until_asked(self, seconds_max: float) -> None:
        """Wait until the record in hand is finished, for a limited time."""
        try:
            async with asyncio.timeout(seconds_max):
                await self._asked.wait()
        except TimeoutError:
            return

    def forget(self) -> None:
        """The partitions of before are committed: their positions count no more."""
        with self.changed:
            self._finished.clear()
            self._is_revoking = False

    def close(self) -> None:
        """End the iteration of the stream."""
        self.is_closed = True
        self.revoke()

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read of each partition, which is that of the record in hand, where there is one."""
        with self.changed:
            found = dict(self._finished)
            if self.in_hand is not None and self._partition in found:
                found[self._partition] = self.in_hand
            return found

    def finish_hand(self) -> None:
        """The program says that the record in hand is finished, before it asks for the next one."""
        with self.changed:
            if self.in_hand is not None and self._partition in self._finished:
                self._finished[self._partition] = self.in_hand + 1
                self.in_hand = None
            self._asked.set()

    # --- the program's side -------------------------------------------------------------------------------------------

    def take(self) -> RecordBlock | None:
        """The next batch; None while there is none, or no lease. The lock is held. Raises what `fail` was given."""
        if not self._lease.is_valid:
            return None
        while self._chunks:
            chunk = self._chunks[0]
            if chunk:
                block = chunk.popleft()
                self._partition, self._end_offset = block.topic_partition, block.end_offset
                self._is_asking = False
                return block
            self._chunks.popleft()
            if len(self._chunks) < self._chunks_max:
                self._call(self._room.set)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return None

    def finish(self, generation: int, *, is_whole: bool) -> None:
        """The stream asks for more: its batch of this generation is finished up to the record in hand, or whole.

        The lock is held.
        """
        if self._partition is not _NOWHERE:
            is_own = generation == self.generation or (
                self._is_revoking and generation == self.generation - 1
            )
            if is_own and self._partition in self._finished:
                is_all = is_whole or self.in_hand is None
                self._finished[self._partition] = self._end_offset if is_all else self.in_hand  # type: ignore[assignment]
            self._partition = _NOWHERE
        self.in_hand = None
        self._is_asking = True
        if self._is_revoking:
            self._call(self._asked.set)

    def _call(self, work: Callable[[], None]) -> None:
        """On the connector's loop, unless that is closed."""
        if asyncio._get_running_loop() is self._loop:
            work()
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work)


class _EndedError(Exception):
    """The connector is shut down."""


class _Stream:
    """The common part of both faces of a stream."""

    _taker: Callable[[], object]

    def __init__(
        self,
        buffer: StreamBuffer,
        lease: Lease,
        *,
        decoder: Decoder,
        key_decoder: Decoder,
        timeout_ms: int,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._buffer = buffer
        self._on_progress = on_progress
        self._lease = lease
        self._to_event = decoder.to_event
        self._to_key = key_decoder.to_event
        self._timeout_seconds = None if timeout_ms < 0 else timeout_ms / 1000
        self._rows: Iterator[Record] = iter(())
        self._topic = ""
        self._partition = -1
        self._generation = -1
        self._since_turn = 0

    def _ready(self) -> Record | None:
        """The next record that may be returned now; None when there is none to wait for no longer."""
        buffer = self._buffer
        is_whole = False
        for row in self._rows:
            buffer.in_hand = row.offset
            if self._generation != buffer.generation:
                break
            if lease_clock() < self._lease.until:
                return row
            self._rows = _again(row, self._rows)
            return None
        else:
            is_whole = True
        return self._of_next_batch(is_whole)

    def _of_next_batch(self, is_whole: bool) -> Record | None:
        buffer = self._buffer
        with buffer.changed:
            buffer.finish(self._generation, is_whole=is_whole)
            buffer.taker = self._taker()
            self._rows = iter(())
            self._generation = buffer.generation
            if buffer.is_closed:
                raise _EndedError
            block = buffer.take()
        if block is None:
            return None
        self._topic, self._partition = block.topic_partition
        self._rows = iter(block.records())
        if self._on_progress is not None:
            end_offset = buffer.end_offsets.get(block.topic_partition, -1)
            self._on_progress(Progress(self._topic, self._partition, block.first_offset, end_offset))
        return self._ready()

    def _message(self, row: Record) -> MessageAndMetadata:
        offset, timestamp_ms, key, value, headers = row
        return _new_tuple(
            MessageAndMetadata,
            (
                self._to_event(value),
                self._topic,
                self._partition,
                offset,
                None if key is None else self._to_key(key),
                timestamp_ms,
                headers,
            ),
        )

    def _build_timeout(self) -> ConsumerTimeoutException:
        return ConsumerTimeoutException(
            f"no message arrived within {self._timeout_seconds:g} s (consumer.timeout.ms); the stream can continue"
        )


class KafkaStream(_Stream):
    """An iterator over MessageAndMetadata, for one thread at a time. It ends when the connector is shut down.

    It waits for messages, or raises ConsumerTimeoutException; then it can be iterated again. The stream of a filter has
    messages of several topics.
    """

    _taker = staticmethod(threading.get_ident)

    def __iter__(self) -> KafkaStream:
        return self

    def __next__(self) -> MessageAndMetadata:
        try:
            row = self._ready()
            return self._message(self._wait_for_record() if row is None else row)
        except _EndedError:
            raise StopIteration from None

    def _wait_for_record(self) -> Record:
        deadline = None if self._timeout_seconds is None else time.monotonic() + self._timeout_seconds
        changed = self._buffer.changed
        while True:
            with changed:
                # A change before the lock was taken is seen after one slice at the latest.
                left = (
                    _SLICE_SECONDS if deadline is None else min(_SLICE_SECONDS, deadline - time.monotonic())
                )
                if left > 0:
                    changed.wait(left)
            row = self._ready()
            if row is not None:
                return row
            if left <= 0:
                raise self._build_timeout()


class AsyncKafkaStream(_Stream):
    """As KafkaStream, for `async for` in the connector's own event loop."""

    _taker = staticmethod(asyncio.current_task)

    def __aiter__(self) -> AsyncKafkaStream:
        return self

    async def __anext__(self) -> MessageAndMetadata:
        self._since_turn += 1
        if self._since_turn >= _RECORDS_BETWEEN_TURNS:
            self._since_turn = 0
            await asyncio.sleep(0)
        try:
            row = self._ready()
            return self._message(await self._wait_for_record() if row is None else row)
        except _EndedError:
            raise StopAsyncIteration from None

    async def _wait_for_record(self) -> Record:
        changed = asyncio.Event()
        self._buffer.on_change = changed.set
        deadline = None if self._timeout_seconds is None else time.monotonic() + self._timeout_seconds
        while True:
            row = self._ready()
            if row is not None:
                return row
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self._build_timeout()
            try:
                async with asyncio.timeout(left):
                    await changed.wait()
            except TimeoutError:
                raise self._build_timeout() from None
            changed.clear()


def _again(first: Record, rest: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rest
