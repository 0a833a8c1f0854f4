"""The steps of a consumer group's member from the partitions that it owns to those that it should own.

First the member gives up what is no longer in its target. It stays in its epoch until it confirms that
(UNREVOKED_PARTITIONS). Then it enters the target's epoch and gets every partition that no member holds. While other
members still hold something of its target, it waits (UNRELEASED_PARTITIONS). Then it is done (STABLE). So no partition
ever has two owners.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from odradek.broker.groups.consumer.schema import EMPTY_ASSIGNMENT, Assignment, CurrentValue, MemberState
from odradek.foundation.errors import FencedMemberEpoch

# Says whether any member, this one included, holds a partition.
IsHeld = Callable[[UUID, int], bool]
Owned = Mapping[UUID, frozenset[int]]


def reconcile(
    current: CurrentValue, *, target_epoch: int, target: Assignment, is_held: IsHeld, owned: Owned | None
) -> CurrentValue:
    """The member's next step; the same value when there is none.

    `owned` is what the member says it owns, None when it does not say. Raises FencedMemberEpoch for a state
    that only a newer broker knows, until the member owns nothing.
    """
    epoch = current.member_epoch
    match current.state:
        case MemberState.STABLE:
            if epoch == target_epoch:
                return current
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, current.pending_revocation):
                return current
            epoch += 1
        case MemberState.UNKNOWN:
            if owned is None or any(owned.values()):
                raise FencedMemberEpoch(
                    "the member is in a state that this broker does not know; give up all partitions and join again"
                )
            epoch = target_epoch
    kept: dict[UUID, frozenset[int]] = {}
    given_up: dict[UUID, frozenset[int]] = {}
    gained: dict[UUID, frozenset[int]] = {}
    is_waiting = False
    for topic_id in target.keys() | current.assigned.keys():
        wanted = target.get(topic_id, frozenset())
        had = current.assigned.get(topic_id, frozenset())
        missing = wanted - had
        free = frozenset(partition for partition in missing if not is_held(topic_id, partition))
        is_waiting = is_waiting or len(free) < len(missing)
        for part, partitions in ((kept, had & wanted), (given_up, had - wanted), (gained, free)):
            if partitions:
                part[topic_id] = partitions
    if given_up and _owns_any(owned, given_up):
        return _at(current, epoch, MemberState.UNREVOKED_PARTITIONS, kept, given_up)
    assigned = {
        topic_id: kept.get(topic_id, frozenset()) | gained.get(topic_id, frozenset())
        for topic_id in kept.keys() | gained.keys()
    }
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _at(current, target_epoch, state, assigned, EMPTY_ASSIGNMENT)


def _owns_any(owned: Owned | None, partitions: Assignment) -> bool:
    """Whether the member (still) owns one of `partitions`; one that does not say is taken to."""
    if owned is None:
        return True
    return any(owned.get(topic_id, frozenset()) & indexes for topic_id, indexes in partitions.items())


def _at(
    current: CurrentValue, epoch: int, state: MemberState, assigned: Assignment, pending: Assignment
) -> CurrentValue:
    # The last epoch stays accepted: the answer with the new one may be lost.
    last_epoch = current.previous_member_epoch if epoch == current.member_epoch else current.member_epoch
    return CurrentValue(epoch, last_epoch, state, assigned, pending)
