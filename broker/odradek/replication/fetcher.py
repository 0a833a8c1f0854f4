"""Pulls from one other broker all partitions that it leads and that are kept here too: one task, one request at a time.

Each turn asks for many partitions at once (KIP-227), from where each log ends and with the epoch of its last record;
the leader answers with records or with the place where the two logs part. A partition in trouble is left out for
replica.fetch.backoff.ms and holds up nobody; after a lost connection all pause. A leader that has not heard yet that it
leads is asked again much sooner, and a partition that is added does not wait until a question that is on its way is
answered: producers wait for this follower. What a role change or a deletion
overtakes is not taken: an answer counts only while the partition still is where it was asked from.

How requests get there (`way`) is handed in. What it leaves out: where a follower goes on whose offset its leader does
not have (`out_of_range`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Final

from odradek.foundation.errors import (
    CorruptRecord,
    FrameError,
    KafkaStorageError,
    NotLeaderOrFollower,
    RequestError,
)
from odradek.foundation.limits import FETCHED_BYTES_PER_TURN_MAX
from odradek.foundation.settings import Settings
from odradek.log.log import Log
from odradek.protocol.replica_fetch import (
    FetchAnswer,
    PartitionAnswer,
    ReplicaFetch,
    pack_replica_fetch,
    parse_fetch_answer,
)
from odradek.replication.context import ReplicaContext
from odradek.replication.fetch_session import FetchSession, Key, SessionRequest
from odradek.replication.follower import FetchPosition
from odradek.replication.out_of_range import find_place
from odradek.replication.partition import Partition
from odradek.replication.way import Way

logger = logging.getLogger(__name__)

_OFFSET_OUT_OF_RANGE: Final = 1
_FENCED_LEADER_EPOCH: Final = 74
# UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, UNKNOWN_LEADER_EPOCH, UNKNOWN_TOPIC_ID: most likely the news, as
# of a topic that was made just now, are still on their way to the leader.
_NOT_YET: Final = frozenset({3, 6, 75, 100})
_FIRST_PAUSE_SECONDS: Final = 0.01
# How long a question may still wait for its answer once there is more to ask.
_GRACE_SECONDS: Final = 0.02
_SESSION_ERRORS: Final = frozenset({70, 71, 106})  # unknown id, wrong epoch, other kind of topic names

_TROUBLE: Final = (OSError, RequestError, FrameError)


class Fetcher:
    """Of one leader. `add` and `remove` may be called at any time; `run` is its task."""

    def __init__(
        self,
        leader: int,
        *,
        context: ReplicaContext,
        way: Way,
        current_settings: Callable[[], Settings],
    ) -> None:
        self.leader = leader
        self._context = context
        self._way = way
        self._current_settings = current_settings
        self._client_id = b"broker-%d-fetcher" % context.broker_id
        self._session = FetchSession()
        self._followed: dict[Key, Partition] = {}
        # Those whose place may be another than the session has.
        self._changed: dict[Key, None] = {}
        # Those in trouble, and until when they are left out.
        self._paused: dict[Key, float] = {}
        # Of those whose leader does not know of it yet, how long they were left out last.
        self._hesitant: dict[Key, float] = {}
        # Those whose last answer could not be taken, and for what kind of reason: each is told once.
        self._troubled: dict[Key, type[Exception]] = {}
        self._work = asyncio.Event()
        self._is_asking = False
        self._interruption: asyncio.TimerHandle | None = None
        self._is_interrupted = False
        self._is_in_trouble = False
        self.requests = 0
        self.bytes_in = 0
        self.failures = 0

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition) -> None:
        """Follow `partition` from here on, from where it is; also after its epoch changed."""
        key = _key(partition)
        self._followed[key] = partition
        self._paused.pop(key, None)
        self._hesitant.pop(key, None)
        self._changed[key] = None
        self._work.set()
        if self._is_asking and self._interruption is None:
            self._interruption = asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._interrupt)

    def remove(self, partition: Partition) -> None:
        """Follow it no more."""
        key = _key(partition)
        if self._followed.get(key) is partition:
            del self._followed[key]
            self._paused.pop(key, None)
            self._hesitant.pop(key, None)
            self._troubled.pop(key, None)
            self._changed[key] = None

    def touch(self, partition: Partition) -> None:
        """Its log starts elsewhere, which the next request tells."""
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
            try:
                answer = await self._ask(request)
            except _TROUBLE as failure:
                self._session.broke_off()
                if self._is_interrupted:
                    continue
                self.failures += 1
                self._tell_trouble(failure)
                await self._rest(self._backoff_seconds)
                continue
            self._tell_trouble(None)
            if not await self._take(answer):
                await self._rest(self._backoff_seconds)

    def _interrupt(self) -> None:
        """There is more to ask: give up what waits at the leader for records, and ask anew."""
        self._interruption = None
        self._is_interrupted = True
        self._way.interrupt(self.leader)

    async def _rest(self, seconds: float | None) -> None:
        """Wait so long, or until a partition is added, which may be what was wrong."""
        self._work.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._work.wait()
        except TimeoutError:
            return

    @property
    def _backoff_seconds(self) -> float:
        return self._current_settings().replica_fetch_backoff_ms / 1000

    def _tell_trouble(self, failure: Exception | None) -> None:
        """One line when a leader is not reached any more, and one when it is again."""
        if failure is not None and not self._is_in_trouble:
            logger.warning(
                "fetching from broker %d failed and is tried again until it works: %s", self.leader, failure
            )
        elif failure is None and self._is_in_trouble:
            logger.info("fetching from broker %d works again", self.leader)
        self._is_in_trouble = failure is not None

    # --- asking ------------------------------------------------------------------------------------------------------

    def _next_request(self) -> SessionRequest | None:
        """What the next request has to say of the partitions that it asks for; None when there are none."""
        self._resume()
        told = self._session.told
        is_new = self._session.is_new
        if is_new:
            self._changed.update(dict.fromkeys(self._followed))
        changed: dict[Key, FetchPosition] = {}
        forgotten: list[Key] = []
        for key in self._changed:
            position = self._position(key)
            if position is None:
                if key in told:
                    forgotten.append(key)
            elif is_new or told.get(key) != position:
                changed[key] = position
        asked = len(changed)
        if not is_new:
            asked = len(told) - len(forgotten) + sum(key not in told for key in changed)
        if not asked:
            # Nothing is sent: what was to be said is said with the next request, if there is one.
            return None
        self._changed.clear()
        return self._session.request(changed, forgotten)

    def _position(self, key: Key) -> FetchPosition | None:
        partition = self._followed.get(key)
        if partition is None or key in self._paused:
            return None
        if partition.is_throttled_as_follower and self._has_to_wait(key, partition):
            return None
        try:
            return partition.fetch_position()
        except NotLeaderOrFollower:
            return None

    def _has_to_wait(self, key: Key, partition: Partition) -> bool:
        """Whether a throttled partition is left out for now (KIP-73); never while it is in sync."""
        throttle = self._context.throttles.follower
        if self._context.broker_id in partition.in_sync_replicas or not throttle.holds_back():
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
        """Twice as long each time, up to the usual."""
        before = self._hesitant.get(key, _FIRST_PAUSE_SECONDS / 2)
        seconds = self._hesitant[key] = min(2 * before, self._backoff_seconds)
        self._pause(key, seconds)

    async def _wait_for_work(self) -> None:
        """Until a partition is added, or the pause of one is over."""
        due = min(self._paused.values(), default=None)
        await self._rest(None if due is None else max(0.0, due - self._context.now()))

    def _wait_ms(self) -> int:
        """How long the leader may keep a question: no longer than until a partition that is left out is due."""
        wait_ms = self._current_settings().replica_fetch_wait_max_ms
        if not self._paused:
            return wait_ms
        left_seconds = min(self._paused.values()) - self._context.now()
        return max(1, min(wait_ms, math.ceil(left_seconds * 1000)))

    async def _ask(self, request: SessionRequest) -> FetchAnswer:
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

        def pack(correlation_id: int) -> bytes:
            return pack_replica_fetch(fetch, correlation_id=correlation_id, client_id=self._client_id)

        self.requests += 1
        self._is_asking, self._is_interrupted = True, False
        try:
            return parse_fetch_answer(await self._way.send_frame(self.leader, pack))
        finally:
            self._is_asking = False
            if self._interruption is not None:
                self._interruption.cancel()
                self._interruption = None

    # --- taking ------------------------------------------------------------------------------------------------------

    async def _take(self, answer: FetchAnswer) -> bool:
        """Take over what came; whether the leader answered what was asked."""
        code = answer.error_code
        if code:
            self._session.refused()
            if code in _SESSION_ERRORS:
                return True
            logger.warning("broker %d answered a fetch with error %d", self.leader, code)
            return False
        asked = self._session.told
        self._session.answered(answer.session_id)
        unflushed: list[Log] = []
        taken_bytes = 0
        for one in answer.partitions:
            key = (one.topic_id, one.partition)
            partition, position = self._followed.get(key), asked.get(key)
            self._changed[key] = None
            if partition is None or position is None or not partition.is_at(position):
                continue
            try:
                if one.error_code:
                    await self._take_error(key, partition, position, one.error_code)
                    continue
                taken_bytes += self._take_answer(key, partition, position, one)
            except Exception as failure:
                # Also a fault of ours: it must not hold up the others, nor end the task that they all need.
                self._tell_failure(key, partition, failure)
                continue
            if partition.log.must_flush:
                unflushed.append(partition.log)
            if taken_bytes >= FETCHED_BYTES_PER_TURN_MAX:
                taken_bytes = 0
                await asyncio.sleep(0)
        await self._flush(unflushed)
        return True

    def _tell_failure(self, key: Key, partition: Partition, failure: Exception) -> None:
        self.failures += 1
        self._pause(key)
        where = partition.topic_partition
        is_told = self._troubled.get(key) is type(failure)
        self._troubled[key] = type(failure)
        if is_told:
            # It is tried often, and a disk may be full for hours.
            logger.debug("%s still cannot follow broker %d: %s", where, self.leader, failure)
        elif isinstance(failure, KafkaStorageError):
            logger.error("%s cannot follow broker %d: %s", where, self.leader, failure)
        elif isinstance(failure, CorruptRecord):
            logger.warning(
                "%s was sent damaged by broker %d and is asked for again: %s", where, self.leader, failure
            )
        elif isinstance(failure, _TROUBLE):
            logger.warning("%s cannot follow broker %d for now: %s", where, self.leader, failure)
        else:
            logger.error("%s cannot follow broker %d for now", where, self.leader, exc_info=failure)

    async def _take_error(self, key: Key, partition: Partition, position: FetchPosition, code: int) -> None:
        """Raises what finding another place raises."""
        if code == _OFFSET_OUT_OF_RANGE:
            await find_place(
                partition, position, leader=self.leader, broker_id=self._context.broker_id, way=self._way
            )
            if partition.is_at(position):
                # The leader has what it says it has not: asking again at once would go round in a circle.
                self._pause(key)
            return
        logger.debug("%s: broker %d answered error %d", partition.topic_partition, self.leader, code)
        self.failures += 1
        if code == _FENCED_LEADER_EPOCH:
            # This broker is the one that is behind; the image that tells so brings the partition back.
            self.remove(partition)
        elif code in _NOT_YET:
            self._pause_briefly(key)
        else:
            self._pause(key)

    def _take_answer(
        self, key: Key, partition: Partition, position: FetchPosition, answer: PartitionAnswer
    ) -> int:
        """How many bytes were taken."""
        self._hesitant.pop(key, None)
        if answer.diverging_epoch >= 0 or answer.diverging_end_offset >= 0:
            partition.truncate_at_divergence(answer.diverging_epoch, answer.diverging_end_offset)
            if partition.fetch_position() == position:
                self._pause(key)
            return 0
        size = partition.append_fetched(
            answer.records,
            leader_high_watermark=answer.high_watermark,
            leader_log_start_offset=answer.log_start_offset,
        )
        if not size and len(answer.records):
            # Not one whole batch: asking again at once would bring the same.
            self._pause(key)
        self.bytes_in += size
        if self._troubled and self._troubled.pop(key, None) is not None:
            logger.info("%s follows broker %d again", partition.topic_partition, self.leader)
        if partition.is_throttled_as_follower:
            is_in_sync = self._context.broker_id in partition.in_sync_replicas
            self._context.throttles.follower.record(size, is_in_sync=is_in_sync)
        return size

    async def _flush(self, logs: list[Log]) -> None:
        """With flush.messages the next fetch, which tells the leader what is here, comes after the flush."""
        for log in logs:
            try:
                await self._context.flusher.flush(log)
            except KafkaStorageError as failure:
                logger.error("%s was not flushed: %s", log.topic_partition, failure)


def _key(partition: Partition) -> Key:
    return partition.topic_id.bytes, partition.topic_partition.partition
