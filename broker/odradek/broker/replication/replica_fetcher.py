"""Fetches all partitions that one other broker leads and this broker follows: one task, one request at a time.

Each request asks for many partitions (KIP-227), from where each log ends and with the epoch of its last record. The
leader answers with records, or with the offset where the two logs part. An answer counts only while the partition is
still where it was fetched from: a role change or a truncation may have come between.

A partition that fails is left out for replica.fetch.backoff.ms and delays no other. After a lost connection all pause.
A leader that does not yet know that it leads is asked again much sooner. A partition that is added interrupts the
request that waits at the leader, because producers wait for this follower.

What it leaves out: connections (`broker_transport`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from odradek.broker.replication.broker_transport import BrokerTransport, list_offset
from odradek.broker.replication.context import ReplicaContext
from odradek.broker.replication.follower import FetchPosition, Follower
from odradek.broker.replication.partition import Partition
from odradek.foundation.errors import (
    CorruptRecord,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    FrameError,
    InvalidFetchSessionEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RequestError,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from odradek.foundation.limits import FETCHED_BYTES_PER_TURN_MAX
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.settings.broker_settings import Settings
from odradek.storage.log import Log
from odradek.wire.protocol.errors import code_of, codes_of
from odradek.wire.protocol.hot.replica_fetch import (
    FetchAnswer,
    PartitionAnswer,
    ReplicaFetch,
    pack_replica_fetch,
    parse_fetch_answer,
)

logger = logging.getLogger(__name__)

_LIST_OFFSETS_VERSION: Final = 10
_LATEST: Final = -1
_EARLIEST_LOCAL: Final = -4

_INITIAL_EPOCH: Final = 0
_NO_SESSION: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

# The 16 bytes of a topic's id, and the partition.
Key = tuple[bytes, int]

_OFFSET_OUT_OF_RANGE: Final = code_of(OffsetOutOfRange)
_FENCED_LEADER_EPOCH: Final = code_of(FencedLeaderEpoch)
# Most likely the leader does not yet know of the change, such as a topic that was created just now.
_NOT_KNOWN_YET: Final = codes_of(
    UnknownTopicOrPartition, NotLeaderOrFollower, UnknownLeaderEpoch, UnknownTopicId
)
_FIRST_PAUSE_SECONDS: Final = 0.01
# How long a request may still wait for its answer once another partition is added.
_GRACE_SECONDS: Final = 0.02
_SESSION_ERRORS: Final = codes_of(FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)

_CONNECTION_FAILURES: Final = (OSError, RequestError, FrameError)


class ReplicaFetchRequest(NamedTuple):
    """A fetch as `BrokerTransport` carries it."""

    fetch: ReplicaFetch

    def pack(self, correlation_id: int, client_id: str) -> bytes:
        return pack_replica_fetch(self.fetch, correlation_id=correlation_id, client_id=client_id.encode())

    def parse(self, frame: memoryview) -> FetchAnswer:
        return parse_fetch_answer(frame)


class ReplicaFetcher:
    """Fetches from one leader. `add` and `remove` may be called at any time; `run` is its task."""

    def __init__(
        self,
        leader: int,
        *,
        context: ReplicaContext,
        transport: BrokerTransport,
        current_settings: Callable[[], Settings],
    ) -> None:
        self.leader = leader
        self._context = context
        self._transport = transport
        self._current_settings = current_settings
        self._session = FetchSessionHandler()
        self._followed: dict[Key, Partition] = {}
        # Those whose position may be another than the session has.
        self._changed: dict[Key, None] = {}
        # Those that failed, and until when they are left out.
        self._paused: dict[Key, float] = {}
        # Those whose leader does not yet know that it leads, and how long they were left out last.
        self._brief_pauses: dict[Key, float] = {}
        # Those whose last answer failed, and with what: each kind is logged once.
        self._failing: dict[Key, type[Exception]] = {}
        self._work = asyncio.Event()
        self._is_fetching = False
        self._interruption: asyncio.TimerHandle | None = None
        self._is_interrupted = False
        self._is_unreachable = False
        self.requests = 0
        self.bytes_in = 0
        self.failures = 0

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Fetch `partition` from its log's end on; also after its epoch changed."""
        key = _key(partition)
        self._followed[key] = partition
        self._paused.pop(key, None)
        self._brief_pauses.pop(key, None)
        self._changed[key] = None
        self._work.set()
        if self._is_fetching and self._interruption is None:
            self._interruption = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._interrupt)

    def remove(self, partition: Partition) -> None:
        """Cease to fetch it."""
        key = _key(partition)
        if self._followed.get(key) is partition:
            del self._followed[key]
            self._paused.pop(key, None)
            self._brief_pauses.pop(key, None)
            self._failing.pop(key, None)
            self._changed[key] = None

    def note_log_start(self, partition: Partition) -> None:
        """Its log start moved; the next request reports it."""
        key = _key(partition)
        if self._followed.get(key) is partition:
            self._changed[key] = None

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            request = self._next_request()
            if request is None:
                await self._wait_for_work()
                continue
            registration = self._context.brokers.get(self.leader)
            try:
                answer = await self._fetch(request)
            except _CONNECTION_FAILURES as failure:
                self._session.restart()
                if self._is_interrupted or self._context.brokers.get(self.leader) != registration:
                    # The next request may go to another address.
                    continue
                self.failures += 1
                self._log_connection_state(failure)
                await self._wait(self._backoff_seconds)
                continue
            self._log_connection_state(None)
            if not await self._handle_answer(answer):
                await self._wait(self._backoff_seconds)

    def _interrupt(self) -> None:
        """A partition was added: cancel the request that waits at the leader, and send another."""
        self._interruption = None
        self._is_interrupted = True
        self._transport.interrupt(self.leader)

    async def _wait(self, seconds: float | None) -> None:
        """Wait that long, or until a partition is added, which may end the failure."""
        self._work.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work.wait()

    @property
    def _backoff_seconds(self) -> float:
        return self._current_settings().replica_fetch_backoff_ms / 1000

    def _log_connection_state(self, failure: Exception | None) -> None:
        """Log one line when a leader is no longer reached, and one when it is reached again."""
        if failure is not None and not self._is_unreachable:
            logger.warning(
                "fetching from broker %d failed and is tried again until it works: %s", self.leader, failure
            )
        elif failure is None and self._is_unreachable:
            logger.info("fetching from broker %d works again", self.leader)
        self._is_unreachable = failure is not None

    # --- requests ----------------------------------------------------------------------------------------------------

    def _next_request(self) -> SessionRequest | None:
        """The session's part of the next request; None when there is nothing to fetch."""
        self._resume()
        positions = self._session.positions
        is_new = self._session.is_new
        if is_new:
            self._changed.update(dict.fromkeys(self._followed))
        changed: dict[Key, FetchPosition] = {}
        forgotten: list[Key] = []
        for key in self._changed:
            position = self._position(key)
            if position is None:
                if key in positions:
                    forgotten.append(key)
            elif is_new or positions.get(key) != position:
                changed[key] = position
        asked = len(changed)
        if not is_new:
            asked = len(positions) - len(forgotten) + sum(key not in positions for key in changed)
        if not asked:
            # Nothing is sent: the next request, if there is one, carries the changes.
            return None
        self._changed.clear()
        return self._session.request(changed, forgotten)

    def _position(self, key: Key) -> FetchPosition | None:
        partition = self._followed.get(key)
        if partition is None or key in self._paused:
            return None
        if partition.replica.is_throttled_as_follower and self._is_throttled(key, partition):
            return None
        return None if partition.follower is None else partition.follower.fetch_position()

    def _is_throttled(self, key: Key, partition: Partition) -> bool:
        """Whether a throttled partition is left out for now (KIP-73); never while it is in sync."""
        throttle = self._context.throttles.follower
        if self._context.broker_id in partition.replica.in_sync_replicas or not throttle.holds_back():
            return False
        self._paused[key] = self._context.now() + throttle.pause_seconds()
        return True

    def _resume(self) -> None:
        now = self._context.now()
        for key in [key for key, until in self._paused.items() if until <= now]:
            del self._paused[key]
            self._changed[key] = None

    def _pause(self, key: Key, seconds: float | None = None) -> None:
        self._paused[key] = self._context.now() + (self._backoff_seconds if seconds is None else seconds)
        self._changed[key] = None

    def _pause_briefly(self, key: Key) -> None:
        """Pause twice as long each time, up to replica.fetch.backoff.ms."""
        before = self._brief_pauses.get(key, _FIRST_PAUSE_SECONDS / 2)
        seconds = self._brief_pauses[key] = min(2 * before, self._backoff_seconds)
        self._pause(key, seconds)

    async def _wait_for_work(self) -> None:
        """Wait until a partition is added, or the pause of one is over."""
        due = min(self._paused.values(), default=None)
        await self._wait(None if due is None else max(0.0, due - self._context.now()))

    def _wait_ms(self) -> int:
        """The time for which the leader may hold a request: no longer than until a paused partition is due."""
        wait_ms = self._current_settings().replica_fetch_wait_max_ms
        if not self._paused:
            return wait_ms
        left_seconds = min(self._paused.values()) - self._context.now()
        return max(1, min(wait_ms, math.ceil(left_seconds * 1000)))

    async def _fetch(self, request: SessionRequest) -> FetchAnswer:
        settings = self._current_settings()
        context = self._context
        own = context.brokers.get(context.broker_id)
        fetch = ReplicaFetch(
            context.broker_id,
            -1 if own is None else own.epoch,
            self._wait_ms(),
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            settings.replica_fetch_max_bytes,
            *request,
        )
        self.requests += 1
        self._is_fetching, self._is_interrupted = True, False
        try:
            return await self._transport.send(self.leader, ReplicaFetchRequest(fetch))
        finally:
            self._is_fetching = False
            if self._interruption is not None:
                self._interruption.cancel()
                self._interruption = None
                # A partition was added: after a failure, too, the next request does not wait.
                self._is_interrupted = True

    # --- answers -----------------------------------------------------------------------------------------------------

    async def _handle_answer(self, answer: FetchAnswer) -> bool:
        """Append what came; whether the leader accepted the request."""
        code = answer.error_code
        if code:
            was_new = self._session.is_new
            self._session.discard()
            if code in _SESSION_ERRORS and not was_new:
                return True  # the next request opens another; one that opens a session must not be repeated at once
            logger.warning("broker %d answered a fetch with error %d", self.leader, code)
            return False
        asked = self._session.positions
        self._session.advance_epoch(answer.session_id)
        unflushed: list[Log] = []
        appended_bytes = 0
        for one in answer.partitions:
            key = (one.topic_id, one.partition)
            partition, position = self._followed.get(key), asked.get(key)
            self._changed[key] = None
            if partition is None or position is None:
                continue
            follower = partition.follower
            if follower is None or not follower.is_at(position):
                continue
            try:
                if one.error_code:
                    await self._handle_error(key, partition, position, one.error_code)
                    continue
                appended_bytes += self._append_answer(key, partition, follower, position, one)
            except Exception as failure:
                # Also a defect: it must not delay the other partitions, nor end the task that they all need.
                self._log_failure(key, partition, failure)
                continue
            if partition.log.must_flush:
                unflushed.append(partition.log)
            if appended_bytes >= FETCHED_BYTES_PER_TURN_MAX:
                appended_bytes = 0
                await asyncio.sleep(0)
        await self._flush(unflushed)
        return True

    def _log_failure(self, key: Key, partition: Partition, failure: Exception) -> None:
        self.failures += 1
        self._pause(key)
        where = partition.topic_partition
        is_logged = self._failing.get(key) is type(failure)
        self._failing[key] = type(failure)
        if is_logged:
            # It is retried often, and a disk may be full for hours.
            logger.debug("%s still cannot follow broker %d: %s", where, self.leader, failure)
        elif isinstance(failure, KafkaStorageError):
            logger.error("%s cannot follow broker %d: %s", where, self.leader, failure)
        elif isinstance(failure, CorruptRecord):
            logger.warning(
                "%s was sent damaged by broker %d and is asked for again: %s", where, self.leader, failure
            )
        elif isinstance(failure, _CONNECTION_FAILURES):
            logger.warning("%s cannot follow broker %d for now: %s", where, self.leader, failure)
        else:
            logger.error("%s cannot follow broker %d for now", where, self.leader, exc_info=failure)

    async def _handle_error(self, key: Key, partition: Partition, position: FetchPosition, code: int) -> None:
        """Raises as `resolve_out_of_range`."""
        if code == _OFFSET_OUT_OF_RANGE:
            await resolve_out_of_range(
                partition,
                position,
                leader=self.leader,
                broker_id=self._context.broker_id,
                transport=self._transport,
            )
            if partition.follower is not None and partition.follower.is_at(position):
                # The leader has the offset that it called out of range: an immediate retry would repeat that.
                self._pause(key)
            return
        logger.debug("%s: broker %d answered error %d", partition.topic_partition, self.leader, code)
        self.failures += 1
        if code == _FENCED_LEADER_EPOCH:
            # This broker has the older epoch; the newer image adds the partition again.
            self.remove(partition)
        elif code in _NOT_KNOWN_YET:
            self._pause_briefly(key)
        else:
            self._pause(key)

    def _append_answer(
        self,
        key: Key,
        partition: Partition,
        follower: Follower,
        position: FetchPosition,
        answer: PartitionAnswer,
    ) -> int:
        """Append one partition's part of an answer; how many bytes."""
        self._brief_pauses.pop(key, None)
        if answer.diverging_epoch >= 0 or answer.diverging_end_offset >= 0:
            follower.truncate_at_divergence(answer.diverging_epoch, answer.diverging_end_offset)
            if follower.fetch_position() == position:
                self._pause(key)
            return 0
        size = follower.append(
            answer.records,
            leader_high_watermark=answer.high_watermark,
            leader_log_start_offset=answer.log_start_offset,
        )
        if not size and len(answer.records):
            # Not one whole batch: an immediate retry would get the same.
            self._pause(key)
        self.bytes_in += size
        if self._failing and self._failing.pop(key, None) is not None:
            logger.info("%s follows broker %d again", partition.topic_partition, self.leader)
        if partition.replica.is_throttled_as_follower:
            is_in_sync = self._context.broker_id in partition.replica.in_sync_replicas
            self._context.throttles.follower.record(size, is_in_sync=is_in_sync)
        return size

    async def _flush(self, logs: list[Log]) -> None:
        """With flush.messages the next fetch, which acknowledges these records, comes after the flush."""
        for log in logs:
            try:
                await self._context.flusher.flush(log)
            except KafkaStorageError as failure:
                logger.error("%s was not flushed: %s", log.topic_partition, failure)


