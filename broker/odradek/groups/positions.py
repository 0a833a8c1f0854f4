"""Requests about committed offsets: commit, fetch, delete, and all of them for those who measure lag."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidCommitOffsetSize,
    OdradekError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.groups import fencing
from odradek.groups.answers import Answer
from odradek.groups.consumer_group import ConsumerGroup
from odradek.groups.schema import CommittedOffset
from odradek.groups.shard import Shard

if TYPE_CHECKING:
    from odradek.groups.routing import Routing

# From this version of OffsetCommit on, a client knows the errors of both protocols.
COMMIT_VERSION_OF_BOTH_PROTOCOLS = 9


def commit(
    coordinator: Routing,
    group_id: str,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    version: int,
    commits: Sequence[tuple[str, int, CommittedOffset]],
) -> list[OdradekError | None] | Awaitable[list[OdradekError | None]]:
    """Store positions, each (topic, partition, committed); gives an error or None for each, in their order.

    Raises what concerns the group or the member: then nothing is stored. A generation of -1 without a member
    id is an administrator or a consumer that manages its partitions itself.
    """
    shard = coordinator.shard(group_id)
    if generation >= 0:
        fencing.check_may_stay(coordinator, group_id)
    _validate_commit(
        shard, group_id, member_id=member_id, instance_id=instance_id, generation=generation, version=version
    )
    metadata_max = coordinator.settings.offset_metadata_max_bytes
    errors: list[OdradekError | None] = [None] * len(commits)
    accepted = commits
    for position, (topic, partition, committed) in enumerate(commits):
        if _utf16_length(committed.metadata) > metadata_max:
            errors[position] = InvalidCommitOffsetSize(
                f"the metadata of {topic}-{partition} is longer than offset.metadata.max.bytes = "
                f"{metadata_max}"
            )
    if any(errors):
        accepted = [item for item, error in zip(commits, errors, strict=True) if error is None]
    if not accepted:
        return errors
    answer: Answer[list[OdradekError | None]] = Answer()

    def on_written(error: OdradekError | None) -> None:
        if error is None:
            coordinator.commits += len(accepted)
            answer(errors)
        else:
            coordinator.commits_failed += len(accepted)
            answer([known or error for known in errors])

    def on_late(error: OdradekError) -> None:
        answer([known or error for known in errors])

    shard.write_offsets(group_id, accepted, on_written, on_late=on_late)
    return answer.get()


def _utf16_length(text: str) -> int:
    """The length as Java counts it, which is what offset.metadata.max.bytes bounds in spite of its name."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _validate_commit(
    shard: Shard, group_id: str, *, member_id: str, instance_id: str | None, generation: int, version: int
) -> None:
    group = shard.groups.get(group_id)
    if group is None:
        if generation < 0:
            return  # the first commit of a group without members makes it
        if version >= COMMIT_VERSION_OF_BOTH_PROTOCOLS:
            raise GroupIdNotFound(f"there is no group {group_id!r}; join it before you commit")
        raise IllegalGeneration(f"there is no group {group_id!r} at generation {generation}; join again")
    if isinstance(group, ConsumerGroup):
        if generation < 0 and group.is_empty:
            return
        member = group.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"the group {group_id!r} has no member {member_id!r}; join again")
        if member.classic is None and version < COMMIT_VERSION_OF_BOTH_PROTOCOLS:
            raise UnsupportedVersion(
                f"members of consumer groups commit with OffsetCommit {COMMIT_VERSION_OF_BOTH_PROTOCOLS} "
                f"or newer"
            )
        _check_epoch(group, member_id, generation)
    else:
        group.validate_offset_commit(member_id=member_id, instance_id=instance_id, generation=generation)


def _check_epoch(group: ConsumerGroup, member_id: str, epoch: int) -> None:
    known = group.current(member_id).member_epoch
    if epoch == known:
        return
    message = f"the member {member_id!r} is at epoch {known}, not {epoch}; heartbeat and try again"
    if group.members[member_id].classic is not None:
        raise IllegalGeneration(message)
    raise StaleMemberEpoch(message)


def fetch(
    coordinator: Routing,
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
    shard = coordinator.shard(group_id)
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and not (member_epoch < 0 and not member_id):
        if member_id not in group.members:
            raise UnknownMemberId(f"the group {group_id!r} has no member {member_id!r}; join again")
        _check_epoch(group, member_id, member_epoch)
    offsets = shard.offsets.of_group(group_id)
    if partitions is None:
        return dict(offsets)
    return {key: offsets[key] for key in partitions if key in offsets}


def delete(
    coordinator: Routing, group_id: str, partitions: Sequence[tuple[str, int]]
) -> list[OdradekError | None] | Awaitable[list[OdradekError | None]]:
    """Forget positions; gives an error or None for each of `partitions`. Raises GroupIdNotFound,
    NonEmptyGroup, …
    """
    shard = coordinator.shard(group_id)
    group = shard.groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"there is no group {group_id!r}")
    if not isinstance(group, ConsumerGroup):
        group.validate_offset_delete()
    errors: list[OdradekError | None] = []
    removals = []
    for topic, partition in partitions:
        if group.is_subscribed_to(topic):
            errors.append(GroupSubscribedToTopic(f"the group {group_id!r} still subscribes to {topic!r}"))
        else:
            errors.append(None)
            if shard.offsets.get(group_id, topic, partition) is not None:
                removals.append((group_id, topic, partition))
    if not removals:
        return errors
    answer: Answer[list[OdradekError | None]] = Answer()

    def on_written(error: OdradekError | None) -> None:
        answer([known or error for known in errors])

    shard.remove_offsets(removals, on_written)
    return answer.get()


def committed(coordinator: Routing) -> Iterator[tuple[str, str, int, int]]:
    """Every committed position here as (group, topic, partition, offset), for lag."""
    for shard in coordinator.loaded_shards():
        for group_id, topic, partition, value in shard.offsets:
            yield group_id, topic, partition, value.offset
