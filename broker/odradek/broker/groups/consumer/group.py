"""One consumer group as its records have it (KIP-848): members, what they should own, what they own.

Records alone change it (`apply`), so a restart finds what clients know. `requests` turns heartbeats into records.
Three epochs drive a group. The group's epoch grows whenever an assignment may have to change. The target's epoch says
for which group epoch the target assignment was computed. A member's epoch says how far the member has come. A partition
has at most one owner: `owners` says which member holds it, revocations that are not confirmed included.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, Protocol, TypeVar
from uuid import UUID

from odradek.broker.coordination.timers import TimerHost, Wakeable
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.classic.members import (
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    JoinRequest,
    SyncRequest,
    SyncResult,
)
from odradek.broker.groups.consumer.deadlines import MemberDeadlines
from odradek.broker.groups.consumer.schema import (
    EMPTY_ASSIGNMENT,
    Assignment,
    CurrentValue,
    GroupValue,
    MemberState,
    MemberValue,
    PatternValue,
    RecordKind,
    TargetEpochValue,
    TargetValue,
    Value,
    encode_key,
    encode_value,
)
from odradek.broker.groups.offsets import Committer, commit_time_ms
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.errors import (
    IllegalGeneration,
    NonEmptyGroup,
    OdradekError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.foundation.words import count
from odradek.wire.protocol.consumer import PROTOCOL_TYPE

logger = logging.getLogger(__name__)

T = TypeVar("T")

# From this version of OffsetCommit on, a client knows the errors of both protocols.
COMMIT_VERSION_OF_BOTH_PROTOCOLS: Final = 9
# The same of TxnOffsetCommit (KIP-1319).
TRANSACTIONAL_COMMIT_VERSION_OF_BOTH_PROTOCOLS: Final = 6

LEFT_FOR_NOW_EPOCH: Final = -2  # a static member that will be back (KIP-345)

NEW_CURRENT: Final = CurrentValue(
    member_epoch=0,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned=EMPTY_ASSIGNMENT,
    pending_revocation=EMPTY_ASSIGNMENT,
)


class ClassicMemberRequests(Protocol):
    """Serves members of a consumer group that speak the classic protocol (`classic_members`)."""

    def join(self, group: ConsumerGroup, request: JoinRequest, answer: AnswerJoin) -> None: ...

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult: ...

    def heartbeat(
        self, group: ConsumerGroup, *, member_id: str, instance_id: str | None, generation: int
    ) -> None: ...

    def leave(
        self, group: ConsumerGroup, members: Sequence[tuple[str, str | None]], answer: AnswerLeave
    ) -> None: ...


class ConsumerGroupHost(TimerHost, Protocol):
    """The shard of a consumer group, as the group needs it."""

    @property
    def classic_members(self) -> ClassicMemberRequests: ...

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member may send no heartbeat: the group's own setting or the broker's."""
        ...

    def join_after_removal(self, group: ConsumerGroup, request: JoinRequest, answer: AnswerJoin) -> None:
        """Replace an empty consumer group by a classic one of the same id, and join that."""
        ...

    def expire_members(self, group: ConsumerGroup) -> None:
        """Fence the members whose time is up, and set the next `wake_at`."""
        ...

    def fence_members(self, group: ConsumerGroup, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove the members; `on_written` is called once that is written, or with the error."""
        ...


class ConsumerGroup:
    """One group: its records, the deadlines of its members, and what requests mean to it."""

    kind: Final = "consumer"
    protocol_type: Final = PROTOCOL_TYPE

    def __init__(self, group_id: str, host: ConsumerGroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.target_at_ms = 0
        """When the target was computed, in ms since 1970; 0 where the next one need not wait."""
        self.members: dict[str, MemberValue] = {}
        self.targets: dict[str, Assignment] = {}
        self.currents: dict[str, CurrentValue] = {}
        self.patterns: dict[str, PatternValue] = {}
        self.owners: dict[tuple[UUID, int], str] = {}
        self._id_by_instance: dict[str, str] = {}
        self._subscribers: dict[str, int] = {}  # members by topic name
        self._pattern_members: dict[str, int] = {}
        self._topics_of_patterns: frozenset[str] | None = None
        # The topics that the group was last compared with. Another mapping means that topics may have changed.
        self.topics_seen: object = None

    @cached_property
    def deadlines(self) -> MemberDeadlines:
        """Made when a deadline is first set. They know the group, and one that is for an update is freed at once."""
        return MemberDeadlines(self._host, self.expire)

    def copy(self) -> ConsumerGroup:
        """A group with the same records and no deadlines, for an update."""
        copied = ConsumerGroup(self.group_id, self._host)
        copied.epoch, copied.metadata_hash = self.epoch, self.metadata_hash
        copied.target_epoch, copied.target_at_ms = self.target_epoch, self.target_at_ms
        copied.members = self.members.copy()
        copied.targets = self.targets.copy()
        copied.currents = self.currents.copy()
        copied.patterns = self.patterns.copy()
        copied.owners = self.owners.copy()
        copied._id_by_instance = self._id_by_instance.copy()
        copied._subscribers = self._subscribers.copy()
        copied._pattern_members = self._pattern_members.copy()
        return copied

    def take(self, changed: ConsumerGroup) -> None:
        """Have the records of a changed copy, which nothing else uses any more."""
        for member_id in self.members.keys() - changed.members.keys():
            self.deadlines.remove(member_id)
        self.epoch, self.metadata_hash = changed.epoch, changed.metadata_hash
        self.target_epoch, self.target_at_ms = changed.target_epoch, changed.target_at_ms
        self.members, self.targets, self.currents = changed.members, changed.targets, changed.currents
        self.patterns, self.owners = changed.patterns, changed.owners
        self._id_by_instance, self._subscribers = changed._id_by_instance, changed._subscribers
        self._pattern_members, self._topics_of_patterns = changed._pattern_members, None

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, kind: int, name: str, value: Value | None) -> None:
        """Apply a record that is in the log; None removes."""
        self._topics_of_patterns = None
        if kind == RecordKind.GROUP and isinstance(value, GroupValue):
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
        elif kind == RecordKind.TARGET_EPOCH:
            target = value if isinstance(value, TargetEpochValue) else TargetEpochValue(-1)
            self.target_epoch, self.target_at_ms = target
        elif kind == RecordKind.MEMBER:
            self._put_member(name, value if isinstance(value, MemberValue) else None)
        elif kind == RecordKind.TARGET:
            _put(self.targets, name, value.partitions if isinstance(value, TargetValue) else None)
        elif kind == RecordKind.CURRENT:
            self._put_current(name, value if isinstance(value, CurrentValue) else None)
        elif kind == RecordKind.PATTERN:
            _put(self.patterns, name, value if isinstance(value, PatternValue) else None)

    def _put_member(self, member_id: str, value: MemberValue | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._count_topics(old, -1)
            if old.instance_id is not None and self._id_by_instance.get(old.instance_id) == member_id:
                del self._id_by_instance[old.instance_id]
        if value is None:
            self.deadlines.remove(member_id)
            if not self.members:
                self.target_at_ms = 0  # the next first member is assigned at once
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

    def _put_current(self, member_id: str, value: CurrentValue | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            for partition in list_owned_partitions(old):
                if self.owners.get(partition) == member_id:
                    del self.owners[partition]
        if value is not None:
            self.currents[member_id] = value
            for partition in list_owned_partitions(value):
                self.owners[partition] = member_id

    def live_records(self) -> Iterator[EncodedRecord]:
        """The records from which `apply` makes this group."""
        group_id = self.group_id
        for member_id, member in list(self.members.items()):
            yield encode_key(RecordKind.MEMBER, group_id, member_id), encode_value(member)
        for pattern, resolved in list(self.patterns.items()):
            yield encode_key(RecordKind.PATTERN, group_id, pattern), encode_value(resolved)
        value = GroupValue(self.epoch, self.metadata_hash)
        yield encode_key(RecordKind.GROUP, group_id), encode_value(value)
        for member_id, target in list(self.targets.items()):
            yield encode_key(RecordKind.TARGET, group_id, member_id), encode_value(TargetValue(target))
        computed = TargetEpochValue(self.target_epoch, self.target_at_ms)
        yield encode_key(RecordKind.TARGET_EPOCH, group_id), encode_value(computed)
        for member_id, current in list(self.currents.items()):
            yield encode_key(RecordKind.CURRENT, group_id, member_id), encode_value(current)

    def tombstones(self) -> list[EncodedRecord]:
        """The records that remove the group, in an order in which a reader never sees half of it."""
        group_id = self.group_id
        keys = [encode_key(RecordKind.CURRENT, group_id, member_id) for member_id in self.currents]
        keys += [encode_key(RecordKind.TARGET, group_id, member_id) for member_id in self.targets]
        keys.append(encode_key(RecordKind.TARGET_EPOCH, group_id))
        keys += [encode_key(RecordKind.MEMBER, group_id, member_id) for member_id in self.members]
        keys += [encode_key(RecordKind.PATTERN, group_id, pattern) for pattern in self.patterns]
        keys.append(encode_key(RecordKind.GROUP, group_id))
        return [(key, None) for key in keys]

    # --- questions ------------------------------------------------------------------------------------------

    def current(self, member_id: str) -> CurrentValue:
        return self.currents.get(member_id, NEW_CURRENT)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, EMPTY_ASSIGNMENT)

    def member(self, member_id: str | None) -> MemberValue:
        """Raises UnknownMemberId."""
        found = None if member_id is None else self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"the group {self.group_id!r} has no member {member_id!r}; join again")
        return found

    def id_of_instance(self, instance_id: str) -> str | None:
        return self._id_by_instance.get(instance_id)

    @property
    def size(self) -> int:
        """The topic names that members subscribe to, and the partitions that they hold."""
        return len(self._subscribers) + len(self.owners)

    def list_subscribed_topics(self) -> set[str]:
        """Topics that members subscribe to by name or by pattern."""
        topics = set(self._subscribers)
        for pattern in self._pattern_members:
            resolved = self.patterns.get(pattern)
            if resolved is not None:
                topics.update(resolved.topics)
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        if topic in self._subscribers:
            return True
        if self._topics_of_patterns is None:
            # Kept until a record changes the group: one request asks about many topics.
            self._topics_of_patterns = frozenset(self.list_subscribed_topics())
        return topic in self._topics_of_patterns

    def unread_subscriptions(self) -> Callable[[], None] | None:
        """Nothing: records of members have their topics."""
        return None

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
        """After a load: each member has a whole session for its first heartbeat, and a whole timeout to revoke."""
        own_timeout_ms = self._host.session_timeout_ms(self.group_id)
        for member_id, member in self.members.items():
            current = self.current(member_id)
            if member.classic is not None:
                self.deadlines.extend_session(member_id, member.classic.session_timeout_ms)
                continue
            # A static member that left for now keeps its partitions for one session.
            self.deadlines.extend_session(member_id, own_timeout_ms)
            has_left = current.member_epoch == LEFT_FOR_NOW_EPOCH
            if current.state is MemberState.UNREVOKED_PARTITIONS and not has_left:
                self.deadlines.set_step(member_id, member.rebalance_timeout_ms, current.member_epoch)
        self.deadlines.wake()

    def expire(self) -> None:
        self._host.expire_members(self)

    @property
    def timed(self) -> Wakeable:
        return self.deadlines

    def die(self, error: OdradekError) -> None:
        """No request waits in the group: each is answered once its records are written."""
        self.deadlines.clear()

    # --- requests of members that speak the classic protocol ------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        if self.is_empty:
            self._host.join_after_removal(self, request, answer)
        else:
            self._host.classic_members.join(self, request, answer)

    def sync(self, request: SyncRequest, answer: AnswerSync) -> None:
        """See `Group`; the broker assigns, so those of the request do not count."""
        answer(self._host.classic_members.sync(self, request))

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        self._host.classic_members.heartbeat(
            self, member_id=member_id, instance_id=instance_id, generation=generation
        )

    def leave_members(self, members: Sequence[tuple[str, str | None]], answer: AnswerLeave) -> None:
        self._host.classic_members.leave(self, members, answer)

    # --- offsets and removal --------------------------------------------------------------------------------

    def validate_offset_commit(self, by: Committer) -> None:
        """Raises UnknownMemberId, UnsupportedVersion, IllegalGeneration or StaleMemberEpoch."""
        if (by.generation < 0 and self.is_empty) or (by.is_transactional and not by.names_member):
            return
        member = self.member(by.member_id)
        if (
            not by.is_transactional
            and member.classic is None
            and by.version < COMMIT_VERSION_OF_BOTH_PROTOCOLS
        ):
            raise UnsupportedVersion(
                f"members of consumer groups commit with OffsetCommit {COMMIT_VERSION_OF_BOTH_PROTOCOLS} or newer"
            )
        self._check_epoch(by.member_id, by.generation)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises UnknownMemberId, IllegalGeneration or StaleMemberEpoch for a member that names itself."""
        if member_epoch < 0 and not member_id:
            return
        self.member(member_id)
        self._check_epoch(member_id or "", member_epoch)

    def _check_epoch(self, member_id: str, epoch: int) -> None:
        known = self.current(member_id).member_epoch
        if epoch == known:
            return
        message = f"the member {member_id!r} is at epoch {known}, not {epoch}; heartbeat and try again"
        if self.members[member_id].classic is not None:
            raise IllegalGeneration(message)
        raise StaleMemberEpoch(message)

    def validate_offset_delete(self) -> None:
        """Offsets of topics without subscribers may be deleted at any time."""

    def retention_start(self) -> Callable[[OffsetAndMetadata], int] | None:
        return commit_time_ms

    def validate_delete(self) -> None:
        """Raises NonEmptyGroup."""
        if not self.is_empty:
            raise NonEmptyGroup(
                f"the group {self.group_id!r} has {count(len(self.members), 'member')}; stop them first"
            )

    @property
    def is_removable(self) -> bool:
        return self.is_empty

    def after_tombstones(self, *, has_offsets: bool) -> bool:
        return self.is_empty

    def remove_all(self) -> None:
        """Fence every member. When that cannot be written, their sessions end instead."""
        if self.is_empty:
            return

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                logger.warning(
                    "group %r is fenced, its members go when their sessions end: %s", self.group_id, error
                )

        self._host.fence_members(self, sorted(self.members), on_written)


def list_owned_partitions(current: CurrentValue) -> Iterator[tuple[UUID, int]]:
    """The partitions that a member holds: its assignment, and what it must revoke and has not confirmed."""
    for assignment in (current.assigned, current.pending_revocation):
        for topic_id, partitions in assignment.items():
            for partition in partitions:
                yield topic_id, partition


def _put(values: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _count(counts: dict[str, int], name: str, change: int) -> None:
    counts[name] = counts.get(name, 0) + change
    if not counts[name]:
        del counts[name]
