"""The groups and offsets of one partition of `__consumer_offsets`: what its records mean, and the host of its groups.

Classic groups keep what is not stored, such as requests that wait, in their own state machine (`classic.group`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from odradek.broker.coordination.records import kind_of
from odradek.broker.coordination.shard import Shard, ShardState, StateMachine
from odradek.broker.coordination.topic_log import EncodedRecord, TransactionalWriter
from odradek.broker.coordination.writer import OnLate, OnWritten
from odradek.broker.groups.classic.group import ClassicGroup
from odradek.broker.groups.classic.members import AnswerJoin, JoinRequest, JoinResult
from odradek.broker.groups.classic.rebalance import Rebalance
from odradek.broker.groups.classic.schema import (
    KIND_CLASSIC_GROUP,
    ClassicGroupValue,
    decode_classic_group_key,
    decode_classic_group_value,
    encode_classic_group_key,
    encode_classic_group_value,
)
from odradek.broker.groups.consumer import schema as consumer_schema
from odradek.broker.groups.consumer.classic_members import ClassicMembers
from odradek.broker.groups.consumer.group import ConsumerGroup
from odradek.broker.groups.consumer.requests import ConsumerRequests
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.conversion import Conversion, GroupParts
from odradek.broker.groups.group import Group
from odradek.broker.groups.group_table import GroupTable
from odradek.broker.groups.member_records import GroupRecordKey
from odradek.broker.groups.offsets import OffsetStore
from odradek.broker.groups.pending_offsets import PendingOffsets
from odradek.broker.groups.schema import (
    KIND_OFFSET,
    KIND_OFFSET_LEGACY,
    KINDS_OF_SHARE_GROUPS,
    KINDS_OF_STREAMS_GROUPS,
    OffsetAndMetadata,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from odradek.foundation.errors import GroupIdNotFound, OdradekError
from odradek.foundation.ids import TopicId
from odradek.foundation.words import count
from odradek.wire.records.control import Marker

if TYPE_CHECKING:
    from odradek.broker.groups.share.requests import ShareRequests
    from odradek.broker.groups.streams.requests import StreamsRequests

logger = logging.getLogger(__name__)

TOMBSTONES_PER_BATCH: Final = 1000


class GroupStateMachine:
    """A `StateMachine`. It writes through `shard`, and `context` is what all groups of the broker share."""

    def __init__(self, shard: Shard[StateMachine], context: GroupContext) -> None:
        self.shard = shard
        self.context = context
        self.groups = GroupTable()
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()
        shard.transactional = self
        self.topics_gone: set[tuple[str, TopicId]] = set()  # deleted while this was loading
        self.now, self.wall_ms, self.wake = shard.now, shard.wall_ms, shard.wake
        self.new_id = context.new_id
        self.max_size: int = context.settings.group_max_size
        self.initial_rebalance_delay_ms: int = context.settings.group_initial_rebalance_delay_ms
        self._parts = parts = GroupParts(self.groups, shard, context)
        self._streams: StreamsRequests | None = None
        self._shares: ShareRequests | None = None
        conversion = Conversion(parts, host=self)
        self.consumers = ConsumerRequests(parts, conversion)
        self.classic_members = ClassicMembers(parts, conversion, host=self)
        self.session_timeout_ms = context.session_timeout_ms
        self.expire_members, self.fence_members = self.consumers.expire_members, self.consumers.fence

    @property
    def streams(self) -> StreamsRequests:
        """The heartbeats of Streams groups. Their modules are loaded with the first group."""
        if self._streams is None:
            from odradek.broker.groups.streams.requests import StreamsRequests

            self._streams = StreamsRequests(self._parts, host=self)
        return self._streams

    @property
    def shares(self) -> ShareRequests:
        """The heartbeats of share groups. Their modules are loaded with the first group."""
        if self._shares is None:
            from odradek.broker.groups.share.requests import ShareRequests

            self._shares = ShareRequests(self._parts, host=self)
        return self._shares

    # --- what groups ask of their host ----------------------------------------------------------------------

    def rebalance_completed(self) -> None:
        self.context.rebalances += 1

    def store(self, group: Rebalance, value: ClassicGroupValue, on_stored: OnWritten) -> None:
        record = encode_classic_group_key(group.group_id), encode_classic_group_value(value)
        self.shard.writer.submit([record], on_stored)

    # --- groups ---------------------------------------------------------------------------------------------

    def join_after_removal(self, group: Group, request: JoinRequest, answer: AnswerJoin) -> None:
        """Replace an empty consumer or Streams group by a classic one of the same id, and join that."""

        def on_written(error: OdradekError | None) -> None:
            try:
                if error is not None:
                    raise error
                classic = self.new_classic_group(group.group_id)
                self.shard.check_serving()
                self.context.fences.check_may_join(group.group_id)
                self._store_new(classic)
                classic.join(request, answer)
            except OdradekError as failure:
                answer(JoinResult(error=failure, member_id=request.member_id))

        self.shard.write(group.group_id, group.tombstones(), on_written)

    def new_classic_group(self, group_id: str) -> ClassicGroup:
        """Create a classic group without members."""
        assert group_id not in self.groups, f"the group {group_id!r} exists"
        group = self.groups[group_id] = ClassicGroup(group_id, self)
        return group

    def begin_classic_group(self, group_id: str) -> ClassicGroup:
        """Create a classic group that a first member joins, and write that it is there, as Kafka does."""
        group = self.new_classic_group(group_id)
        self._store_new(group)
        return group

    def _store_new(self, group: ClassicGroup) -> None:
        self.store(group.rebalance, group.rebalance.value(), _log_unstored)

    def delete(self, group_id: str, on_deleted: OnWritten) -> None:
        """Remove a group without members, and its offsets. Raises GroupIdNotFound, NonEmptyGroup."""
        group = self.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        group.validate_delete()
        self.remove(group, on_deleted)

    def remove(self, group: Group, on_removed: OnWritten) -> None:
        """Write the tombstones of an empty group and of its offsets.

        Then drop the group from memory, unless a member has joined by then.
        """
        group_id = group.group_id
        keys = dict.fromkeys((*self.offsets.of_group(group_id), *self.pending.of_group(group_id)))
        removals = [(group_id, topic, partition) for topic, partition in keys]

        def on_written(error: OdradekError | None) -> None:
            if (
                error is None
                and self.groups.get(group_id) is group
                and group.after_tombstones(has_offsets=self.has_offsets(group_id))
            ):
                self._forget(group, GroupIdNotFound(f"the group {group_id!r} was deleted"))
            on_removed(error)

        self.remove_offsets(removals, on_written, more=group.tombstones())

    def _forget(self, group: Group, error: OdradekError) -> None:
        """Drop the group from memory; every request that waits is answered with `error`."""
        del self.groups[group.group_id]
        group.die(error)
        self.shard.stop_timer(group.timed)

    def remove_members_of_fenced(self, group_id: str) -> None:
        """Remove every member of a group that is fenced, once a change under way has taken effect."""

        def act() -> None:
            group = self.groups.get(group_id)
            # The fence may have ended, and the group or the shard may be gone, by the time that a change is written.
            if (
                group is None
                or self.shard.state is not ShardState.ACTIVE
                or not self.context.fences.is_fenced(group_id)
            ):
                return
            logger.info("group %r is fenced: %s removed", group_id, count(len(group.members), "member"))
            group.remove_all()

        try:
            self.shard.when_free(group_id, act)
        except OdradekError as error:
            logger.warning("group %r is fenced, its members go when their sessions end: %s", group_id, error)

    # --- offsets --------------------------------------------------------------------------------------------

    def has_offsets(self, group_id: str) -> bool:
        """Whether the group has offsets, committed or pending."""
        return bool(self.offsets.of_group(group_id)) or self.pending.has_group(group_id)

    def write_offsets(
        self,
        group_id: str,
        commits: Sequence[tuple[str, int, OffsetAndMetadata]],
        on_written: OnWritten,
        *,
        on_late: OnLate | None = None,
        writer: TransactionalWriter | None = None,
    ) -> None:
        """Write offsets; they count once written, in the order of submission. `on_late` as for writers.

        With `writer` they belong to its transaction, and count once its marker is written.
        """

        def apply(error: OdradekError | None) -> None:
            if error is None:
                for topic, partition, committed in commits:
                    if writer is None:
                        self._put(OffsetKey(group_id, topic, partition), committed)
                    else:
                        self.pending.put(writer.producer_id, OffsetKey(group_id, topic, partition), committed)
                if group_id not in self.groups:
                    self.new_classic_group(group_id)
            on_written(error)

        records = [
            (encode_offset_key(group_id, topic, partition), encode_offset_value(committed))
            for topic, partition, committed in commits
        ]
        self.shard.writer.submit(records, apply, on_late=on_late, writer=writer)

    def _put(self, key: OffsetKey, committed: OffsetAndMetadata) -> None:
        self.offsets.put(*key, committed)
        if self.pending:
            self.pending.mark_replaced(key)

    def _remove(self, key: OffsetKey) -> None:
        self.offsets.remove(*key)
        if self.pending:
            self.pending.drop(key)

    def complete_transaction(
        self, marker: Marker, on_written: OnWritten, *, transaction_version: int
    ) -> None:
        """Write the end of a transaction. `on_written` is called once its offsets are there to be fetched."""

        def apply(error: OdradekError | None) -> None:
            if error is None:
                self.end_transaction(marker.producer_id, is_commit=marker.is_commit)
            on_written(error)

        self.shard.writer.submit_marker(marker, apply, transaction_version=transaction_version)

    def remove_offsets(
        self,
        removals: Sequence[tuple[str, str, int]],
        on_written: OnWritten,
        *,
        more: Sequence[EncodedRecord] = (),
    ) -> None:
        """Write tombstones for (group, topic, partition), with `more` records in the same batch."""

        def apply(error: OdradekError | None) -> None:
            if error is None:
                for removal in removals:
                    self._remove(OffsetKey(*removal))
            on_written(error)

        records: list[EncodedRecord] = [(encode_offset_key(*removal), None) for removal in removals]
        records += more
        self.shard.writer.submit(records, apply)

    def remove_in_batches(self, removals: Sequence[tuple[str, str, int]]) -> None:
        """Write tombstones of offsets that have expired. A failure is logged; a later round tries again."""
        for start in range(0, len(removals), TOMBSTONES_PER_BATCH):
            self.remove_offsets(removals[start : start + TOMBSTONES_PER_BATCH], _log_failure)

    def forget_topics(self, topics: set[tuple[str, TopicId]]) -> None:
        """Write tombstones for all offsets of deleted topics, now or once this is loaded.

        Offsets that were committed by id for another topic of the same name stay.
        """
        if self.shard.is_to_be_loaded:
            self.topics_gone |= topics
            return
        if self._shares is not None:
            self._shares.states.forget_topics(frozenset(topic_id for _, topic_id in topics))
        names = {name for name, _ in topics}

        def is_gone(topic: str, committed: OffsetAndMetadata) -> bool:
            topic_id = committed.topic_id
            return topic in names and (topic_id is None or (topic, topic_id) in topics)

        keys = dict.fromkeys(
            (group_id, topic, partition)
            for group_id, topic, partition, committed in self.offsets
            if is_gone(topic, committed)
        )
        keys |= dict.fromkeys(
            (key.group_id, key.topic, key.partition)
            for key, committed in self.pending.list_pending()
            if is_gone(key.topic, committed)
        )
        self.remove_in_batches(list(keys))

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, key: bytes, value: bytes | None) -> bool:
        kind = kind_of(key)
        if kind in (KIND_OFFSET, KIND_OFFSET_LEGACY):
            offset_key = decode_offset_key(key)
            if value is None:
                self._remove(offset_key)
            else:
                self._put(offset_key, decode_offset_value(value))
                self._find_or_create(offset_key.group_id)
        elif kind == KIND_CLASSIC_GROUP:
            self._replay_classic(decode_classic_group_key(key), value)
        elif kind in consumer_schema.KINDS:
            self._replay_consumer(consumer_schema.decode_key(kind, key), value)
        elif kind in KINDS_OF_STREAMS_GROUPS:
            self.streams.replay(kind, key, value)
        elif kind in KINDS_OF_SHARE_GROUPS:
            self.shares.replay(kind, key, value)
        else:
            return False
        return True

    def replay_pending(self, producer_id: int, key: bytes, value: bytes | None) -> bool:
        if value is None or kind_of(key) not in (KIND_OFFSET, KIND_OFFSET_LEGACY):
            return False
        offset_key = decode_offset_key(key)
        self.pending.put(producer_id, offset_key, decode_offset_value(value))
        self._find_or_create(offset_key.group_id)
        return True

    def _find_or_create(self, group_id: str) -> None:
        """A commit makes a group, which lasts until its own tombstone, also when its offsets are gone before."""
        if group_id not in self.groups:
            self.new_classic_group(group_id)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for key, committed in self.pending.end(producer_id, is_commit=is_commit):
            self.offsets.put(*key, committed)

    def _replay_classic(self, group_id: str, value: bytes | None) -> None:
        known = self.groups.get(group_id)
        if known is not None and (value is not None or self.groups.classic(group_id) is not None):
            self.shard.stop_timer(known.timed)
            del self.groups[group_id]
        if value is not None:
            self.groups[group_id] = ClassicGroup.from_value(group_id, decode_classic_group_value(value), self)

    def _replay_consumer(self, key: GroupRecordKey, value: bytes | None) -> None:
        decoded = None if value is None else consumer_schema.decode_value(key.kind, value)
        if value is not None and decoded is None:
            return
        group = self.groups.consumer(key.group_id)
        if group is None:
            if decoded is None:
                return
            replaced = self.groups.get(key.group_id)
            if replaced is not None:
                self.shard.stop_timer(replaced.timed)
            group = self.groups[key.group_id] = ConsumerGroup(key.group_id, self)
        group.apply(key.kind, key.name, decoded)
        if key.kind == consumer_schema.RecordKind.GROUP and decoded is None:
            self.shard.stop_timer(group.timed)
            del self.groups[key.group_id]

    # --- life -----------------------------------------------------------------------------------------------

    def on_loaded(self) -> None:
        """Start the sessions of every member."""
        # Offsets without a group record belong to a group that never had members.
        for group_id in (*self.offsets.groups(), *self.pending.groups()):
            if group_id not in self.groups:
                self.new_classic_group(group_id)
        for group in list(self.groups.values()):
            group.start_sessions()
        self.forget_topics(self.topics_gone)
        for group_id in self.context.fences.list_fenced_groups():
            if group_id in self.groups:
                self.remove_members_of_fenced(group_id)

    def on_load_failed(self) -> None:
        for group in self.groups.values():
            self.shard.stop_timer(group.timed)
        self.groups.clear()
        self.offsets = OffsetStore()
        self.pending = PendingOffsets()

    def on_unloaded(self, error: OdradekError) -> None:
        for group in list(self.groups.values()):
            self._forget(group, error)


def _log_unstored(error: OdradekError | None) -> None:
    if error is not None:
        logger.debug("a new group was not written, which its first assignment makes good: %s", error)


def _log_failure(error: OdradekError | None) -> None:
    if error is not None:
        logger.warning("expired offsets could not be removed and will be tried again: %s", error)
