"""One worker of one flow: a member of a group at the target, and the copying of the partitions that it is given.

The order of a start is what makes it safe:

    1. join the group, and learn the partitions
    2. take the transactional id: what its last holder has open is ended, and it is refused from then on
    3. read the positions, and wait for those that belong to an open transaction
    4. read the source from there

After any error, or when the group changes, the worker ends or aborts what is open, forgets all, and begins again. While
it is still a member it begins at 2. Nothing is ever written again under another producer id.

The group's leader gives its members their shares. All partitions are dealt in order to the members one by one, so that
each topic and the whole are even. Each member also gets its number among the members. Its transactional id ends with
it: a few ids serve any number of workers. A worker that starts ends what a dead one with its number left open.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from odradek.client.consumer.membership import Membership
from odradek.client.consumer.outage import Outage
from odradek.client.errors import RETRIABLE_OR_LATE
from odradek.client.last_requests import last_requests
from odradek.client.producer.transaction_requests import TransactionRequests
from odradek.foundation.errors import IllegalGeneration, OdradekError, RebalanceInProgress, UnknownMemberId
from odradek.foundation.ids import TopicPartition
from odradek.foundation.mirror_limits import (
    MIRROR_DAMAGED_READS_MAX,
    MIRROR_HEARTBEAT_MS,
    MIRROR_IDS_ENDED_MAX,
    MIRROR_REBALANCE_MS,
    MIRROR_RETRY_PAUSE_MS_MAX,
    MIRROR_RETRY_PAUSE_MS_MIN,
    MIRROR_SESSION_MS,
    MIRROR_STOP_SECONDS_MAX,
)
from odradek.foundation.tasks import TaskOwner
from odradek.foundation.transaction_errors import InvalidProducerEpoch, ProducerFenced
from odradek.mirror.copying import Copying, FlowParts
from odradek.mirror.counters import ABORTED
from odradek.mirror.errors import DAMAGED, BatchRefused, MirrorRefused, PartitionStopped
from odradek.mirror.positions import Mismatch
from odradek.mirror.target_writer import TargetWriter
from odradek.mirror.topic_sync import target_partitions

logger = logging.getLogger(__name__)

_NUMBER: Final = "number"
_MEMBERS: Final = "members"

REJOIN: Final = (RebalanceInProgress, IllegalGeneration, UnknownMemberId)
FENCED: Final = (ProducerFenced, InvalidProducerEpoch)


class WorkerState(StrEnum):
    """The present state of a worker. `WAITING`: after an error, before the next try."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting"
    FAILED = "failed"
    STOPPED = "stopped"


