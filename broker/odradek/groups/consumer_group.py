"""What is known of one consumer group (KIP-848): members, what they should own, what they own.

Plain state, changed by records alone (`apply`), so that a restart finds what clients were told. How requests
become records is `consumer_requests`'s matter. Three epochs drive a group: the group's own grows whenever an
assignment may have to change; the target's says for which epoch the target assignment was computed; a
member's says how far it has come. A partition has one owner at most: `owners` says which member holds it,
revocations that are not confirmed included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Protocol
from uuid import UUID

from odradek.foundation.errors import OdradekError
from odradek.groups.consumer_schema import (
    EMPTY_ASSIGNMENT,
    KIND_CURRENT,
    KIND_GROUP,
    KIND_MEMBER,
    KIND_PATTERN,
    KIND_TARGET,
    KIND_TARGET_EPOCH,
    Assignment,
    CurrentValue,
    GroupValue,
    MemberState,
    MemberValue,
    PatternValue,
    TargetEpochValue,
    TargetValue,
    Value,
    encode_key,
    encode_value,
)
from odradek.groups.schema import Encoded

LEFT_FOR_NOW_EPOCH: Final = -2  # a static member that will be back (KIP-345)

NEW_CURRENT: Final = CurrentValue(
    member_epoch=0,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned=EMPTY_ASSIGNMENT,
    pending_revocation=EMPTY_ASSIGNMENT,
)


class ConsumerGroupHost(Protocol):
    """What a consumer group needs of the world around it."""

    def now(self) -> float: ...

    def wake(self, group: ConsumerGroup) -> None: ...

    def session_timeout_ms(self, group_id: str) -> int:
        """How long members may be silent now; the group's own setting or the broker's."""
        ...

    def expire_consumer_group(self, group: ConsumerGroup) -> None:
        """Fence members whose time is up, and set `wake_at` anew."""
        ...


class ConsumerGroup:
    """One group. Deadlines are loop times: of sessions, and of steps that a member must take (see
    `step_deadlines`).
    """

    def __init__(self, group_id: str, host: ConsumerGroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, MemberValue] = {}
        self.targets: dict[str, Assignment] = {}
        self.currents: dict[str, CurrentValue] = {}
        self.patterns: dict[str, PatternValue] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        self._id_by_instance: dict[str, str] = {}
        self._subscribers: dict[str, int] = {}  # members by topic name
        self._pattern_members: dict[str, int] = {}
        self.session_deadlines: dict[str, float] = {}
        # Until when a member must have revoked, or (speaking the classic protocol) joined or synced; and its
        # epoch then.
        self.step_deadlines: dict[str, tuple[float, int]] = {}
        # The topics that the group was last compared with; another mapping means that they may have changed.
        self.topics_seen: object = None
        self.wake_at = math.inf

    def copy(self, host: ConsumerGroupHost) -> ConsumerGroup:
        """A group with the same records and no deadlines, for a draft."""
        copied = ConsumerGroup(self.group_id, host)
        copied.epoch, copied.metadata_hash = self.epoch, self.metadata_hash
        copied.target_epoch = self.target_epoch
        copied.members = self.members.copy()
        copied.targets = self.targets.copy()
        copied.currents = self.currents.copy()
        copied.patterns = self.patterns.copy()
        copied.owners = self.owners.copy()
        copied._id_by_instance = self._id_by_instance.copy()
        copied._subscribers = self._subscribers.copy()
        copied._pattern_members = self._pattern_members.copy()
        return copied

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, kind: int, name: str, value: Value | None) -> None:
        """Take in a record that is in the log; None removes."""
        if kind == KIND_GROUP and isinstance(value, GroupValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif kind == KIND_TARGET_EPOCH:
            self.target_epoch = value.epoch if isinstance(value, TargetEpochValue) else -1
        elif kind == KIND_MEMBER:
            self._put_member(name, value if isinstance(value, MemberValue) else None)
        elif kind == KIND_TARGET:
            if isinstance(value, TargetValue):
                self.targets[name] = value.partitions
            else:
                self.targets.pop(name, None)
        elif kind == KIND_CURRENT:
            self._put_current(name, value if isinstance(value, CurrentValue) else None)
        elif kind == KIND_PATTERN:
            self._put_pattern(name, value if isinstance(value, PatternValue) else None)

    def _put_member(self, member_id: str, value: MemberValue | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._count_topics(old, -1)
            if old.instance_id is not None and self._id_by_instance.get(old.instance_id) == member_id:
                del self._id_by_instance[old.instance_id]
        if value is None:
            self.session_deadlines.pop(member_id, None)
            self.step_deadlines.pop(member_id, None)
            return
        self.members[member_id] = value
        self._count_topics(value, 1)
        if value.instance_id is not None:
            self._id_by_instance[value.instance_id] = member_id

    def _count_topics(self, member: MemberValue, change: int) -> None:
        for topic in set(member.topic_names):
            _count(self._subscribers, topic, change)
        if member.topic_regex:
            _count(self._pattern_members, member.topic_regex, change)

    def _put_pattern(self, pattern: str, value: PatternValue | None) -> None:
        if value is None:
            self.patterns.pop(pattern, None)
        else:
            self.patterns[pattern] = value

    def _put_current(self, member_id: str, value: CurrentValue | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            for partition in owned_partitions(old):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        if value is not None:
            self.currents[member_id] = value
            for partition in owned_partitions(value):
                self.owners[partition] = member_id

    def records(self) -> Iterator[Encoded]:
        """The records from which `apply` makes this group."""
        group_id = self.group_id
        for member_id, member in list(self.members.items()):
            yield encode_key(KIND_MEMBER, group_id, member_id), encode_value(member)
        for pattern, resolved in list(self.patterns.items()):
            yield encode_key(KIND_PATTERN, group_id, pattern), encode_value(resolved)
        value = GroupValue(self.epoch, self.metadata_hash)
        yield encode_key(KIND_GROUP, group_id), encode_value(value)
        for member_id, target in list(self.targets.items()):
            yield encode_key(KIND_TARGET, group_id, member_id), encode_value(TargetValue(target))
        yield encode_key(KIND_TARGET_EPOCH, group_id), encode_value(TargetEpochValue(self.target_epoch))
        for member_id, current in list(self.currents.items()):
            yield encode_key(KIND_CURRENT, group_id, member_id), encode_value(current)

    def tombstones(self) -> list[Encoded]:
        """The records that remove the group, in the order in which a reader never sees half of it."""
        group_id = self.group_id
        keys = [encode_key(KIND_CURRENT, group_id, member_id) for member_id in self.currents]
        keys += [encode_key(KIND_TARGET, group_id, member_id) for member_id in self.targets]
        keys.append(encode_key(KIND_TARGET_EPOCH, group_id))
        keys += [encode_key(KIND_MEMBER, group_id, member_id) for member_id in self.members]
        keys += [encode_key(KIND_PATTERN, group_id, pattern) for pattern in self.patterns]
        keys.append(encode_key(KIND_GROUP, group_id))
        return [(key, None) for key in keys]

    # --- questions ------------------------------------------------------------------------------------------

    def current(self, member_id: str) -> CurrentValue:
        return self.currents.get(member_id, NEW_CURRENT)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, EMPTY_ASSIGNMENT)

    def id_of_instance(self, instance_id: str) -> str | None:
        return self._id_by_instance.get(instance_id)

    def owner(self, topic_id: UUID, partition: int) -> str | None:
        return self.owners.get((topic_id, partition))

    def subscribed_topics(self) -> set[str]:
        """Names that members subscribe to, and those that their patterns stand for."""
        topics = set(self._subscribers)
        for pattern in self._pattern_members:
            resolved = self.patterns.get(pattern)
            if resolved is not None:
                topics.update(resolved.topics)
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._subscribers or topic in self.subscribed_topics()

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        """The state that clients see; as in Kafka a static member that left for now is not done."""
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        for member_id in self.members:
            current = self.current(member_id)
            if current.state is not MemberState.STABLE or current.member_epoch != self.target_epoch:
                return "Reconciling"
        return "Stable"

    # --- time -----------------------------------------------------------------------------------------------

    def start_sessions(self) -> None:
        """After a load: every member has a whole session to show up, and a whole timeout to revoke."""
        own_timeout_ms = self._host.session_timeout_ms(self.group_id)
        for member_id, member in self.members.items():
            current = self.current(member_id)
            if current.member_epoch == LEFT_FOR_NOW_EPOCH and member.classic is None:
                # A static member that left for now keeps its partitions for one session.
                self.extend_session(member_id, own_timeout_ms)
                continue
            timeout_ms = own_timeout_ms
            if member.classic is not None:
                timeout_ms = member.classic.session_timeout_ms
            self.extend_session(member_id, timeout_ms)
            if current.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                self.set_step_deadline(member_id, member.rebalance_timeout_ms, current.member_epoch)
        self._host.wake(self)

    def extend_session(self, member_id: str, timeout_ms: int) -> None:
        self.session_deadlines[member_id] = self._after(timeout_ms)

    def set_step_deadline(self, member_id: str, timeout_ms: int, epoch: int) -> None:
        """The member must get beyond `epoch` within `timeout_ms`; a deadline for the same epoch stays as it
        was.
        """
        known = self.step_deadlines.get(member_id)
        if known is None or known[1] != epoch:
            self.step_deadlines[member_id] = (self._after(timeout_ms), epoch)

    def _after(self, delay_ms: int) -> float:
        at = self._host.now() + delay_ms / 1000
        if at < self.wake_at:
            self.wake_at = at
        return at

    def rearm(self) -> None:
        """Set `wake_at` to the earliest deadline."""
        steps = [at for at, _ in self.step_deadlines.values()]
        self.wake_at = min([*self.session_deadlines.values(), *steps], default=math.inf)
        self._host.wake(self)

    def expire(self) -> None:
        self._host.expire_consumer_group(self)

    def die(self, error: OdradekError) -> None:
        """Nothing waits here: requests of consumer groups are answered once their records are written."""
        self.session_deadlines.clear()
        self.step_deadlines.clear()


def owned_partitions(current: CurrentValue) -> Iterator[tuple[UUID, int]]:
    """What a member holds: assigned, or told to revoke but not known to have done so."""
    for assignment in (current.assigned, current.pending_revocation):
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition


def _count(counts: dict[str, int], name: str, change: int) -> None:
    counts[name] = counts.get(name, 0) + change
    if not counts[name]:
        del counts[name]
