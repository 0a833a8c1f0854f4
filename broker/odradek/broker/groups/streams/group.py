"""One Streams group as its records have it (KIP-1071): members, the topology, what members should run, what they run.

Records alone change it (`apply`), so a restart finds what clients know. Three epochs drive it, as in a consumer group:
that of the group, of the target assignment, and of each member. `NotReady` is a group whose topics are missing.

Some is kept in memory alone, as in Kafka. That is the changelog offsets that members report, a wish to shut the
application down, and the epoch of endpoints. Members report the first again, and the last only starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NoReturn

from odradek.broker.coordination.timers import Wakeable
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.classic.members import (
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    JoinRequest,
    SyncRequest,
)
from odradek.broker.groups.offsets import Committer, commit_time_ms
from odradek.broker.groups.schema import OffsetAndMetadata, StreamsRecordKind
from odradek.broker.groups.streams.deadlines import StreamsDeadlines
from odradek.broker.groups.streams.host import StreamsGroupHost
from odradek.broker.groups.streams.reconciliation import is_reconciled
from odradek.broker.groups.streams.schema import (
    StreamsCurrentValue,
    StreamsGroupValue,
    StreamsMemberValue,
    StreamsTargetEpochValue,
    StreamsTargetValue,
    StreamsValue,
    TaskState,
    encode_streams_key,
    encode_streams_value,
)
from odradek.broker.groups.streams.tasks import (
    NO_TARGET,
    NOTHING_HELD,
    HeldTasks,
    TargetTasks,
    TaskId,
    list_tasks,
)
from odradek.broker.groups.streams.topology import ConfiguredSubtopology, ConfiguredTopology, StreamsTopology
from odradek.foundation.errors import (
    InconsistentGroupProtocol,
    NonEmptyGroup,
    OdradekError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.foundation.words import count

logger = logging.getLogger(__name__)

STREAMS_PROTOCOL: Final = "streams"
LEFT_FOR_NOW_EPOCH: Final = -2  # a static member that will be back (KIP-345)

# From this version of OffsetCommit on, a client knows the errors of both protocols.
COMMIT_VERSION_MIN: Final = 9

NEW_MEMBER: Final = StreamsCurrentValue(
    member_epoch=0,
    previous_member_epoch=0,
    state=TaskState.STABLE,
    assigned=NOTHING_HELD,
    pending_revocation=NOTHING_HELD,
)
_NEW_GROUP: Final = StreamsGroupValue(epoch=1)
_NO_TARGET_YET: Final = StreamsTargetEpochValue(epoch=1)

TaskOffsets = Mapping[TaskId, int]


class StreamsGroup:
    """One group: its records, the deadlines of its members, and what requests mean to it."""

    kind: Final = STREAMS_PROTOCOL
    protocol_type: Final = STREAMS_PROTOCOL

    def __init__(self, group_id: str, host: StreamsGroupHost[StreamsGroup]) -> None:
        self.group_id = group_id
        self._host = host
        self.value = _NEW_GROUP
        self.target_value = _NO_TARGET_YET
        self.topology: StreamsTopology | None = None
        self.members: dict[str, StreamsMemberValue] = {}
        self.targets: dict[str, TargetTasks] = {}
        self.currents: dict[str, StreamsCurrentValue] = {}
        # The members that hold each task, those included that must give it up and have not.
        self._active_holders: dict[TaskId, str] = {}
        self._standby_holders: dict[TaskId, tuple[str, ...]] = {}
        self._warmup_holders: dict[TaskId, tuple[str, ...]] = {}
        self._id_by_instance: dict[str, str] = {}
        self._sources: dict[str, str] = {}  # subtopologies by the topics that they read
        # The topology beside the topics that it was last compared with.
        self.configured: ConfiguredTopology | None = None
        self.topics_seen: object = None
        self.offsets: dict[str, TaskOffsets] = {}
        self.end_offsets: dict[str, TaskOffsets] = {}
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0

    @cached_property
    def deadlines(self) -> StreamsDeadlines:
        """Made when a deadline is first set. They know the group, and one that is for an update is freed at once."""
        return StreamsDeadlines(self._host, self.expire)

    def copy(self) -> StreamsGroup:
        """A group with the same records and no deadlines, for an update."""
        copied = StreamsGroup(self.group_id, self._host)
        copied.value, copied.target_value = self.value, self.target_value
        copied.topology, copied._sources = self.topology, self._sources
        copied.members, copied.targets = self.members.copy(), self.targets.copy()
        copied.currents = self.currents.copy()
        copied._active_holders = self._active_holders.copy()
        copied._standby_holders = self._standby_holders.copy()
        copied._warmup_holders = self._warmup_holders.copy()
        copied._id_by_instance = self._id_by_instance.copy()
        copied.configured, copied.topics_seen = self.configured, self.topics_seen
        copied.offsets = self.offsets
        return copied

    def take(self, changed: StreamsGroup) -> None:
        """Have the records of a changed copy, which nothing else uses any more."""
        for member_id in self.members.keys() - changed.members.keys():
            self._forget_member(member_id)
        self.value, self.target_value = changed.value, changed.target_value
        self.topology, self._sources = changed.topology, changed._sources
        self.members, self.targets, self.currents = changed.members, changed.targets, changed.currents
        self._active_holders = changed._active_holders
        self._standby_holders, self._warmup_holders = changed._standby_holders, changed._warmup_holders
        self._id_by_instance = changed._id_by_instance

    def _forget_member(self, member_id: str) -> None:
        self.deadlines.remove(member_id)
        if member_id in self.offsets or member_id in self.end_offsets:
            # Another mapping, since copies for updates share it.
            self.offsets = {one: at for one, at in self.offsets.items() if one != member_id}
            self.end_offsets = {one: at for one, at in self.end_offsets.items() if one != member_id}

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, kind: int, name: str, value: StreamsValue | None) -> None:
        """Apply a record that is in the log; None removes."""
        if kind == StreamsRecordKind.GROUP and isinstance(value, StreamsGroupValue):
            self.value = value
        elif kind == StreamsRecordKind.TARGET_EPOCH:
            if not isinstance(value, StreamsTargetEpochValue):
                value = StreamsTargetEpochValue(-1)
            self.target_value = value
        elif kind == StreamsRecordKind.MEMBER:
            self._put_member(name, value if isinstance(value, StreamsMemberValue) else None)
        elif kind == StreamsRecordKind.TARGET:
            if isinstance(value, StreamsTargetValue):
                self.targets[name] = value.tasks
            else:
                self.targets.pop(name, None)
        elif kind == StreamsRecordKind.CURRENT:
            self._put_current(name, value if isinstance(value, StreamsCurrentValue) else None)
        elif kind == StreamsRecordKind.TOPOLOGY:
            self.topology = value if isinstance(value, StreamsTopology) else None
            self._sources = {} if self.topology is None else self.topology.map_sources()
            self.configured = None

    def _put_member(self, member_id: str, value: StreamsMemberValue | None) -> None:
        old = self.members.pop(member_id, None)
        if (
            old is not None
            and old.instance_id is not None
            and self._id_by_instance.get(old.instance_id) == member_id
        ):
            del self._id_by_instance[old.instance_id]
        if value is None:
            self._forget_member(member_id)
            if not self.members:
                self.shutdown_member_id = None
            return
        self.members[member_id] = value
        if value.instance_id is not None:
            self._id_by_instance[value.instance_id] = member_id

    def _put_current(self, member_id: str, value: StreamsCurrentValue | None) -> None:
        old = self.currents.pop(member_id, None)
        if old is not None:
            for tasks in (old.assigned, old.pending_revocation):
                self._drop_holder(member_id, tasks)
        if value is not None:
            self.currents[member_id] = value
            for tasks in (value.assigned, value.pending_revocation):
                self._add_holder(member_id, tasks)

    def _add_holder(self, member_id: str, tasks: HeldTasks) -> None:
        for task in list_tasks(tasks.active):
            self._active_holders[task] = member_id
        for holders, copies in ((self._standby_holders, tasks.standby), (self._warmup_holders, tasks.warmup)):
            for task in list_tasks(copies):
                known = holders.get(task, ())
                if member_id not in known:
                    holders[task] = (*known, member_id)

    def _drop_holder(self, member_id: str, tasks: HeldTasks) -> None:
        for task in list_tasks(tasks.active):
            if self._active_holders.get(task) == member_id:
                del self._active_holders[task]
        for holders, copies in ((self._standby_holders, tasks.standby), (self._warmup_holders, tasks.warmup)):
            for task in list_tasks(copies):
                left = tuple(one for one in holders.get(task, ()) if one != member_id)
                if left:
                    holders[task] = left
                else:
                    holders.pop(task, None)

    def live_records(self) -> Iterator[EncodedRecord]:
        """The records from which `apply` makes this group."""
        group_id = self.group_id
        for member_id, member in list(self.members.items()):
            yield (
                encode_streams_key(StreamsRecordKind.MEMBER, group_id, member_id),
                encode_streams_value(member),
            )
        yield encode_streams_key(StreamsRecordKind.GROUP, group_id), encode_streams_value(self.value)
        if self.topology is not None:
            yield (
                encode_streams_key(StreamsRecordKind.TOPOLOGY, group_id),
                encode_streams_value(self.topology),
            )
        for member_id, target in list(self.targets.items()):
            value = encode_streams_value(StreamsTargetValue(target))
            yield encode_streams_key(StreamsRecordKind.TARGET, group_id, member_id), value
        value = encode_streams_value(self.target_value)
        yield encode_streams_key(StreamsRecordKind.TARGET_EPOCH, group_id), value
        for member_id, current in list(self.currents.items()):
            yield (
                encode_streams_key(StreamsRecordKind.CURRENT, group_id, member_id),
                encode_streams_value(current),
            )

    def tombstones(self) -> list[EncodedRecord]:
        """The records that remove the group, in an order in which a reader never sees half of it."""
        group_id = self.group_id
        keys = [
            encode_streams_key(StreamsRecordKind.CURRENT, group_id, member_id) for member_id in self.currents
        ]
        keys += [
            encode_streams_key(StreamsRecordKind.TARGET, group_id, member_id) for member_id in self.targets
        ]
        keys.append(encode_streams_key(StreamsRecordKind.TARGET_EPOCH, group_id))
        keys += [
            encode_streams_key(StreamsRecordKind.MEMBER, group_id, member_id) for member_id in self.members
        ]
        # In Kafka's order. A topology's tombstone makes no group.
        keys.append(encode_streams_key(StreamsRecordKind.GROUP, group_id))
        keys.append(encode_streams_key(StreamsRecordKind.TOPOLOGY, group_id))
        return [(key, None) for key in keys]

    # --- questions ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @property
    def target_epoch(self) -> int:
        return self.target_value.epoch

    @property
    def topology_epoch(self) -> int:
        """The epoch of the topology; -1 without one."""
        return -1 if self.topology is None else self.topology.epoch

    def current(self, member_id: str) -> StreamsCurrentValue:
        return self.currents.get(member_id, NEW_MEMBER)

    def target(self, member_id: str) -> TargetTasks:
        return self.targets.get(member_id, NO_TARGET)

    def member(self, member_id: str | None) -> StreamsMemberValue:
        """Raises UnknownMemberId."""
        found = None if member_id is None else self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def id_of_instance(self, instance_id: str) -> str | None:
        return self._id_by_instance.get(instance_id)

    def active_process(self, task: TaskId) -> str | None:
        """See `reconciliation.TaskHolders`."""
        holder = self._active_holders.get(task)
        member = None if holder is None else self.members.get(holder)
        return None if member is None else member.process_id

    def has_standby(self, task: TaskId, process_id: str) -> bool:
        """See `reconciliation.TaskHolders`."""
        return self._has_holder(self._standby_holders.get(task, ()), process_id)

    def has_warmup(self, task: TaskId, process_id: str) -> bool:
        """See `reconciliation.TaskHolders`."""
        return self._has_holder(self._warmup_holders.get(task, ()), process_id)

    def _has_holder(self, holders: Sequence[str], process_id: str) -> bool:
        return any(
            holder in self.members and self.members[holder].process_id == process_id for holder in holders
        )

    @property
    def size(self) -> int:
        """Members, topics and tasks: what a change of the group copies."""
        return (
            len(self.members)
            + len(self._sources)
            + len(self._active_holders)
            + len(self._standby_holders)
            + sum(one.tasks for one in self._list_configured())
        )

    def _list_configured(self) -> Iterator[ConfiguredSubtopology]:
        if self.configured is not None and self.configured.subtopologies is not None:
            yield from self.configured.subtopologies.values()

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self._sources

    def unread_subscriptions(self) -> Callable[[], None] | None:
        """Nothing: the topology has the topics."""
        return None

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_ready(self) -> bool:
        """Whether the cluster had the topics of the topology at the last change."""
        return self.topology is not None and self.topology.epoch == self.value.validated_topology_epoch

    @property
    def state_name(self) -> str:
        """The state that clients see."""
        if not self.members:
            return "Empty"
        if not self.is_ready:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(is_reconciled(self.current(member_id), self.target_epoch) for member_id in self.members):
            return "Stable"
        return "Reconciling"

    # --- time -----------------------------------------------------------------------------------------------

    def start_sessions(self) -> None:
        """After a load: each member has a whole session for its first heartbeat, and a whole timeout to revoke."""
        timeout_ms = self._host.session_timeout_ms(self.group_id)
        for member_id, member in self.members.items():
            self.deadlines.extend_session(member_id, timeout_ms)
            current = self.current(member_id)
            if current.state is TaskState.UNREVOKED_TASKS and current.member_epoch != LEFT_FOR_NOW_EPOCH:
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
        """Only an empty group may become a classic one. Raises InconsistentGroupProtocol."""
        if not self.is_empty:
            raise InconsistentGroupProtocol(
                f"the group {self.group_id!r} is a Streams group with members; use group.protocol=streams, or stop them"
            )
        self._host.join_after_removal(self, request, answer)

    def sync(self, request: SyncRequest, answer: AnswerSync) -> None:
        """Raises UnknownMemberId: no member speaks the classic protocol."""
        self._refuse_classic()

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Raises UnknownMemberId: no member speaks the classic protocol."""
        self._refuse_classic()

    def leave_members(self, members: Sequence[tuple[str, str | None]], answer: AnswerLeave) -> None:
        """Raises UnknownMemberId: no member speaks the classic protocol."""
        self._refuse_classic()

    def _refuse_classic(self) -> NoReturn:
        raise UnknownMemberId(
            f"the group {self.group_id!r} is a Streams group, without members of the classic protocol"
        )

    # --- offsets and removal --------------------------------------------------------------------------------

    def validate_offset_commit(self, by: Committer) -> None:
        """Raises UnknownMemberId, UnsupportedVersion or StaleMemberEpoch.

        A commit with an earlier epoch is taken for tasks that the member has had since then.
        """
        if by.generation < 0 and self.is_empty:
            return
        if by.is_transactional and not by.names_member:
            return
        self.member(by.member_id)
        if not by.is_transactional and by.version < COMMIT_VERSION_MIN:
            raise UnsupportedVersion(
                f"OffsetCommit version {COMMIT_VERSION_MIN} or above must be used by members using the streams group "
                "protocol"
            )
        current = self.current(by.member_id)
        if by.generation > current.member_epoch:
            raise StaleMemberEpoch(
                f"Received member epoch {by.generation} is newer than current member epoch {current.member_epoch}."
            )
        if by.generation < current.member_epoch:
            for topic, partition, _ in by.commits:
                self._check_assigned_since(current, topic, partition, by.generation)

    def _check_assigned_since(
        self, current: StreamsCurrentValue, topic: str, partition: int, epoch: int
    ) -> None:
        subtopology = self._sources.get(topic)
        if subtopology is None:
            raise StaleMemberEpoch(f"Topic {topic} is not in the topology.")
        held = current.assigned.active.get(subtopology, {}).get(partition)
        if held is None:
            held = current.pending_revocation.active.get(subtopology, {}).get(partition)
        if held is None:
            raise StaleMemberEpoch(
                f"Task {subtopology}-{partition} is not assigned or pending revocation for member."
            )
        if epoch < held:
            raise StaleMemberEpoch(
                f"Received member epoch {epoch} is older than assignment epoch {held} for task "
                f"{subtopology}-{partition}."
            )

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises UnknownMemberId or StaleMemberEpoch for a member that names itself."""
        if member_epoch < 0 and not member_id:
            return
        self.member(member_id)
        known = self.current(member_id or "").member_epoch
        if member_epoch != known:
            raise StaleMemberEpoch(
                f"The received member epoch {member_epoch} does not match the expected member epoch {known}."
            )

    def validate_offset_delete(self) -> None:
        """Offsets of topics that no member reads may be deleted at any time."""

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

        self._host.fence(self, sorted(self.members), on_written)