class Worker:
    """Runs one flow on this process. `run` returns after `stop`, or raises what no further try can mend."""

    def __init__(
        self,
        parts: FlowParts,
        *,
        prepare_topics: Callable[[], Awaitable[None]],
        on_state: Callable[[WorkerState], None],
    ) -> None:
        self._parts = parts
        self._prepare_topics = prepare_topics
        self._on_state = on_state
        self._membership = Membership(
            parts.target,
            parts.group_id,
            instance_id=None,
            session_timeout_ms=MIRROR_SESSION_MS,
            rebalance_timeout_ms=MIRROR_REBALANCE_MS,
            outage=Outage(),
        )
        self._tasks = TaskOwner(f"worker of {parts.settings.label}")
        self._must_join = True
        self._must_look = True
        self._stopping = asyncio.Event()
        self._stop_bound: asyncio.Timeout | None = None
        self._share: tuple[Sequence[TopicPartition], Place] | None = None
        self._refused: dict[TopicPartition, Mismatch] = {}
        self._refusals: Counter[TopicPartition] = Counter()
        self._renewed: set[TopicPartition] = set()
        self._is_joining = False
        self._copying: Copying | None = None
        self.is_leader = False

    @property
    def is_current(self) -> bool:
        """Whether the partitions are this worker's, as far as it knows."""
        return not self._must_join and not self._is_joining

    def stop(self) -> None:
        """End after the open transaction, or without it if it takes longer than `MIRROR_STOP_SECONDS_MAX`."""
        if not self._stopping.is_set():
            self._stopping.set()
            if self._stop_bound is not None:
                self._stop_bound.reschedule(asyncio.get_running_loop().time() + MIRROR_STOP_SECONDS_MAX)

    def look_again(self) -> None:
        """Look at the source's topics again, and share out what changed."""
        self._must_look = self._must_join = True

    def stop_partition(self, source: TopicPartition, kind: str, what: str) -> PartitionStopped:
        """Note that a partition is not mirrored any more, or begins again in the next generation; for the reader."""
        assert self._copying is not None
        # Damage stays where it is: to begin again would only lead to it again, with a rebalance each time.
        if kind != DAMAGED and self._parts.is_renewable(source.topic):
            logger.info("partition %s begins again: %s", source, what)
            self._renewed.add(source)
            self._must_join = True
            return PartitionStopped(what, kind=kind)
        stopped = self._copying.stop(source, kind, what)
        logger.error("%s", stopped)
        return stopped

    async def renew_rules(self) -> None:
        """Learn again what the target's topics take."""
        if self._copying is not None:
            await self._copying.renew_rules()

    async def run(self) -> None:
        """Join, copy, and again, until `stop`."""
        self._tasks.start(self._heartbeats(), name="heartbeats")
        try:
            async with asyncio.timeout(None) as stop_bound:
                self._stop_bound = stop_bound
                await self._generations()
        except TimeoutError:
            if not stop_bound.expired():
                raise
            logger.warning(
                "%s: the open transaction did not end within %g s and is aborted: its records are copied again",
                self._parts.settings.label,
                MIRROR_STOP_SECONDS_MAX,
            )
        finally:
            self._stop_bound = None
            await self._close()

    async def _generations(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                await self._generation()
                failures = 0
            except MirrorRefused:
                raise
            except REJOIN as failure:
                logger.info("%s: the group changes: %s", self._parts.group_id, failure)
                self._forget(failure)
            except OdradekError as failure:
                if isinstance(failure, BatchRefused):
                    self._note_refusal(failure)
                self._note(failure)
                failures = 0 if isinstance(failure, FENCED) else failures + 1
                self._on_state(WorkerState.WAITING)
                await self._pause(failures)

    async def _close(self) -> None:
        await self._tasks.close()
        try:
            async with last_requests(self._note_silent_leave):
                await self._membership.leave()
        finally:
            await self._membership.close()

    def _note_silent_leave(self, why: str) -> None:
        logger.info("group %s was not notified of the leave: %s", self._parts.group_id, why)

    # --- one generation -------------------------------------------------------------------------------------------

    async def _generation(self) -> None:
        if self._must_join:
            self._parts.counters.clear_assignment()
        if self._must_look:
            await self._prepare_topics()
            self._must_look = False
        if self._must_join or self._share is None:
            self._share = await self._join()
        else:
            await self._membership.heartbeat()
        partitions, place = self._share
        writer = self._writer(place)
        try:
            await writer.start()
            if self.is_leader:
                await self._end_ids_behind(place)
            copying = Copying(self._parts, writer, must_end=self._is_over)
            self._copying = copying
            try:
                await copying.begin(partitions, refused=self._refused, renewed=self._renewed)
                self._renewed.clear()
            except OdradekError:
                self._must_look = True  # the topics may have changed
                raise
            self._on_state(WorkerState.RUNNING)
            logger.info(
                "%s: generation %d, worker %d of %d, %d partitions",
                self._parts.group_id,
                self._membership.generation,
                place.number + 1,
                place.members,
                len(partitions),
            )
            await copying.run()
        finally:
            if writer.is_open and self._parts.settings.is_exactly_once:
                self._parts.counters.transactions[ABORTED] += 1
            await writer.close()

    async def _join(self) -> tuple[Sequence[TopicPartition], Place]:
        self._must_join, self._share, self._is_joining = False, None, True
        try:
            return await self._join_group()
        finally:
            self._is_joining = False

    async def _join_group(self) -> tuple[Sequence[TopicPartition], Place]:
        joined = await self._membership.join(sorted(self._parts.topics.topics))
        self.is_leader = joined.is_leader
        shares = {}
        if joined.is_leader:
            members = [member.member_id for member in joined.members]
            shares = share_out(members, target_partitions(self._parts.topics.topics))
        partitions = await self._membership.synchronize(
            joined,
            {member: share for member, (share, _) in shares.items()},
            user_data={member: encode_place(place) for member, (_, place) in shares.items()},
        )
        if any(key.topic not in self._parts.topics.topics for key in partitions):
            await self._prepare_topics()
        return partitions, decode_place(self._membership.given_data)

    def _is_over(self) -> bool:
        return self._must_join or self._stopping.is_set()

    def _writer(self, place: Place) -> TargetWriter:
        settings = self._parts.settings
        return TargetWriter(
            self._parts.target,
            membership=self._membership,
            group_id=self._parts.group_id,
            transactional_id=self._transactional_id(place.number) if settings.is_exactly_once else None,
            timeout_ms=settings.transaction_timeout_ms,
            on_failure=lambda key, failure: self._parts.counters.note_failure(
                type(failure).__name__, f"partition {key} of the target: {failure}"
            ),
        )

    def _transactional_id(self, number: int) -> str:
        return f"{self._parts.group_id}.{number}"

    async def _end_ids_behind(self, place: Place) -> None:
        """End what workers of a larger group left open. Their positions would wait for the transaction's timeout."""
        settings = self._parts.settings
        if not settings.is_exactly_once:
            return
        for number in range(place.members, place.members + MIRROR_IDS_ENDED_MAX):
            await TransactionRequests(
                self._parts.target, self._transactional_id(number), timeout_ms=settings.transaction_timeout_ms
            ).initialize()

    # --- membership -----------------------------------------------------------------------------------------------

    async def _heartbeats(self) -> None:
        while True:
            await asyncio.sleep(MIRROR_HEARTBEAT_MS / 1000)
            if self._must_join or self._is_joining or self._membership.generation < 0:
                continue
            try:
                await self._membership.heartbeat()
            except REJOIN as failure:
                logger.info("%s: the group changes: %s", self._parts.group_id, failure)
                self._forget(failure)
            except RETRIABLE_OR_LATE as failure:
                logger.debug("%s: a heartbeat failed: %s", self._parts.group_id, failure)
            except OdradekError as failure:
                self._note(failure)
                self._must_join = True

    def _forget(self, failure: OdradekError) -> None:
        self._must_join = True
        if isinstance(failure, RebalanceInProgress):
            return
        self._parts.counters.fencings += 1
        self._membership.forget(is_member=isinstance(failure, IllegalGeneration))

    def _note_refusal(self, failure: BatchRefused) -> None:
        """Stop a partition whose batch was refused several times, although it was read again by the target's rules of
        then. Others continue without it.
        """
        self._refusals[failure.partition] += 1
        if self._refusals[failure.partition] >= MIRROR_DAMAGED_READS_MAX:
            self._refused[failure.partition] = Mismatch(failure.kind, failure.what)

    def _note(self, failure: OdradekError) -> None:
        if isinstance(failure, FENCED):
            self._must_join = True
            self._parts.counters.fencings += 1
        self._parts.counters.note_failure(type(failure).__name__, str(failure))
        logger.warning("%s: %s; begins again", self._parts.settings.label, failure)

    async def _pause(self, failures: int) -> None:
        pause_ms = min(MIRROR_RETRY_PAUSE_MS_MIN << min(failures, 10), MIRROR_RETRY_PAUSE_MS_MAX)
        try:
            async with asyncio.timeout(pause_ms / 1000 * self._parts.target.random.uniform(0.8, 1.2)):
                await self._stopping.wait()
        except TimeoutError:
            return


class Place(NamedTuple):
    """A member's number, from 0 on, and how many members there are."""

    number: int
    members: int


def share_out(
    member_ids: Sequence[str], partitions: Sequence[TopicPartition]
) -> dict[str, tuple[list[TopicPartition], Place]]:
    """The partitions and the place of each member. All members compute the same from the same."""
    members = sorted(member_ids)
    count = len(members)
    return {
        member: (list(partitions[number::count]), Place(number, count))
        for number, member in enumerate(members)
    }


def encode_place(place: Place) -> bytes:
    """The place as the user data of an assignment."""
    return json.dumps({_NUMBER: place.number, _MEMBERS: place.members}).encode()


def decode_place(data: bytes | None) -> Place:
    """The place from the user data; that of an only member where there is none."""
    try:
        found = json.loads(data or b"{}")
        return Place(int(found[_NUMBER]), int(found[_MEMBERS]))
    except (ValueError, KeyError, TypeError):
        return Place(0, 1)
