"""One share-partition at work: it loads its state, gives records to members, and stores what becomes of them.

    loading -> active -> closed         by another leader, the end of the topic or of the group's last session

It listens to its replica like a fetch that waits: new records and changes of the role come from there. Fetches of
members register in `waiting`. Whatever makes records available asks them one after the other, so that one record does
not wake all members. One timer ends locks.

What it leaves out: sessions (`sessions`), and the answers of requests.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from odradek.broker.replication.blocking import BlockingWork
from odradek.broker.replication.partition import Partition
from odradek.broker.share_states.states import NOT_STARTED, ShareKey, ShareStates
from odradek.broker.shares import acknowledgement
from odradek.broker.shares.acknowledgement import AcknowledgedBatch, DeadLetter, DeliveryRules, PendingChange
from odradek.broker.shares.acquisition import AcquiredRange, Terms, acquire
from odradek.broker.shares.dead_letters import DeadLetterQueue, DeadLetters
from odradek.broker.shares.group_rules import GroupRules, find_start_offset
from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.record_batches import RecordBatches
from odradek.broker.shares.share_counts import ShareCounts
from odradek.broker.shares.state_writer import REPLACED, StateWriter, as_seen_by_members
from odradek.foundation.error_values import without_trace
from odradek.foundation.errors import NotLeaderOrFollower, OdradekError, OffsetOutOfRange
from odradek.foundation.named_tuple import NamedTuple
from odradek.foundation.tasks import TaskOwner
from odradek.storage.files import FileSlice

logger = logging.getLogger(__name__)

# Fetches that wait which are asked in one turn of the loop, at some 20 microseconds each.
_OFFERS_PER_TURN_MAX: Final = 100


class WaitingMember(Protocol):
    """A fetch that waits for a share-partition."""

    def offer(self, share_partition: SharePartition) -> None:
        """It may have records to acquire, or an error to learn. The fetch leaves `waiting` when it is answered."""
        ...


class Wanted(NamedTuple):
    """What one fetch asks of each share-partition."""

    member: str
    records_max: int
    batch_size: int
    is_strict: bool


class Readable(NamedTuple):
    """What a member could acquire from: records from `fetch_offset` on, not acquired yet."""

    fetch_offset: int
    records: FileSlice


class SharePartitionParts(NamedTuple):
    """What all share-partitions of a broker use."""

    states: ShareStates
    dead_letters: DeadLetters
    counts: ShareCounts
    blocking: BlockingWork
    tasks: TaskOwner
    wall_ms: Callable[[], int]


class SharePartition:
    """`current_rules` gives the group's settings of now, `on_closed` is called once when it ends by itself. `after` is
    what still writes for the share-partition that was here before: a late write would undo what this one has stored.
    `on_idle` is called when no dead letter is under way any more.
    """

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        parts: SharePartitionParts,
        *,
        current_rules: Callable[[], GroupRules],
        on_closed: Callable[[SharePartition], None],
        on_idle: Callable[[SharePartition], None],
        after: asyncio.Task[None] | None = None,
    ) -> None:
        self.key = key
        self.partition = partition
        self._parts = parts
        self._current_rules = current_rules
        self._on_closed = on_closed
        self._on_idle = on_idle
        self._after = after
        self._loop = asyncio.get_running_loop()
        self._led_since = partition.led_since_epoch
        self._in_flight: InFlight | None = None
        self._writer: StateWriter | None = None
        self.failure: Exception | None = None
        """Why it is closed."""
        self.waiting: dict[WaitingMember, None] = {}
        self._is_offering = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self.dead_letters = DeadLetterQueue(
            key,
            partition.topic_partition.topic,
            dead_letters=parts.dead_letters,
            tasks=parts.tasks,
            on_sent=self._archive,
        )
        self.locks_ended = 0
        """Records whose lock has ended by time."""
        partition.replica.waiting[self] = None
        parts.tasks.start(self._load(), name=f"load {key.coordinator_key}")

    def __repr__(self) -> str:
        return f"share-partition {self.key.coordinator_key}"

    # --- life --------------------------------------------------------------------------------------------------------

    @property
    def is_loading(self) -> bool:
        return self._in_flight is None and self.failure is None

    @property
    def loaded(self) -> InFlight | None:
        """Its records, as far as they are known; None while there are none."""
        return self._in_flight if self.failure is None else None

    @property
    def in_flight(self) -> InFlight:
        """Its records. Raises why there are none."""
        self.require_leading()
        if self._in_flight is None:
            raise NotLeaderOrFollower(f"{self} is being loaded; try again.")
        return self._in_flight

    def require_leading(self) -> None:
        """Raise why it is closed, and close it where this broker no longer leads as it did when it began."""
        partition = self.partition
        if self.failure is None and (
            partition.leader is None or partition.led_since_epoch != self._led_since
        ):
            refusal = partition.gone or partition.replica.refusal
            self.close(
                refusal or NotLeaderOrFollower(f"{partition.topic_partition} was led elsewhere since.")
            )
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def close(self, why: Exception) -> None:
        """Answer all that wait with `why`; what is stored stays."""
        if self.failure is not None:
            return
        self.failure = without_trace(why)
        self.partition.replica.waiting.pop(self, None)
        self.dead_letters.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._on_closed(self)
        self._schedule_offers()

    @property
    def writes_under_way(self) -> asyncio.Task[None] | None:
        """What writes states, also once this is closed."""
        return self._after if self._writer is None else self._writer.under_way

    async def _load(self) -> None:
        if self._after is not None:
            await asyncio.wait([self._after])
            self._after = None
        epoch = self.partition.leader_epoch
        began = self._loop.time()
        try:
            self.require_leading()
            state = await self._parts.states.read(self.key, leader_epoch=epoch)
            start = state.start_offset
            if start == NOT_STARTED:
                start = await find_start_offset(
                    self.partition,
                    self._current_rules().offset_reset,
                    now_ms=self._parts.wall_ms(),
                    blocking=self._parts.blocking,
                )
            self.require_leading()
            in_flight = InFlight.load(start, state.batches)
        except OdradekError as error:
            if self.failure is None:
                logger.info("%r cannot be loaded: %s", self, error)
                self.close(as_seen_by_members(error))
            return
        except Exception as error:
            self.close(as_seen_by_members(error))
            raise
        self._writer = StateWriter(
            self.key,
            in_flight,
            states=self._parts.states,
            state_epoch=state.state_epoch,
            leader_epoch=epoch,
            tasks=self._parts.tasks,
        )
        self._in_flight = in_flight
        self._parts.counts.note_load(self._loop.time() - began)
        limit = self._current_rules().delivery_count_max
        self.dead_letters.add(acknowledgement.find_dead_letters(in_flight, delivery_count_max=limit))
        self._schedule_offers()

    async def confirm(self) -> None:
        """Close where the group was moved or deleted: without members and kept by dead letters, or fenced."""
        writer = self._writer
        if writer is None:
            return
        failure: Exception = NotLeaderOrFollower("The group's state was changed; try again.")
        try:
            state = await self._parts.states.read(self.key, leader_epoch=writer.leader_epoch)
            if state.state_epoch == writer.state_epoch:
                return
        except OdradekError as error:
            failure = as_seen_by_members(error)
        if isinstance(failure, REPLACED):
            self.close(failure)

    # --- records for members -----------------------------------------------------------------------------------------

    def read(self, *, bytes_max: int, at_least_one_batch: bool) -> Readable | None:
        """What a member could acquire now; None for nothing. Raises the errors of the partition's reader."""
        in_flight = self.in_flight
        partition = self.partition
        in_flight.advance_log_start(partition.log.log_start_offset)
        rules = self._current_rules()
        if not in_flight.can_acquire(rules.in_flight_max):
            return None
        replica = partition.replica
        if replica.context.is_registry_silent and partition.leader is not None:
            partition.leader.require_confirmed()
        offset = in_flight.next_fetch_offset()
        try:
            found = partition.reader.read(
                offset,
                bytes_max,
                at_least_one_batch=at_least_one_batch,
                committed_only=rules.is_committed_only,
                leader_only=True,
            )
        except OffsetOutOfRange:
            # The log has lost its end to an unclean election: there is nothing until it has grown again.
            return None
        records = found.slice
        if records is None or not records.size:
            return None
        replica.bytes_out -= records.size
        return Readable(offset, records)

    def acquire(self, readable: Readable, wanted: Wanted) -> tuple[list[AcquiredRange], FileSlice | None]:
        """Acquire from what `read` gave in this turn of the loop: the offsets, and the batches that have them."""
        in_flight, rules = self.in_flight, self._current_rules()
        partition, records = self.partition, readable.records
        aborted: Sequence[tuple[int, int]] = ()
        if rules.is_committed_only:
            aborted = partition.reader.find_aborted_transactions(readable.fetch_offset, records)
        batches = RecordBatches.of(records, aborted)
        if batches.is_empty:
            return [], None
        terms = Terms(
            member=wanted.member,
            records_max=wanted.records_max,
            batch_size=max(wanted.batch_size, 1),
            is_strict=wanted.is_strict,
            in_flight_max=rules.in_flight_max,
            delivery_count_max=rules.delivery_count_max,
            locked_until=self._loop.time() + rules.lock_ms / 1000,
        )
        acquired = acquire(in_flight, terms, batches, fetch_offset=readable.fetch_offset)
        self._set_timer()
        if not acquired:
            return [], None
        position, size = batches.span(acquired[0].first, acquired[-1].last)
        partition.replica.bytes_out += size
        return acquired, FileSlice(records.file, position, size)

    def _delivery_rules(self) -> DeliveryRules:
        rules = self._current_rules()
        return DeliveryRules(
            rules.delivery_count_max,
            has_dead_letters=bool(rules.dead_letter_topic),
            may_renew=rules.may_renew,
        )

    def acknowledge(self, member: str, batches: Sequence[AcknowledgedBatch]) -> asyncio.Future[None] | None:
        """Done once the acknowledgements are stored; None where nothing has to be. Raises why they do not count."""
        rules = self._current_rules()
        in_flight = self.in_flight
        try:
            change = acknowledgement.acknowledge(
                in_flight,
                member,
                batches,
                self._delivery_rules(),
                locked_until=self._loop.time() + rules.lock_ms / 1000,
            )
        finally:
            self._set_timer()
        return self._store(change)

    def release(self, member: str) -> asyncio.Future[None] | None:
        """Release what the member has; as `acknowledge`."""
        return self._store(acknowledgement.release(self.in_flight, member, self._delivery_rules()))

    def _store(self, change: PendingChange) -> asyncio.Future[None] | None:
        writer, in_flight = self._writer, self._in_flight
        assert writer is not None and in_flight is not None, "records are acquired once they are loaded"
        if change.is_empty:
            return None
        stored: asyncio.Future[None] = self._loop.create_future()

        def settle(failure: Exception | None) -> None:
            if failure is None:
                acknowledgement.commit(in_flight, change)
                self.dead_letters.add(change.dead_letters)
            else:
                now = self._loop.time()
                self.dead_letters.add(acknowledgement.roll_back(in_flight, change, now=now))
                if isinstance(failure, REPLACED):
                    self.close(failure)
            self._set_timer()
            self._schedule_offers()
            if not stored.done():
                if failure is None:
                    stored.set_result(None)
                else:
                    stored.set_exception(without_trace(failure))

        writer.store(change, settle)
        return stored

    # --- locks -------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self.failure is not None or self._in_flight is None:
            return
        deadline = self._in_flight.next_deadline()
        if self._timer is not None:
            if self._timer_at <= deadline:
                return
            self._timer.cancel()
            self._timer = None
        if deadline < math.inf:
            self._timer_at = deadline
            self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        in_flight, writer = self._in_flight, self._writer
        if self.failure is not None or in_flight is None or writer is None:
            return
        change = acknowledgement.expire(in_flight, self._delivery_rules(), now=self._loop.time())
        if not change.is_empty:
            self.locks_ended += sum(one.last_offset - one.first_offset + 1 for one in change.states)
            # Whether or not it is stored, the locks are over.
            writer.store(change, lambda failure: self._settle_expired(change, failure))
            self._schedule_offers()
        self._set_timer()

    def _settle_expired(self, change: PendingChange, failure: Exception | None) -> None:
        assert self._in_flight is not None
        acknowledgement.commit(self._in_flight, change)
        if failure is not None:
            logger.info("%r: the end of locks could not be stored: %s", self, failure)
            if isinstance(failure, REPLACED):
                self.close(failure)
                return
        self.dead_letters.add(change.dead_letters)
        self._schedule_offers()

    # --- dead letters ------------------------------------------------------------------------------------------------

    def _archive(self, letters: Sequence[DeadLetter]) -> None:
        """Archive the records of dead letters, which are written or never will be."""
        in_flight, writer = self._in_flight, self._writer
        assert writer is not None and in_flight is not None, "records are acquired once they are loaded"
        change = acknowledgement.finish_dead_letters(in_flight, letters)

        def settle(failure: Exception | None) -> None:
            acknowledgement.commit(in_flight, change)
            self.dead_letters.finish(letters)
            if failure is not None:
                logger.info("%r: archived records could not be stored: %s", self, failure)
                if isinstance(failure, REPLACED):
                    self.close(failure)
                    return
            self._schedule_offers()
            if not self.dead_letters.under_way:
                self._on_idle(self)

        if change.is_empty:
            settle(None)
        else:
            writer.store(change, settle)

    # --- fetches that wait -------------------------------------------------------------------------------------------

    def became_readable(self, size_bytes: int) -> None:
        """The replica has more records."""
        del size_bytes
        self._schedule_offers()

    def wake(self) -> None:
        """The partition has another role, or is gone."""
        try:
            self.require_leading()
        except Exception:
            return
        self._schedule_offers()

    def state_changed(self) -> None:
        """Nothing that members wait for."""

    def _schedule_offers(self) -> None:
        if self.waiting and not self._is_offering:
            self._is_offering = True
            self._loop.call_soon(self._offer, list(self.waiting))

    def _offer(self, members: list[WaitingMember]) -> None:
        """Ask those that wait, as long as there may be something for them."""
        self._is_offering = False
        for index, member in enumerate(members):
            if member not in self.waiting:
                continue
            if index >= _OFFERS_PER_TURN_MAX:
                self._is_offering = True
                self._loop.call_soon(self._offer, members[index:])
                return
            if not self._may_offer():
                return
            member.offer(self)

    def _may_offer(self) -> bool:
        if self.failure is not None:
            return True
        in_flight = self._in_flight
        if in_flight is None or not in_flight.can_acquire(self._current_rules().in_flight_max):
            return False
        return in_flight.next_fetch_offset() < self.partition.high_watermark
