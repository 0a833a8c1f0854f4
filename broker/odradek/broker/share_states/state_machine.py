"""The states of one partition of `__share_group_state`: what its records mean, and the rules of a change (KIP-932).

Each change is an update, and now and then a snapshot. The first record of a state is a snapshot. Two epochs guard it.
A leader that another one has followed is refused. So is one whose state was initialized again since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from uuid import UUID

from odradek.broker.coordination.records import kind_of
from odradek.broker.coordination.shard import Shard, StateMachine
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.share_states.batches import StateBatches
from odradek.broker.share_states.schema import (
    KIND_SNAPSHOT,
    KIND_UPDATE,
    SnapshotValue,
    UpdateValue,
    decode_key,
    decode_snapshot,
    decode_update,
    encode_key,
    encode_snapshot,
    encode_update,
)
from odradek.broker.share_states.states import (
    NOT_STARTED,
    UNCHANGED,
    ShareKey,
    ShareState,
    StateChange,
    StateRange,
    StateSummary,
)
from odradek.foundation.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    OdradekError,
    UnknownTopicOrPartition,
)
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ImageHolder

logger = logging.getLogger(__name__)


class KeptState:
    """One state, as its records have it."""

    __slots__ = ("batches", "head", "updates")

    def __init__(self, snapshot: SnapshotValue) -> None:
        self.head = snapshot._replace(state_batches=())
        self.batches = StateBatches(snapshot.state_batches)
        self.updates = 0

    def update(self, value: UpdateValue) -> None:
        head = self.head
        start_offset = head.start_offset if value.start_offset == UNCHANGED else value.start_offset
        self.head = head._replace(
            leader_epoch=max(head.leader_epoch, value.leader_epoch),
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
        )
        for batch in value.state_batches:
            self.batches.put(batch)
        self.batches.cut_below(start_offset)
        self.updates += 1

    def next_snapshot(self, now_ms: int) -> SnapshotValue:
        """A snapshot of this state, to be written now."""
        return self.head._replace(
            snapshot_epoch=self.head.snapshot_epoch + 1,
            write_timestamp_ms=now_ms,
            state_batches=tuple(self.batches),
        )


class ShareStateMachine:
    """A `StateMachine`. It writes through `shard`."""

    def __init__(
        self,
        shard: Shard[StateMachine],
        *,
        settings: Settings,
        images: ImageHolder,
        forget_topics: Callable[[frozenset[UUID]], None],
    ) -> None:
        """`forget_topics` gets the topics that were deleted while no coordinator looked."""
        self.shard = shard
        self._forget_topics = forget_topics
        self.states: dict[ShareKey, KeptState] = {}
        self._updates_max: int = settings.share_coordinator_snapshot_update_records_per_snapshot
        self._images = images

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> bool:
        kind = kind_of(key)
        if kind == KIND_SNAPSHOT:
            share_key = decode_key(kind, key)
            if value is None:
                self.states.pop(share_key, None)
            else:
                self.states[share_key] = KeptState(decode_snapshot(value))
        elif kind == KIND_UPDATE:
            share_key = decode_key(kind, key)
            known = self.states.get(share_key)
            if known is not None and value is not None:
                known.update(decode_update(value))
        else:
            return False
        return True

    # --- requests: each raises, or gives the records to write -----------------------------------------------

    def plan_initialize(self, key: ShareKey, *, state_epoch: int, start_offset: int) -> list[EncodedRecord]:
        """Raises FencedStateEpoch, UnknownTopicOrPartition, InvalidRequest."""
        _require(state_epoch >= 0, "The state epoch cannot be a negative number.")
        self._check_topic(key)
        known = self.states.get(key)
        self._check_state_epoch(known, state_epoch)
        now_ms = self.shard.wall_ms()
        snapshot_epoch = 0 if known is None else known.head.snapshot_epoch + 1
        # No leader has read it yet. Where it begins, nothing was delivered.
        complete = -1 if start_offset == NOT_STARTED else 0
        value = SnapshotValue(
            snapshot_epoch,
            state_epoch,
            0,
            start_offset,
            now_ms,
            now_ms,
            delivery_complete_count=complete,
        )
        return [_snapshot_record(key, value)]

    def plan_write(self, key: ShareKey, change: StateChange) -> list[EncodedRecord]:
        """Raises FencedLeaderEpoch, FencedStateEpoch, UnknownTopicOrPartition, InvalidRequest."""
        known = self.states.get(key)
        if known is None:
            raise InvalidRequest("Write operation on uninitialized share partition not allowed.")
        self._check_topic(key)
        self._check_leader_epoch(known, change.leader_epoch)
        self._check_state_epoch(known, change.state_epoch)
        _check_batches(change.batches)
        value = UpdateValue(
            known.head.snapshot_epoch,
            change.leader_epoch,
            change.start_offset,
            tuple(change.batches),
            change.delivery_complete_count,
        )
        if known.updates < self._updates_max:
            return [_update_record(key, value)]
        changed = KeptState(known.head._replace(state_batches=tuple(known.batches)))
        changed.update(value)
        changed.head = changed.head._replace(state_epoch=change.state_epoch)
        return [_snapshot_record(key, changed.next_snapshot(self.shard.wall_ms()))]

    def plan_read(self, key: ShareKey, *, leader_epoch: int) -> list[EncodedRecord]:
        """The records that fence the leaders before this one. Raises as `plan_write`."""
        _require(leader_epoch >= 0, "The leader epoch cannot be a negative number.")
        known = self.states.get(key)
        if known is None:
            raise InvalidRequest("Read operation on uninitialized share partition not allowed.")
        self._check_topic(key)
        self._check_leader_epoch(known, leader_epoch)
        head = known.head
        if leader_epoch <= head.leader_epoch:
            return []
        value = UpdateValue(head.snapshot_epoch, leader_epoch, UNCHANGED, (), head.delivery_complete_count)
        return [_update_record(key, value)]

    def plan_delete(self, key: ShareKey) -> list[EncodedRecord]:
        """Nothing for a state that is not there. Raises UnknownTopicOrPartition, unless the topic was deleted."""
        if key not in self.states:
            self._check_topic(key)
        if key not in self.states:
            return []
        return [(encode_key(KIND_SNAPSHOT, key), None)]

    def read(self, key: ShareKey) -> ShareState:
        """The state. Raises InvalidRequest where there is none."""
        known = self.states.get(key)
        if known is None:
            raise InvalidRequest("Read operation on uninitialized share partition not allowed.")
        head = known.head
        return ShareState(
            head.state_epoch,
            head.start_offset,
            tuple(known.batches),
            head.leader_epoch,
            head.delivery_complete_count,
        )

    def summarize(self, key: ShareKey) -> StateSummary:
        """The summary; one with a start offset of -1 where there is no state. Raises UnknownTopicOrPartition."""
        self._check_topic(key)
        known = self.states.get(key)
        if known is None:
            return StateSummary(0, 0, -1, -1)
        head = known.head
        return StateSummary(
            head.state_epoch, head.leader_epoch, head.start_offset, head.delivery_complete_count
        )

    def list_of_topics(self, topic_ids: Collection[UUID]) -> list[ShareKey]:
        """The states of these topics."""
        return [key for key in self.states if key.topic_id in topic_ids]

    def plan_snapshot(self, key: ShareKey) -> list[EncodedRecord]:
        """A snapshot of the state as it is; nothing for a state that is gone."""
        kept = self.states.get(key)
        return [] if kept is None else [_snapshot_record(key, kept.next_snapshot(self.shard.wall_ms()))]

    def _check_topic(self, key: ShareKey) -> None:
        _require(key.partition >= 0, "The partition id cannot be a negative number.")
        topic = self._images.current.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise UnknownTopicOrPartition("This server does not host this topic-partition.")

    def _check_leader_epoch(self, known: KeptState, leader_epoch: int) -> None:
        if leader_epoch < known.head.leader_epoch:
            raise FencedLeaderEpoch(
                f"the leader epoch {leader_epoch} is older than {known.head.leader_epoch}: another broker leads"
            )

    def _check_state_epoch(self, known: KeptState | None, state_epoch: int) -> None:
        if known is not None and state_epoch < known.head.state_epoch:
            raise FencedStateEpoch(
                f"the state epoch {state_epoch} is older than {known.head.state_epoch}: the state was initialized again"
            )

    # --- life -----------------------------------------------------------------------------------------------

    def on_loaded(self) -> None:
        """Forget the states of topics that are gone."""
        known = self._images.current.topics_by_id
        gone = frozenset(key.topic_id for key in self.states if key.topic_id not in known)
        if gone:
            self._forget_topics(gone)

    def on_load_failed(self) -> None:
        self.states.clear()

    def on_unloaded(self, error: OdradekError) -> None:
        """Each request is answered by its own write."""


def _snapshot_record(key: ShareKey, value: SnapshotValue) -> EncodedRecord:
    return encode_key(KIND_SNAPSHOT, key), encode_snapshot(value)


def _update_record(key: ShareKey, value: UpdateValue) -> EncodedRecord:
    return encode_key(KIND_UPDATE, key), encode_update(value)


def _check_batches(batches: Collection[StateRange]) -> None:
    for batch in batches:
        _require(
            0 <= batch.first_offset <= batch.last_offset,
            f"the state batch {batch.first_offset} to {batch.last_offset} has no offsets",
        )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)


PlanRecords = Callable[[ShareStateMachine], list[EncodedRecord]]
