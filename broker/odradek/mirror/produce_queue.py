"""Sends batches to the leaders of their partitions, in order, several requests under way at once.

A request has one batch of a partition at most, because brokers refuse two. Of one partition, and to one leader, up to
five requests are under way, which is what an idempotent producer may have. After an error that may pass, a partition
waits for what it has under way. Then it sends all that is not acknowledged again, with the same sequence numbers. The
target recognises what it has. A batch never gets another producer id or sequence, so none is written twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from odradek.client.client import Client
from odradek.client.errors import METADATA_STALE, RETRIABLE_OR_LATE, ClientClosed, ClientError
from odradek.client.metadata import NO_LEADER
from odradek.client.producer.batches import ProducerIdAndEpoch
from odradek.client.producer.requests import (
    ACKS_ALL,
    PRODUCE_VERSIONS,
    TRANSACTIONAL_PRODUCE_VERSIONS,
    ZSTD_PRODUCE_VERSION,
    BatchOutcome,
    produce,
)
from odradek.foundation.client_limits import CLIENT_RETRY_PAUSE_MS_MAX, CLIENT_RETRY_PAUSE_MS_MIN
from odradek.foundation.errors import CorruptRecord, LeaderNotAvailable, OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import (
    MIRROR_BATCHES_WAITING_MAX,
    MIRROR_PRODUCE_BYTES_MAX,
    MIRROR_PRODUCES_IN_FLIGHT_MAX,
)
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequence,
    ProducerFenced,
)
from odradek.mirror.batch_passing import ProducerStamp, ReadyBatch, stamp_batch
from odradek.mirror.errors import BatchRefused
from odradek.wire.records.batch import COMPRESSION_MASK, BatchView, advance_sequence
from odradek.wire.records.compression import Compression

_ATTRIBUTES_LOW_POSITION: Final = 22
# Brokers forget a producer after a day without a batch (producer.id.expiration.ms).
_PROVEN_SECONDS: Final = 3600.0
# These say nothing about the batch.
_OF_THE_PRODUCER: Final = (
    ProducerFenced,
    InvalidProducerEpoch,
    OutOfOrderSequence,
    InvalidTxnState,
    ClientError,
)
_CLOSE_SECONDS_MAX: Final = 5.0


class OutgoingBatch:
    """One batch with its place among those of its partition."""

    __slots__ = ("base_offset", "data", "is_answered", "is_done", "ready", "source", "topic_partition")

    def __init__(self, source: TopicPartition, target: TopicPartition, ready: ReadyBatch) -> None:
        self.source = source
        self.topic_partition = target
        self.ready = ready
        self.data: bytearray | None = None
        self.is_answered = False
        self.is_done = False
        self.base_offset = -1

    @property
    def is_zstd(self) -> bool:
        """Whether the records are compressed by zstd."""
        return self.ready.data[_ATTRIBUTES_LOW_POSITION] & COMPRESSION_MASK == Compression.ZSTD


class _Lane:
    """The batches of one partition: unsent ones, and those under way."""

    def __init__(self) -> None:
        self.unsent: deque[OutgoingBatch] = deque()
        self.in_flight: deque[OutgoingBatch] = deque()
        self.sequence = 0
        self.is_mending = False  # an error came: nothing is sent until all that is under way is answered
        self.failures = 0
        self.retry_at = 0.0

    def has_unfinished_before(self, batch: OutgoingBatch) -> bool:
        """Whether one before this batch is not acknowledged."""
        for one in self.in_flight:
            if one is batch:
                return False
            if not one.is_done:
                return True
        return False


class ProduceQueue:
    """The batches of one producer. `add` takes them; `drained` waits until all are acknowledged."""

    def __init__(
        self,
        client: Client,
        *,
        transactional_id: str | None,
        timeout_ms: int,
        on_failure: Callable[[TopicPartition, OdradekError], None],
    ) -> None:
        self._client = client
        self._transactional_id = transactional_id
        self._timeout_seconds = timeout_ms / 1000
        self._on_failure = on_failure
        self._identity = ProducerIdAndEpoch(-1, -1)
        self._is_implicit = False
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._requests_at: dict[int, int] = {}
        self._tasks = TaskOwner("mirror's target")
        self._changed = asyncio.Event()
        self._failure: OdradekError | None = None
        self._done: list[OutgoingBatch] = []
        self._deadline: float | None = None
        self._proven_at: dict[TopicPartition, float] = {}

    async def close(self) -> None:
        """Send no more, and wait a moment for the answers to what is under way. A transaction must not end before: a
        broker of the first protocol takes a late batch, and its transaction then stays open.
        """
        self._failure = self._failure or ClientClosed("the writer was closed")
        if any(self._requests_at.values()):
            await asyncio.wait(self._tasks.running(), timeout=_CLOSE_SECONDS_MAX)
        await self._tasks.close()

    def begin(self, identity: ProducerIdAndEpoch, *, is_implicit: bool) -> None:
        """Use this identity from now on. With another one than before, sequence numbers begin again."""
        if identity.id != self._identity.id:
            self._proven_at.clear()
        if identity != self._identity:
            self._lanes.clear()
        self._identity = identity
        self._is_implicit = is_implicit

    async def room(self) -> None:
        """Wait until few enough batches wait. Raises what one failed with."""
        await self._fewer_than(MIRROR_BATCHES_WAITING_MAX)

    def add(self, batches: Iterable[OutgoingBatch]) -> None:
        """Send these after those before. Does not wait. Raises what an earlier batch failed with."""
        self._check()
        for batch in batches:
            lane = self._lanes.setdefault(batch.topic_partition, _Lane())
            batch.data = stamp_batch(
                batch.ready.data,
                ProducerStamp(
                    self._identity.id,
                    self._identity.epoch,
                    lane.sequence,
                    is_transactional=self._transactional_id is not None,
                ),
            )
            lane.sequence = advance_sequence(lane.sequence, batch.ready.record_count)
            lane.unsent.append(batch)
        if self._deadline is None:
            self._deadline = _now() + self._timeout_seconds
        self._send()

    async def drain(self) -> list[OutgoingBatch]:
        """All batches since the last call, acknowledged, in the order of their partitions. Raises why one could not be
        written: what the rest of them did is then unknown.
        """
        await self._fewer_than(1)
        done, self._done = self._done, []
        self._deadline = None
        return done

    async def _fewer_than(self, count: int) -> None:
        while sum(len(lane.unsent) + len(lane.in_flight) for lane in self._lanes.values()) >= count:
            self._check()
            self._changed.clear()
            self._send()
            await self._wait()
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _wait(self) -> None:
        now = _now()
        if self._deadline is not None and now >= self._deadline:
            failures = [key for key, lane in self._lanes.items() if lane.in_flight or lane.unsent]
            raise LeaderNotAvailable(
                f"partition {failures[0]} of the target took no batch for {self._timeout_seconds:g} s; "
                "see the errors before this one"
            )
        times = [lane.retry_at for lane in self._lanes.values() if lane.retry_at > now and lane.unsent]
        until = min([*times, self._deadline if self._deadline is not None else now + self._timeout_seconds])
        try:
            async with asyncio.timeout(max(0.001, until - now)):
                await self._changed.wait()
        except TimeoutError:
            return

    # --- sending --------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        """Begin as many requests as may be under way."""
        now = _now()
        while True:
            by_leader: dict[int, list[OutgoingBatch]] = {}
            sizes: dict[int, int] = {}
            for key, lane in self._lanes.items():
                if not lane.unsent or lane.is_mending or now < lane.retry_at:
                    continue
                if len(lane.in_flight) >= self._window(key, lane):
                    continue
                leader = self._leader(key)
                if leader is None:
                    if not lane.in_flight:
                        self._put_off(key, lane)
                        self._tasks.start(self._find_leader(key), name=f"leader of {key}")
                    continue
                if self._requests_at.get(leader, 0) >= MIRROR_PRODUCES_IN_FLIGHT_MAX:
                    continue
                size = len(lane.unsent[0].ready.data)
                if by_leader.get(leader) and sizes[leader] + size > MIRROR_PRODUCE_BYTES_MAX:
                    continue
                sizes[leader] = sizes.get(leader, 0) + size
                batch = lane.unsent.popleft()
                batch.is_answered = False
                lane.in_flight.append(batch)
                by_leader.setdefault(leader, []).append(batch)
            if not by_leader:
                return
            for leader, batches in by_leader.items():
                self._requests_at[leader] = self._requests_at.get(leader, 0) + 1
                self._tasks.start(self._request(leader, batches), name=f"produce {leader}")

    def _leader(self, key: TopicPartition) -> int | None:
        try:
            leader = self._client.cluster.partition(key).leader
        except OdradekError:
            return None
        return None if leader == NO_LEADER else leader

    async def _find_leader(self, key: TopicPartition) -> None:
        try:
            await self._client.refresh([key.topic])
            if self._leader(key) is not None:
                self._lanes[key].retry_at = 0.0
        except OdradekError as failure:
            self._on_failure(key, failure)
        finally:
            self._changed.set()

    async def _request(self, leader: int, batches: list[OutgoingBatch]) -> None:
        outcomes: dict[TopicPartition, BatchOutcome | OdradekError]
        try:
            outcomes = await produce(
                self._client,
                leader,
                batches,
                acks=ACKS_ALL,
                transactional_id=self._transactional_id,
                versions=self._versions(batches),
            )
        except OdradekError as failure:
            outcomes = {batch.topic_partition: failure for batch in batches}
        finally:
            self._requests_at[leader] -= 1
        missing = LeaderNotAvailable(f"broker {leader} did not answer for a partition")
        for batch in batches:
            self._take_answer(batch, outcomes.get(batch.topic_partition, missing))
        self._changed.set()
        if self._failure is None:
            self._send()

    def _take_answer(self, batch: OutgoingBatch, outcome: BatchOutcome | OdradekError) -> None:
        lane = self._lanes.get(batch.topic_partition)
        if lane is None or batch not in lane.in_flight:
            return
        batch.is_answered = True
        if isinstance(outcome, BatchOutcome):
            batch.base_offset, batch.is_done = outcome.base_offset, True
            self._deadline = _now() + self._timeout_seconds
            self._proven_at[batch.topic_partition] = _now()
        elif isinstance(outcome, OutOfOrderSequence) and lane.has_unfinished_before(batch):
            lane.is_mending = True  # the one before was refused, and both are sent again
        elif isinstance(outcome, RETRIABLE_OR_LATE) and not _is_damaged(batch, outcome):
            self._on_failure(batch.topic_partition, outcome)
            lane.is_mending = True
            if isinstance(outcome, METADATA_STALE):
                self._client.invalidate()
                self._tasks.start(self._find_leader(batch.topic_partition), name="leaders")
        else:
            self._on_failure(batch.topic_partition, outcome)
            self._failure = self._failure or (
                outcome if isinstance(outcome, _OF_THE_PRODUCER) else _build_refusal(batch, outcome)
            )
            return
        self._settle(batch.topic_partition, lane)

    def _settle(self, key: TopicPartition, lane: _Lane) -> None:
        """Take acknowledged batches out, and put the others back once nothing is under way."""
        while lane.in_flight and lane.in_flight[0].is_done:
            self._done.append(lane.in_flight.popleft())
            lane.failures = 0
        if lane.is_mending and all(batch.is_answered for batch in lane.in_flight):
            again = [batch for batch in lane.in_flight if not batch.is_done]
            self._done += [batch for batch in lane.in_flight if batch.is_done]
            lane.in_flight.clear()
            lane.unsent.extendleft(reversed(again))
            lane.is_mending = False
            self._put_off(key, lane)

    def _window(self, key: TopicPartition, lane: _Lane) -> int:
        """The number of batches of a partition that may be under way. A broker without knowledge of a producer takes
        any sequence number as its first. So nothing follows the first batch before its answer.
        """
        known_until = self._proven_at.get(key, float("-inf")) + _PROVEN_SECONDS
        return 1 if lane.failures or _now() > known_until else MIRROR_PRODUCES_IN_FLIGHT_MAX

    def _put_off(self, key: TopicPartition, lane: _Lane) -> None:
        pause_ms = min(CLIENT_RETRY_PAUSE_MS_MIN << min(lane.failures, 10), CLIENT_RETRY_PAUSE_MS_MAX)
        lane.failures += 1
        lane.retry_at = _now() + pause_ms / 1000

    def _versions(self, batches: Iterable[OutgoingBatch]) -> tuple[int, int]:
        lowest, highest = PRODUCE_VERSIONS
        if self._transactional_id is not None:
            lowest, highest = TRANSACTIONAL_PRODUCE_VERSIONS[self._is_implicit]
        if any(batch.is_zstd for batch in batches):
            lowest = max(lowest, ZSTD_PRODUCE_VERSION)
        return lowest, highest


def _is_damaged(batch: OutgoingBatch, outcome: OdradekError) -> bool:
    """Whether the target found damage that the batch has here, too: another try would not help."""
    if not isinstance(outcome, CorruptRecord):
        return False
    try:
        BatchView(batch.ready.data).verify()
    except CorruptRecord:
        return True
    return False


def _build_refusal(batch: OutgoingBatch, outcome: OdradekError) -> BatchRefused:
    ready = batch.ready
    is_damaged = isinstance(outcome, CorruptRecord)
    return BatchRefused(
        batch.source,
        f"the target refuses the batch at offset {ready.source_first_offset} "
        f"({ready.record_count} records, {len(ready.data)} bytes): {outcome}",
        kind="damaged" if is_damaged else type(outcome).__name__,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
