"""One partition of the offsets topic in memory: its groups, its offsets, and the only writer of its log.

State comes from records alone: what a request changes is written first and then applied by the same code that
loads a log after a restart. (Classic groups keep what is not stored, such as who waits for an answer, in
their state machine.)
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

from odradek.foundation.clock import Clock
from odradek.foundation.errors import CoordinatorNotAvailable, CorruptRecord, NotCoordinator, OdradekError
from odradek.foundation.limits import GROUP_REQUESTS_WAITING_MAX
from odradek.groups import consumer_schema
from odradek.groups.carried import CarriedRecords
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.group import ClassicGroup
from odradek.groups.offsets import OffsetStore
from odradek.groups.offsets_log import OffsetsLog
from odradek.groups.rebalance import Rebalance
from odradek.groups.schema import (
    KIND_CLASSIC_GROUP,
    KIND_OFFSET,
    KIND_OFFSET_LEGACY,
    ClassicGroupValue,
    CommittedOffset,
    Encoded,
    decode_classic_group_value,
    decode_offset_key,
    decode_offset_value,
    encode_classic_group_key,
    encode_classic_group_value,
    encode_offset_key,
    encode_offset_value,
    kind_of,
)
from odradek.groups.sessions import SessionTimers, Wakeable
from odradek.groups.wire import WireReader
from odradek.groups.writer import OnLate, OnWritten, RecordWriter

logger = logging.getLogger(__name__)

Group = ClassicGroup | ConsumerGroup


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"  # could not be loaded; that is tried again, and until then nothing is served or written
    CLOSED = "closed"


class Shard:
    """Groups and offsets of one partition; the host of its groups. `settings` are the broker's."""

    def __init__(
        self,
        partition: int,
        *,
        log: OffsetsLog,
        led_since_epoch: int,
        clock: Clock,
        timers: SessionTimers,
        settings: Any,
        new_member_id: Callable[[str], str],
        session_timeout_ms: Callable[[str], int],
        expire_consumer_group: Callable[[ConsumerGroup], None],
    ) -> None:
        self.partition = partition
        self.led_since_epoch = led_since_epoch
        self.state = ShardState.LOADING
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.writer = RecordWriter(
            log,
            partition,
            clock,
            compression=settings.offsets_topic_compression_codec,
            late_after_ms=settings.offsets_commit_timeout_ms,
        )
        self.max_size: int = settings.group_max_size
        self.initial_rebalance_delay_ms: int = settings.group_initial_rebalance_delay_ms
        self.rebalances_completed = 0
        self.carried = CarriedRecords()
        self.failure: BaseException | None = None  # why it is FAILED
        self.topics_gone: set[str] = set()  # deleted while this was loading
        self.loaded = asyncio.Event()
        self._gates: dict[str, deque[Callable[[], None]]] = {}
        self._clock = clock
        self._timers = timers
        self._new_member_id = new_member_id
        self._session_timeout_ms = session_timeout_ms
        self._expire_consumer_group = expire_consumer_group

    # --- what classic groups ask of their host --------------------------------------------------------------

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return self._clock.wall_ms()

    def new_member_id(self, prefix: str) -> str:
        return self._new_member_id(prefix)

    def store(
        self,
        group: Rebalance,
        value: ClassicGroupValue,
        on_stored: Callable[[OdradekError | None], None],
    ) -> None:
        def stored(error: OdradekError | None) -> None:
            if error is None:
                group.last_stored = value
                self.carried.superseded((record,))
            on_stored(error)

        record = encode_classic_group_key(group.group_id), encode_classic_group_value(value)
        self.writer.submit([record], stored)

    def wake(self, group: Wakeable) -> None:
        self._timers.wake(group)

    def session_timeout_ms(self, group_id: str) -> int:
        return self._session_timeout_ms(group_id)

    def expire_consumer_group(self, group: ConsumerGroup) -> None:
        self._expire_consumer_group(group)

    # --- groups ---------------------------------------------------------------------------------------------

    def classic_group(self, group_id: str) -> ClassicGroup:
        """The classic group of that id, made when there is none. The caller has looked that it is not
        another kind.
        """
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, self)
        assert isinstance(group, ClassicGroup)
        return group

    def forget_group(self, group_id: str, error: OdradekError) -> None:
        """Drop the group from memory; whoever waits for an answer is told `error`."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.die(error)
            self._timers.forget(group)

    def pause(self, group: Group) -> None:
        """Let no deadline of the group come until it is woken again."""
        self._timers.forget(group)

    def replace_group(self, group: Group) -> None:
        """Put a converted group in the place of the one that it was made from, which has told its members."""
        old = self.groups.get(group.group_id)
        if old is not None:
            self._timers.forget(old)
        self.groups[group.group_id] = group

    def when_free(self, group_id: str, action: Callable[[], None]) -> None:
        """Call `action` now, or once the change of this group that is being written has taken effect.

        Raises CoordinatorNotAvailable when too many wait already.
        """
        gate = self._gates.get(group_id)
        if gate is None:
            action()
        elif len(gate) >= GROUP_REQUESTS_WAITING_MAX:
            raise CoordinatorNotAvailable(f"too many requests wait for the group {group_id!r}; try again")
        else:
            gate.append(action)

    def check_serving(self) -> None:
        """For actions that may have waited in `when_free`. Raises NotCoordinator when the partition
        has moved away.
        """
        if self.state is ShardState.CLOSED:
            raise NotCoordinator("this broker no longer coordinates the group; find its coordinator again")

    def write_group(
        self,
        group_id: str,
        records: Sequence[Encoded],
        on_written: OnWritten,
        *,
        becomes: Group | None = None,
    ) -> None:
        """Write a change of a group and apply it once written; until then the group's requests wait.

        `on_written` is called after the records are applied, or instead of that the group was replaced by the
        one that it `becomes`, which knows more than its records tell. The caller is within `when_free`.
        """
        assert group_id not in self._gates, f"two changes of {group_id!r} at once"
        self._gates[group_id] = deque()

        def apply(error: OdradekError | None) -> None:
            try:
                if error is None and becomes is not None:
                    self.replace_group(becomes)
                    self.carried.superseded(records)
                elif error is None:
                    for key, value in records:
                        self.apply(key, value)
                on_written(error)
            finally:
                self._open_gate(group_id)

        self.writer.submit(records, apply)

    def _open_gate(self, group_id: str) -> None:
        """Let those who waited go on, until one of them closes the gate again."""
        waiting = self._gates.pop(group_id, None)
        while waiting:
            action = waiting.popleft()
            try:
                action()
            except Exception:
                logger.exception("a request that waited for the group %r failed", group_id)
            if group_id in self._gates:
                self._gates[group_id].extendleft(reversed(waiting))
                return

    # --- offsets --------------------------------------------------------------------------------------------

    def write_offsets(
        self,
        group_id: str,
        commits: Sequence[tuple[str, int, CommittedOffset]],
        on_written: OnWritten,
        *,
        on_late: OnLate | None = None,
    ) -> None:
        """Write positions; they count once written, in the order of submission. `on_late` as for writers."""

        def apply(error: OdradekError | None) -> None:
            if error is None:
                put = self.offsets.put
                for topic, partition, committed in commits:
                    put(group_id, topic, partition, committed)
                self.carried.superseded(records)
                if group_id not in self.groups:
                    self.classic_group(group_id)
            on_written(error)

        records = [
            (encode_offset_key(group_id, topic, partition), encode_offset_value(committed))
            for topic, partition, committed in commits
        ]
        self.writer.submit(records, apply, on_late=on_late)

    def remove_offsets(
        self, removals: Sequence[tuple[str, str, int]], on_written: OnWritten, *, more: Sequence[Encoded] = ()
    ) -> None:
        """Write tombstones for (group, topic, partition), with `more` records in the same batch."""

        def apply(error: OdradekError | None) -> None:
            if error is None:
                for group_id, topic, partition in removals:
                    self.offsets.remove(group_id, topic, partition)
                self.carried.superseded(records)
            on_written(error)

        records: list[Encoded] = [(encode_offset_key(*removal), None) for removal in removals]
        records += more
        self.writer.submit(records, apply)

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Take in one record of the log. One that cannot be read is logged and carried along as it is."""
        try:
            is_read = self._apply(key, value)
        except CorruptRecord as error:
            is_read = False
            logger.error(
                "a record of the offsets topic, partition %d, cannot be read and is kept as it is: %s",
                self.partition,
                error,
            )
        if not is_read:
            self.carried.take(key, value)
        elif self.carried:
            self.carried.superseded(((key, value),))

    def _apply(self, key: bytes, value: bytes | None) -> bool:
        """Says whether the record is of a kind that is read here."""
        kind = kind_of(key)
        if kind in (KIND_OFFSET, KIND_OFFSET_LEGACY):
            offset_key = decode_offset_key(key)
            if value is None:
                self.offsets.remove(*offset_key)
            else:
                self.offsets.put(*offset_key, decode_offset_value(value))
        elif kind == KIND_CLASSIC_GROUP:
            self._apply_classic(_after_kind(key).string(), value)
        elif kind in consumer_schema.KINDS:
            self._apply_consumer(consumer_schema.decode_key(kind, _after_kind(key)), value)
        else:
            return False
        return True

    def _apply_classic(self, group_id: str, value: bytes | None) -> None:
        known = self.groups.get(group_id)
        if known is not None and (value is not None or isinstance(known, ClassicGroup)):
            self._timers.forget(known)
            del self.groups[group_id]
        if value is None:
            return
        self.groups[group_id] = ClassicGroup.restored(group_id, decode_classic_group_value(value), self)

    def _apply_consumer(self, key: consumer_schema.ConsumerKey, value: bytes | None) -> None:
        decoded = None if value is None else consumer_schema.decode_value(key.kind, value)
        if value is not None and decoded is None:
            return
        group = self.groups.get(key.group_id)
        if not isinstance(group, ConsumerGroup):
            if decoded is None:
                return
            if group is not None:
                self._timers.forget(group)
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id, self)
        group.apply(key.kind, key.name, decoded)
        if key.kind == consumer_schema.KIND_GROUP and decoded is None:
            self._timers.forget(group)
            del self.groups[key.group_id]

    def live_records(self) -> Iterator[Encoded]:
        """Everything that a restart must find, as records; may be walked while the loop goes on."""
        yield from self.carried
        for group_id in list(self.groups):
            group = self.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                yield from group.records()
            elif group is not None and group.last_stored is not None:
                yield encode_classic_group_key(group_id), encode_classic_group_value(group.last_stored)
        for group_id in list(self.offsets.groups()):
            for topic, partition in list(self.offsets.of_group(group_id)):
                committed = self.offsets.get(group_id, topic, partition)
                if committed is not None:
                    yield encode_offset_key(group_id, topic, partition), encode_offset_value(committed)

    # --- life -----------------------------------------------------------------------------------------------

    def activate(self) -> bool:
        """All records are in: sessions start, requests are served. Says whether the partition still is here."""
        if self.state is ShardState.CLOSED:
            return False
        # Offsets that no group has told of belong to one that never had members.
        for group_id in self.offsets.groups():
            if group_id not in self.groups:
                self.classic_group(group_id)
        self.state = ShardState.ACTIVE
        self.failure = None
        for group in list(self.groups.values()):
            group.start_sessions()
        self.loaded.set()
        return True

    @property
    def is_to_be_loaded(self) -> bool:
        return self.state in (ShardState.LOADING, ShardState.FAILED)

    def fail(self, error: BaseException) -> None:
        """The load failed: forget what it has brought, and serve nobody until another one succeeds."""
        if self.state is ShardState.CLOSED:
            return
        for group in self.groups.values():
            self._timers.forget(group)
        self.groups.clear()
        self.offsets = OffsetStore()
        self.carried = CarriedRecords()
        self.state = ShardState.FAILED
        self.failure = error

    def close(self, error: OdradekError) -> None:
        """This broker no longer leads the partition, or stops."""
        self.state = ShardState.CLOSED
        for group_id in list(self.groups):
            self.forget_group(group_id, error)
        self.writer.close(error)
        self.loaded.set()


def _after_kind(key: bytes) -> WireReader:
    reader = WireReader(key)
    reader.int16()
    return reader
