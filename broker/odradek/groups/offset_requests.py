"""Requests about committed offsets: commit, fetch, delete, and all of them for measuring lag."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence

from odradek.coordination.runtime import CoordinatorRuntime
from odradek.coordination.shard import DeferredAnswer
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    OdradekError,
)
from odradek.groups.consumer.group import COMMIT_VERSION_OF_BOTH_PROTOCOLS
from odradek.groups.context import GroupContext
from odradek.groups.schema import CommittedOffset
from odradek.groups.state_machine import GroupStateMachine


class OffsetRequests:
    """The committed offsets of all groups of one coordinator."""

    def __init__(self, runtime: CoordinatorRuntime[GroupStateMachine], context: GroupContext) -> None:
        self._runtime = runtime
        self._context = context

    def commit(
        self,
        group_id: str,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        commits: Sequence[tuple[str, int, CommittedOffset]],
    ) -> list[OdradekError | None] | Awaitable[list[OdradekError | None]]:
        """Store offsets, each (topic, partition, committed); gives an error or None for each, in their order.

        Raises what concerns the group or the member: then nothing is stored. A generation of -1 without a member
        id is an administrator or a consumer that manages its partitions itself.
        """
        shard = self._runtime.shard(group_id)
        if generation >= 0:
            self._context.fences.check_may_stay(group_id)
        group = shard.machine.groups.get(group_id)
        if group is not None:
            group.validate_offset_commit(
                member_id=member_id, instance_id=instance_id, generation=generation, version=version
            )
        elif generation >= 0:  # else the first commit of a group without members creates it
            if version >= COMMIT_VERSION_OF_BOTH_PROTOCOLS:
                raise GroupIdNotFound(f"there is no group {group_id!r}; join it before you commit")
            raise IllegalGeneration(f"there is no group {group_id!r} at generation {generation}; join again")
        metadata_max = self._context.settings.offset_metadata_max_bytes
        errors: list[OdradekError | None] = [None] * len(commits)
        accepted = commits
        for index, (topic, partition, committed) in enumerate(commits):
            if _utf16_length(committed.metadata) > metadata_max:
                errors[index] = InvalidCommitOffsetSize(
                    f"the metadata of {topic}-{partition} is longer than offset.metadata.max.bytes = "
                    f"{metadata_max}"
                )
        if any(errors):
            accepted = [item for item, error in zip(commits, errors, strict=True) if error is None]
        if not accepted:
            return errors
        answer: DeferredAnswer[list[OdradekError | None]] = DeferredAnswer()

        def on_written(error: OdradekError | None) -> None:
            if error is None:
                self._context.commits += len(accepted)
                answer(errors)
            else:
                self._context.commits_failed += len(accepted)
                answer([known or error for known in errors])

        def on_late(error: OdradekError) -> None:
            answer([known or error for known in errors])

        shard.machine.write_offsets(group_id, accepted, on_written, on_late=on_late)
        return answer.get()

    def fetch(
        self,
        group_id: str,
        *,
        member_id: str | None,
        member_epoch: int,
        partitions: Iterable[tuple[str, int]] | None,
    ) -> dict[tuple[str, int], CommittedOffset]:
        """The committed ones among `partitions`, or all of the group's for None; a group unknown here has none.

        Raises when the group is not coordinated here, and UnknownMemberId or StaleMemberEpoch when a member that
        names itself is behind.
        """
        shard = self._runtime.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is not None:
            group.validate_offset_fetch(member_id, member_epoch)
        offsets = shard.machine.offsets.of_group(group_id)
        if partitions is None:
            return dict(offsets)
        return {key: offsets[key] for key in partitions if key in offsets}

    def delete(
        self, group_id: str, partitions: Sequence[tuple[str, int]]
    ) -> list[OdradekError | None] | Awaitable[list[OdradekError | None]]:
        """Delete offsets; gives an error or None for each of `partitions`. Raises GroupIdNotFound, NonEmptyGroup, …"""
        shard = self._runtime.shard(group_id)
        group = shard.machine.groups.get(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {group_id!r}")
        group.validate_offset_delete()
        errors: list[OdradekError | None] = []
        removals = []
        for topic, partition in partitions:
            if group.is_subscribed_to(topic):
                errors.append(GroupSubscribedToTopic(f"the group {group_id!r} still subscribes to {topic!r}"))
            else:
                errors.append(None)
                if shard.machine.offsets.get(group_id, topic, partition) is not None:
                    removals.append((group_id, topic, partition))
        if not removals:
            return errors
        answer: DeferredAnswer[list[OdradekError | None]] = DeferredAnswer()

        def on_written(error: OdradekError | None) -> None:
            answer([known or error for known in errors])

        shard.machine.remove_offsets(removals, on_written)
        return answer.get()

    def committed(self) -> Iterator[tuple[str, str, int, int]]:
        """Every committed offset here as (group, topic, partition, offset), for lag."""
        for shard in self._runtime.loaded_shards():
            for group_id, topic, partition, value in shard.machine.offsets:
                yield group_id, topic, partition, value.offset


def _utf16_length(text: str) -> int:
    """The length as Java counts it, which is what offset.metadata.max.bytes bounds in spite of its name."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
