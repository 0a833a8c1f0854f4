"""A member of a share group (KIP-932): records of a queue, each locked for this member until it answers.

    poll → ShareFetch to each leader → records → acknowledge → with the next fetch, or `commit`

A record that is not answered within the group's lock timeout is delivered again, here or to another member. So is one
that is released, and all that this member holds when it leaves. After `share.delivery.count.limit` deliveries a record
is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal, Self

from odradek.client.client import Client, client_of
from odradek.client.consumer.outage import MissingTopics, Outage
from odradek.client.errors import FETCHED_AGAIN, RETRIABLE_OR_LATE, ClientClosed, ClientTimeout
from odradek.client.last_requests import last_requests
from odradek.client.share.deliveries import Acknowledgement, DeliveredBlock, ShareRecord
from odradek.client.share.held import HeldRecords
from odradek.client.share.membership import ShareMembership
from odradek.client.share.sessions import Answers, ClientShareSession, Failures, ShareBounds, ShareFetched
from odradek.foundation.client_limits import CLIENT_LAST_REQUESTS_SECONDS_MAX
from odradek.foundation.errors import (
    InvalidRecordState,
    InvalidRequest,
    InvalidShareSessionEpoch,
    OdradekError,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownTopicId,
)
from odradek.foundation.ids import TopicPartition
from odradek.foundation.tasks import TaskOwner

logger = logging.getLogger(__name__)

_PASSING: Final = (
    *FETCHED_AGAIN,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
    UnknownTopicId,
)

_PAUSE_SECONDS: Final = 0.1

OnAcknowledged = Callable[[TopicPartition, Collection[int], OdradekError | None], None]
"""Called with the offsets of a partition that were answered, and with why the leader refused the answers."""


class ShareConsumer:
    """`async with ShareConsumer(client, "resize", ["images"]) as consumer:` and in it
    `async for record in consumer: await resize(record.value)`. The loop accepts a record when the next one is asked
    for. A record at which the loop is left is released, with all after it.

    `poll` gives many at once. The next `poll` accepts those that have no answer, and so does `commit`. With
    `is_explicit` each of them needs a call of `acknowledge` before the next `poll`.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        is_explicit: bool = False,
        bounds: ShareBounds | None = None,
        rack_id: str | None = None,
        on_acknowledged: OnAcknowledged | None = None,
    ) -> None:
        self._client = client_of(client, "ShareConsumer")
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of names, as [{topics!r}]")
        self._group_id = group_id
        self._topics = tuple(topics)
        self._is_explicit = is_explicit
        self._bounds = bounds or ShareBounds()
        self._on_acknowledged = on_acknowledged
        self._changed = asyncio.Event()
        self._outage = Outage()
        self._missing_topics = MissingTopics(reader=f"share group {group_id!r}")
        self._membership = ShareMembership(
            client,
            group_id,
            topics,
            rack_id=rack_id,
            outage=self._outage,
            missing_topics=self._missing_topics,
            on_change=self._changed.set,
        )
        self._lane = client.new_lane("share")
        self._sessions: dict[int, ClientShareSession] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}
        """By the broker that is asked; each ends by itself, and its answer waits in `_fetched`."""
        self._resting: dict[int, float] = {}
        """Until when a broker that refused is not asked, in the loop's time."""
        self._fetched: deque[tuple[int, ShareFetched]] = deque()
        self._held = HeldRecords()
        self._tasks = TaskOwner("share consumer", on_failure=self._note_defect)
        self._failure: BaseException | None = None
        self._is_begun = False
        self._is_looping = False
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[ShareRecord]:
        while True:
            passed, records = 0, await self.poll_for_loop()
            try:
                for record in records:
                    yield record
                    self.settle_loop([record], passed=1)
                    passed += 1
            finally:
                self.settle_loop(records[passed:], passed=0)

    async def poll_for_loop(self) -> list[ShareRecord]:
        """As `poll`, for a loop that answers for each record: no other call accepts those that it has not passed."""
        records = await self.poll()
        self._is_looping = bool(records)
        return records

    def settle_loop(self, records: Sequence[ShareRecord], *, passed: int) -> None:
        """Accept the records that a loop has passed, and release the rest. Its body may have answered for some."""
        for number, record in enumerate(records):
            with suppress(InvalidRecordState):
                self._held.answer(
                    record, Acknowledgement.ACCEPT if number < passed else Acknowledgement.RELEASE
                )
        self._is_looping = self._is_looping and self._held.is_any

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        """The partitions whose records this member is given, with others."""
        return tuple(sorted(self._membership.assignment))

    @property
    def member_id(self) -> str:
        return self._membership.member_id

    async def poll(self, *, timeout_ms: int = 1_000) -> list[ShareRecord]:
        """As `poll_blocks`, record by record."""
        blocks = await self.poll_blocks(timeout_ms=timeout_ms)
        return [record for block in blocks for record in block.share_records()]

    async def poll_blocks(self, *, timeout_ms: int = 1_000) -> list[DeliveredBlock]:
        """What the group has for this member, as soon as there is some; the first call joins the group.

        Raises InvalidRequest when records of the call before have no answer and `is_explicit`. Raises what refused this
        member: GroupAuthorizationFailed, or UnsupportedByBroker for a broker without share groups.
        """
        self._check_open()
        self._settle()
        if not self._is_begun:
            self._is_begun = True
            self._tasks.start(self._membership.run(), name="heartbeats")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while True:
            if (failure := self._failure or self._membership.failure) is not None:
                raise failure
            if blocks := self._take():
                return blocks
            self._changed.clear()
            await self._start_fetches(deadline)
            left_seconds = deadline - loop.time()
            if left_seconds <= 0 and not self._fetched:
                return []
            try:
                async with asyncio.timeout(max(left_seconds, 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def acknowledge(
        self, record: ShareRecord, answer: Acknowledgement | Literal["accept", "release", "reject", "renew"]
    ) -> None:
        """Answer for one record of the last `poll`. The answer goes with the next fetch, or with `commit`.

        A record that is renewed needs another answer later. Raises InvalidRecordState for a record that this consumer
        does not hold, InvalidRequest for a renewal unless `is_explicit`.
        """
        self._check_open()
        kind = answer if isinstance(answer, Acknowledgement) else Acknowledgement[answer.upper()]
        if kind is Acknowledgement.RENEW and not self._is_explicit:
            raise InvalidRequest(
                "only a consumer with is_explicit=True renews: else the next poll accepts the record"
            )
        self._held.answer(record, kind)

    async def commit(self) -> dict[TopicPartition, OdradekError | None]:
        """Send all answers now: by partition, why they were refused, or None. A refused record is delivered again.

        Records without an answer are accepted here, unless `is_explicit`, or a loop over this consumer is at work.
        """
        self._check_open()
        if not (self._is_explicit or self._is_looping):
            self._held.accept_all()
        found: Failures = {}
        for broker_id in self._held.brokers:
            found |= await self._send_answers(broker_id)
        return found

    async def close(self) -> None:
        """Send the answers that were given, release all other records, and leave the group."""
        if self._closed:
            return
        self._closed = True
        interrupted = set(self._fetches)
        await self._tasks.close()
        try:
            # Behind a fetch that waits the last request would wait too. The session ends with its connection.
            brokers = [one for one in self._sessions if one not in interrupted or one in self._held.brokers]
            # A broker that does not answer keeps no answers from the others.
            await asyncio.gather(*(self._send_answers(broker_id, is_last=True) for broker_id in brokers))
            async with last_requests(self._note_silent_leave):
                await self._membership.leave()
        finally:
            await self._client.release_lane(self._lane)

    def _note_silent_leave(self, why: str) -> None:
        logger.info("share group %s was not notified of the leave: %s", self._group_id, why)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the share consumer is closed")

    def _settle(self) -> None:
        """Accept what the caller holds, or refuse to continue without its answers."""
        if self._is_explicit:
            self._held.require_answers()
        elif not self._is_looping:
            self._held.accept_all()

    async def _send_answers(self, broker_id: int, *, is_last: bool = False) -> Failures:
        """Send the answers for one broker. With `is_last` the session ends."""
        answers = self._held.take_answers(broker_id)
        session = self._sessions.get(broker_id)
        if session is None or not (answers or is_last):
            return {}
        try:
            found = await (_end(session, answers) if is_last else session.acknowledge(answers))
        except OdradekError as failure:
            found = dict.fromkeys(answers, failure)
            self._note_refusal(broker_id, failure, answers)
        self._report(answers, found)
        return found

    def _report(self, answers: Answers, found: Failures) -> None:
        for key, failure in found.items():
            offsets = answers.get(key, {})
            if failure is not None:
                logger.warning(
                    "share group %s: %d answers for %s were refused, the records are delivered again: %s",
                    self._group_id,
                    len(offsets),
                    key,
                    failure,
                )
            if self._on_acknowledged is not None:
                self._on_acknowledged(key, offsets.keys(), failure)

    # --- fetches -----------------------------------------------------------------------------------------------------

    def _take(self) -> list[DeliveredBlock]:
        """The records of the oldest answers. Those whose locks have ended belong to others by now."""
        while self._fetched:
            broker_id, fetched = self._fetched.popleft()
            if fetched.locked_until <= asyncio.get_running_loop().time():
                continue
            self._held.add(broker_id, fetched.deliveries)
            if blocks := [block for delivery in fetched.deliveries.values() for block in delivery.blocks]:
                return blocks
        return []

    async def _start_fetches(self, deadline: float) -> None:
        """Ask every leader that is not asked yet; answers go along."""
        now = asyncio.get_running_loop().time()
        wanted: dict[int, list[TopicPartition]] = {}
        assignment = self._membership.assignment
        self._outage.keep(assignment, now=now)
        topics = sorted({key.topic for key in assignment})
        try:
            cluster = await self._client.topics(topics)
        except RETRIABLE_OR_LATE as failure:
            self._outage.note_failure(list(assignment), failure, now=now)
            self._wake_later(_PAUSE_SECONDS)
            return
        self._missing_topics.find_deleted(topics, cluster, now=now)
        for key in sorted(assignment):
            found = cluster.find_partition(key)
            if found is None or found.leader < 0:
                self._client.invalidate()
                self._wake_later(_PAUSE_SECONDS)
            else:
                wanted.setdefault(found.leader, []).append(key)
        for broker_id in self._held.brokers:
            # A renewal goes with no fetch, and a broker that leads nothing here any more gets no fetch.
            if self._held.has_renewal(broker_id) or broker_id not in wanted:
                await self._send_answers(broker_id)
        for broker_id, keys in wanted.items():
            if broker_id in self._fetches:
                continue
            if (rest_seconds := self._resting.get(broker_id, 0.0) - now) > 0:
                self._wake_later(rest_seconds)
                continue
            wait_ms = min(max(round((deadline - now) * 1000), 1), self._bounds.wait_ms_max)
            task = self._tasks.start(self._fetch(broker_id, keys, wait_ms), name=f"fetch from {broker_id}")
            self._fetches[broker_id] = task

    async def _fetch(self, broker_id: int, keys: Sequence[TopicPartition], wait_ms: int) -> None:
        session = self._sessions.get(broker_id)
        if session is None:
            session = self._sessions[broker_id] = ClientShareSession(
                self._client,
                broker_id,
                group_id=self._group_id,
                member_id=self._membership.member_id,
                bounds=self._bounds,
                lane=self._lane,
            )
        answers = self._held.take_answers(broker_id)
        try:
            fetched = await session.fetch(keys, answers, wait_ms_max=wait_ms)
        except OdradekError as failure:
            self._report(answers, dict.fromkeys(answers, failure))
            self._note_refusal(broker_id, failure, keys)
        else:
            for key in keys:
                self._outage.note_answer(key, now=asyncio.get_running_loop().time())
            self._report(answers, fetched.acknowledged)
            self._note_failures(broker_id, fetched)
            self._fetched.append((broker_id, fetched))
        finally:
            del self._fetches[broker_id]
            self._changed.set()

    def _note_refusal(self, broker_id: int, failure: OdradekError, asked: Iterable[TopicPartition]) -> None:
        """A request was refused as a whole: what passes is tried again after a rest, another error reaches `poll`."""
        if not isinstance(failure, _PASSING):
            self._failure = self._failure or failure
            self._changed.set()
            return
        loop = asyncio.get_running_loop()
        session = self._sessions.get(broker_id)
        if session is not None and not session.is_open:
            self._held.forget_of(broker_id)
        if isinstance(failure, FETCHED_AGAIN):
            self._client.invalidate()
            self._outage.note_failure(asked, failure, now=loop.time())
        self._resting[broker_id] = loop.time() + _PAUSE_SECONDS

    def _note_defect(self, _: str, failure: BaseException) -> None:
        """A task ended with a defect; the next `poll` raises it."""
        self._failure = self._failure or failure
        self._changed.set()

    def _note_failures(self, broker_id: int, fetched: ShareFetched) -> None:
        if fetched.failures:
            logger.debug("share group %s: broker %d: %s", self._group_id, broker_id, fetched.failures)
            self._client.invalidate()
            self._resting[broker_id] = asyncio.get_running_loop().time() + _PAUSE_SECONDS

    def _wake_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._changed.set)


async def _end(session: ClientShareSession, answers: Answers) -> Failures:
    """End a session with its last answers. Raises ClientTimeout soon: the locks end by themselves."""
    try:
        async with asyncio.timeout(CLIENT_LAST_REQUESTS_SECONDS_MAX):
            return await session.end(answers)
    except TimeoutError:
        raise ClientTimeout(
            f"no answer within {CLIENT_LAST_REQUESTS_SECONDS_MAX:g} s; the records are delivered again"
        ) from None