def _key(partition: Partition) -> Key:
    return partition.topic_id.bytes, partition.topic_partition.partition


class SessionRequest(NamedTuple):
    """The session's part of a request; the mappings are by topic id."""

    session_id: int
    session_epoch: int
    topics: Mapping[bytes, Sequence[tuple[int, FetchPosition]]]
    forgotten: Mapping[bytes, Sequence[int]]


class FetchSessionHandler:
    """The follower's end of a fetch session with one leader (KIP-227); it may outlive connections.

    The first request names every partition and opens a session. Later ones name only partitions with another position,
    and those that are no longer wanted. When the two ends disagree, or an answer was lost, the next request opens a new
    session. A leader whose session cache is full opens none, and each request names everything.
    """

    __slots__ = ("_epoch", "_id", "positions")

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self.positions: dict[Key, FetchPosition] = {}
        """The positions that the leader knows; empty when the next request has to name everything."""

    @property
    def is_new(self) -> bool:
        """Whether the next request has to name everything."""
        return self._epoch == _INITIAL_EPOCH

    def request(self, changed: Mapping[Key, FetchPosition], forgotten: list[Key]) -> SessionRequest:
        """The session's part of the next request. `changed` are all partitions when it `is_new`."""
        if self.is_new:
            self.positions = dict(changed)
            forgotten = []
        else:
            self.positions.update(changed)
            for key in forgotten:
                del self.positions[key]
        topics: dict[bytes, list[tuple[int, FetchPosition]]] = {}
        for (topic_id, index), position in changed.items():
            topics.setdefault(topic_id, []).append((index, position))
        dropped: dict[bytes, list[int]] = {}
        for topic_id, index in forgotten:
            dropped.setdefault(topic_id, []).append(index)
        return SessionRequest(self._id, self._epoch, topics, dropped)

    def advance_epoch(self, session_id: int) -> None:
        """The leader answered; `session_id` is its name for the session, 0 for none."""
        if session_id == _NO_SESSION:
            self.discard()
            return
        self._id = session_id
        self._epoch = 1 if self._epoch >= _EPOCH_MAX else self._epoch + 1

    def restart(self) -> None:
        """An answer was lost: the next request replaces the session."""
        self._epoch = _INITIAL_EPOCH

    def discard(self) -> None:
        """The leader refused the session: the next request opens another."""
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH


