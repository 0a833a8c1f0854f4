"""Requests about committed offsets: commit, fetch, delete, and all of them for measuring lag."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final

from odradek.broker.coordination.runtime import CoordinatorRuntime
from odradek.broker.coordination.shard import DeferredAnswer, Shard
from odradek.broker.coordination.topic_log import TransactionalWriter
from odradek.broker.groups.consumer.group import (
    COMMIT_VERSION_OF_BOTH_PROTOCOLS,
    TRANSACTIONAL_COMMIT_VERSION_OF_BOTH_PROTOCOLS,
)
from odradek.broker.groups.context import GroupContext
from odradek.broker.groups.offsets import Committer
from odradek.broker.groups.schema import OffsetAndMetadata, OffsetKey
from odradek.broker.groups.state_machine import GroupStateMachine
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    OdradekError,
    StaleMemberEpoch,
)
from odradek.foundation.ids import TopicPartition
from odradek.wire.records.control import Marker

# Stands for an offset that a transaction is about to change.
UNSTABLE: Final = OffsetAndMetadata(-1, metadata="")


Errors = list[OdradekError | None]


class OffsetRequests:
    """The committed offsets of all groups of one coordinator."""

    def __init__(self, runtime: CoordinatorRuntime[GroupStateMachine], context: GroupContext) -> None:
        self._runtime = runtime
        self._context = context

    def begin_verification(
        self, group_id: str, writer: TransactionalWriter, *, adds_partition: bool
    ) -> tuple[TopicPartition, TransactionalWriter, bool]:
        """Before a transaction's first commit here: the group's partition, `writer` as it commits, and whether its
        coordinator has to be asked first. Raises when the group is not coordinated here.
        """
        shard = self._runtime.shard(group_id)
        token = self._runtime.log.begin_verification(shard.partition, writer, adds_partition=adds_partition)
        partition = TopicPartition(self._runtime.topic.name, shard.partition)
        return partition, writer._replace(token=token), token is not None

    def commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        commits: Sequence[tuple[str, int, OffsetAndMetadata]],
        writer: TransactionalWriter | None = None,
    ) -> Errors | Awaitable[Errors]:
        """Store offsets, each (topic, partition, committed); gives an error or None for each, in their order.

        Raises what concerns the group or the member: then nothing is stored. A generation of -1 without a member
        id is an administrator or a consumer that manages its partitions itself. With `writer` the offsets count once
        its transaction is committed. In old versions StaleMemberEpoch is IllegalGeneration: their clients know no other
        error.
        """
        first = (
            COMMIT_VERSION_OF_BOTH_PROTOCOLS
            if writer is None
            else TRANSACTIONAL_COMMIT_VERSION_OF_BOTH_PROTOCOLS
        )
        shard = self._runtime.shard(group_id)
        if generation >= 0:
            self._context.fences.check_may_stay(group_id)
        group = shard.machine.groups.get(group_id)
        if group is not None:
            by = Committer(
                member_id,
                instance_id,
                generation,
                version,
                is_transactional=writer is not None,
                commits=commits,
            )
            try:
                group.validate_offset_commit(by)
            except StaleMemberEpoch as error:
                if writer is None or version >= first:
                    raise
                raise IllegalGeneration(str(error)) from error
        elif generation >= 0:  # else the first commit of a group without members creates it
            if version >= first:
                raise GroupIdNotFound(f"there is no group {group_id!r}; join it before you commit")
            raise IllegalGeneration(f"there is no group {group_id!r} at generation {generation}; join again")
        return self._write(shard, group_id, commits, writer)

    def complete_transaction(
        self, partition: int, marker: Marker, *, transaction_version: int
    ) -> OdradekError | Awaitable[OdradekError | None] | None:
        """Write the end of a transaction to a partition of the offsets topic.

        It is done once the offsets are there to be fetched (KAFKA-17507). Gives the error; raises where this broker
        does not serve the partition.
        """
        shard = self._runtime.shard_of_partition(partition)
        answer: DeferredAnswer[OdradekError | None] = DeferredAnswer()
        shard.machine.complete_transaction(marker, answer, transaction_version=transaction_version)
        return answer.get()

    def _write(
        self,
        shard: Shard[GroupStateMachine],
        group_id: str,
        commits: Sequence[tuple[str, int, OffsetAndMetadata]],
        writer: TransactionalWriter | None,
    ) -> Errors | Awaitable[Errors]:
        metadata_max = self._context.settings.offset_metadata_max_bytes
        errors: Errors = [None] * len(commits)
        accepted = commits
        for index, (topic, partition, committed) in enumerate(commits):
            if _utf16_length(committed.metadata) > metadata_max:
                errors[index] = InvalidCommitOffsetSize(
                    f"the metadata of {topic}-{partition} is longer than offset.metadata.max.bytes = {metadata_max}"
                )
        if any(errors):
            accepted = [item for item, error in zip(commits, errors, strict=True) if error is None]
        if not accepted:
            return errors
        answer: DeferredAnswer[Errors] = DeferredAnswer()

        def on_written(error: OdradekError | None) -> None:
            if error is None:
                self._context.commits += len(accepted)
            answer_with(error)

        def answer_with(error: OdradekError | None) -> None:
            answer([known or error for known in errors])

        shard.machine.write_offsets(group_id, accepted, on_written, on_late=answer_with, writer=writer)
        return answer.get()

    def fetch(
        self,
        group_id: str,
        *,
        member_id: str | None,
        member_epoch: int,
        partitions: Iterable[tuple[str, int]] | None,
        require_stable: bool = False,
    ) -> dict[tuple[str, int], OffsetAndMetadata]:
        """The committed ones among `partitions`, or all of the group's for None; a group unknown here has none.

        With `require_stable` those that a transaction is about to change are UNSTABLE instead, also where none is
        committed yet.

        Raises when the group is not coordinated here, and UnknownMemberId or StaleMemberEpoch when a member that
        names itself is behind.
        """
        shard = self._runtime.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is not None:
            group.validate_offset_fetch(member_id, member_epoch)
        offsets = shard.machine.offsets.of_group(group_id)
        pending = shard.machine.pending
        wanted = offsets if partitions is None else partitions
        if not require_stable or not pending.has_group(group_id):
            return {key: offsets[key] for key in wanted if key in offsets}
        found = {}
        for key in wanted:
            if pending.has(OffsetKey(group_id, *key)):
                found[key] = UNSTABLE
            elif key in offsets:
                found[key] = offsets[key]
        return found

    def is_known(self, group_id: str) -> bool:
        """Whether the group is one of those coordinated here."""
        shards = self._runtime.list_loaded_shards()
        return any(group_id in shard.machine.groups for shard in shards)

    def unread_subscriptions(self, group_id: str) -> Callable[[], None] | None:
        """What a thread is to do before offsets of the group are deleted, if anything."""
        group = self._runtime.shard(group_id).machine.groups.get(group_id)
        return None if group is None else group.unread_subscriptions()

    def delete(self, group_id: str, partitions: Sequence[tuple[str, int]]) -> Errors | Awaitable[Errors]:
        """Delete offsets; gives an error or None for each of `partitions`. Raises GroupIdNotFound, NonEmptyGroup, …"""
        shard = self._runtime.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        group.validate_offset_delete()
        errors: Errors = []
        removals = []
        for topic, partition in partitions:
            if group.is_subscribed_to(topic):
                errors.append(GroupSubscribedToTopic(f"the group {group_id!r} still subscribes to {topic!r}"))
            else:
                errors.append(None)
                key = OffsetKey(group_id, topic, partition)
                if shard.machine.offsets.get(*key) is not None or shard.machine.pending.has(key):
                    removals.append(key)
        if not removals:
            return errors
        answer: DeferredAnswer[Errors] = DeferredAnswer()

        def on_written(error: OdradekError | None) -> None:
            answer([known or error for known in errors])

        shard.machine.remove_offsets(removals, on_written)
        return answer.get()

    def list_committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Every committed offset here as (group, topic, partition, offset), for lag."""
        for shard in self._runtime.list_loaded_shards():
            for group_id, topic, partition, value in shard.machine.offsets:
                yield group_id, topic, partition, value.offset


def _utf16_length(text: str) -> int:
    """The length as Java counts it, which is what offset.metadata.max.bytes bounds in spite of its name."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