async def resolve_out_of_range(
    partition: Partition, position: FetchPosition, *, leader: int, broker_id: int, transport: BrokerTransport
) -> None:
    """Where a follower fetches from when its leader does not have the offset of its fetch.

    Such a leader's log ends before that offset, or starts after it. The follower truncates its log to the leader's end,
    or starts again at the leader's start. Nothing happens once it is no longer at `position`.

    `broker_id` is the follower's. Raises OSError, RequestError and FrameError.
    """

    async def leader_offset(timestamp_ms: int) -> int:
        code, offset = await list_offset(
            transport,
            leader,
            partition.topic_partition,
            timestamp_ms,
            api_version=_LIST_OFFSETS_VERSION,
            replica_id=broker_id,
            leader_epoch=position.leader_epoch,
        )
        if code or offset < 0:
            raise NotLeaderOrFollower(
                f"broker {leader} gives no offset to continue {partition.topic_partition} from (error {code})."
            )
        return offset

    end_offset = await leader_offset(_LATEST)
    follower = partition.follower
    if follower is None or not follower.is_at(position):
        return
    if end_offset < position.fetch_offset:
        follower.truncate_to(end_offset)
        return
    start_offset = await leader_offset(_EARLIEST_LOCAL)
    follower = partition.follower
    if follower is not None and follower.is_at(position) and start_offset > position.fetch_offset:
        follower.truncate_fully_and_start_at(start_offset)
