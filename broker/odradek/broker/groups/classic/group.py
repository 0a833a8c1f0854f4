"""A group of the classic protocol as a state machine: no I/O, no timers, no clock of its own.

    | State               | Event                                         | Next state          |
    | ------------------- | --------------------------------------------- | ------------------- |
    | Empty               | a member joins                                | PreparingRebalance  |
    | PreparingRebalance  | all members have joined, or the time is up    | CompletingRebalance |
    | PreparingRebalance  | the last member is gone                       | Empty               |
    | CompletingRebalance | the leader's assignment is stored             | Stable              |
    | CompletingRebalance | a member joins, leaves, expires or changes    | PreparingRebalance  |
    | Stable              | a member joins, leaves, expires or changes    | PreparingRebalance  |
    | Empty               | the group is deleted                          | Dead                |
    | every state         | the group is unloaded or converted            | Dead                |

The caller hands in a callable for each answer, and the group calls it once. `GroupHost.store` writes what a
restart must find and reports whether it was written. The group becomes Stable and answers its syncs only then.
Deadlines are data: `expire` must be called at `wake_at` at the latest, and a heartbeat moves one number.
Members of a consumer group that speak the classic protocol are in `consumer.classic_members`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.classic.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    ClassicGroupMember,
    Departure,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from odradek.broker.groups.classic.rebalance import GroupHost, GroupState, Rebalance
from odradek.broker.groups.classic.schema import ClassicGroupValue, encode_classic_group_key
from odradek.broker.groups.classic.static_members import StaticMembers
from odradek.broker.groups.offsets import Committer, commit_time_ms
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NonEmptyGroup,
    OdradekError,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from odradek.foundation.words import count

__all__ = ["ClassicGroup", "GroupHost", "GroupState", "JoinRequest"]


class ClassicGroup:
    """One group: what each request means to it. `Rebalance` holds its members and takes it through its states."""

    kind: Final = "classic"

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.rebalance = Rebalance(group_id, host)
        self.members = self.rebalance.members
        self.timed = self.rebalance  # what the session timers wake

    @property
    def state_name(self) -> str:
        """The state that clients see."""
        return self.rebalance.state.value

    @property
    def protocol_type(self) -> str | None:
        return self.rebalance.protocol_type

    @classmethod
    def from_value(cls, group_id: str, value: ClassicGroupValue, host: GroupHost) -> ClassicGroup:
        """The group as it was stored: Stable with its members, or Empty."""
        group = cls(group_id, host)
        group.rebalance.restore(value)
        return group

    @classmethod
    def from_members(
        cls, group_id: str, *, generation: int, members: Iterable[ClassicGroupMember], host: GroupHost
    ) -> ClassicGroup:
        """A stable group of the members of a former consumer group. The caller sets their assignments."""
        group = cls(group_id, host)
        group.rebalance.begin_stable(generation, members)
        return group

    def start_sessions(self) -> None:
        """After a load: each member has a whole session for its first heartbeat; a group above its bound rebalances."""
        for member in self.members:
            self.rebalance.extend_session(member)
        if len(self.members) > self._host.max_size:
            self.rebalance.prepare()
        self.rebalance.wake()

    def start_converted(self, *, rebalance: bool) -> None:
        """Begin after the conversion is written. When a member has left, the others share its partitions."""
        self.start_sessions()
        if rebalance and self.rebalance.state is GroupState.STABLE:
            self.rebalance.prepare()
        self.rebalance.wake()

    def freeze(self, error: OdradekError) -> None:
        """Answer every request that waits with `error`: the group is being converted, and its members join again."""
        self.rebalance.answer_waiting(error)

    # --- requests of members --------------------------------------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join or rejoin; `answer` is called once, now or when the rebalance completes.

        Raises CoordinatorNotAvailable, InconsistentGroupProtocol, UnknownMemberId, FencedInstanceId.
        """
        try:
            self._check_join(request)
        except GroupMaxSizeReached as error:
            self.rebalance.drop(request.member_id)
            answer(JoinResult(error=error))
        else:
            if request.member_id == UNKNOWN_MEMBER:
                self._join_newcomer(request, answer)
            elif request.member_id in self.rebalance.pending_joins:
                self.rebalance.add_member(request, request.member_id, answer)
            else:
                self._rejoin(request, answer)
        self.rebalance.wake()

    def _check_join(self, request: JoinRequest) -> None:
        self.rebalance.check_alive()
        if not self._accepts(request.member_id):
            raise GroupMaxSizeReached(
                f"the group {self.group_id!r} is full: group.max.size is {self._host.max_size}"
            )
        names = [name for name, _ in request.protocols]
        if not self._supports(request.protocol_type, names):
            raise InconsistentGroupProtocol(
                f"the group {self.group_id!r} is of type {self.rebalance.protocol_type!r} and no protocol of "
                f"{', '.join(names) or '(none)'} is known to all of its members"
            )

    def _accepts(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        if self.rebalance.state is GroupState.EMPTY:
            return True
        if self.rebalance.state is GroupState.PREPARING_REBALANCE:
            # Members that wait already stay. The bound is on those that wait, not on all members: when it has been
            # lowered, the last ones to join are refused.
            waits = member is not None and member.answer_join is not None
            return waits or self.members.awaiting_join < self._host.max_size
        return member is not None or len(self.members) < self._host.max_size

    def _supports(self, protocol_type: str, names: list[str]) -> bool:
        if not len(self.members):
            return bool(protocol_type) and bool(names)
        return self.rebalance.protocol_type == protocol_type and self.members.shares_protocol(names)

    def _join_newcomer(self, request: JoinRequest, answer: AnswerJoin) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self._host.new_id()}"
        existing = self.members.of_instance(request.instance_id)
        if existing is not None:
            StaticMembers(self.rebalance, self._host).replace(existing, member_id, request, answer)
        elif request.instance_id is None and request.requires_known_member_id:
            self.rebalance.pending_joins[member_id] = self.rebalance.deadline_after(
                request.session_timeout_ms
            )
            error = MemberIdRequired(f"join again as {member_id}", member_id=member_id)
            answer(JoinResult(error=error, member_id=member_id))
        else:
            self.rebalance.add_member(request, member_id, answer)

    def _rejoin(self, request: JoinRequest, answer: AnswerJoin) -> None:
        member = self.members.validate(request.member_id, request.instance_id)
        unchanged = member.protocols == request.protocols
        is_leader = self.members.leader == member.member_id
        state = self.rebalance.state
        # The answer to the last join was lost: give it again. In a stable group a leader rejoins because the topics
        # have changed; a follower has nothing new.
        is_settled = state is GroupState.COMPLETING_REBALANCE or (
            state is GroupState.STABLE and not is_leader
        )
        if unchanged and is_settled:
            answer(self.rebalance.join_result(member))
        else:
            self.rebalance.update_member(member, request, answer)
            self.rebalance.rebalance_or_complete()

    def sync(self, request: SyncRequest, answer: AnswerSync) -> None:
        """Ask for the assignment; the leader sends those of all members. `answer` is called once, now or after the
        write. Raises InconsistentGroupProtocol, and as `heartbeat`.
        """
        member = self.rebalance.validate(request.member_id, request.instance_id, request.generation)
        for given, known in (
            (request.protocol_type, self.rebalance.protocol_type),
            (request.protocol, self.rebalance.protocol),
        ):
            if given is not None and given != known:
                raise InconsistentGroupProtocol(f"the group uses {known!r}, the member {given!r}")
        self._check_joined()
        self.rebalance.pending_syncs.discard(request.member_id)
        if not self.rebalance.pending_syncs:
            self.rebalance.sync_deadline = None
        if self.rebalance.state is GroupState.STABLE:
            answer(self.rebalance.sync_result(member.assignment))
            return
        member.answer_sync = answer
        if self.members.leader == request.member_id:
            self._store_assignments(request.assignments)

    def _store_assignments(self, assignments: Mapping[str, bytes]) -> None:
        generation = self.rebalance.generation
        complete = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}

        def on_stored(error: OdradekError | None) -> None:
            # Members may have joined or left during the write; then its result is void.
            if (
                self.rebalance.state is not GroupState.COMPLETING_REBALANCE
                or self.rebalance.generation != generation
            ):
                return
            if error is not None:
                self.rebalance.answer_syncs(SyncResult(error=error))
                self.rebalance.prepare()
            else:
                for member in self.members:
                    member.assignment = complete.get(member.member_id, b"")
                self.rebalance.transition(GroupState.STABLE)
                self.rebalance.answer_syncs(None)
                self._host.rebalance_completed()
            self.rebalance.wake()

        self._host.store(self.rebalance, self.rebalance.value(complete), on_stored)

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep the member alive. Raises RebalanceInProgress when it must join again, and as `Rebalance.validate`."""
        member = self.rebalance.validate(member_id, instance_id, generation)
        if self.rebalance.state is not GroupState.EMPTY:
            self.rebalance.extend_session(member)
        self._check_joined()

    def _check_joined(self) -> None:
        if self.rebalance.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; join again")
        if self.rebalance.state is GroupState.EMPTY:
            raise UnknownMemberId(f"the group {self.group_id!r} has no members; join again")

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Remove one member; `after_leave` must follow the last one of a request. Raises as `Members.validate`.

        An empty member id with an instance id is an administrator's removal of a static member.
        """
        self.rebalance.check_alive()
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            current = self.members.of_instance(instance_id)
            if current is None:
                raise UnknownMemberId(f"the group has no static member {instance_id!r}")
            member_id = current.member_id
        elif self.rebalance.pending_joins.pop(member_id, None) is not None:
            return
        else:
            self.members.validate(member_id, instance_id)
        self.rebalance.drop(member_id)

    def after_leave(self) -> None:
        """Rebalance for the members that stay."""
        if self.rebalance.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.rebalance.prepare()
        else:
            self.rebalance.complete_join_if_ready()
        self.rebalance.wake()

    def leave_members(self, members: Sequence[tuple[str, str | None]], answer: AnswerLeave) -> None:
        """Remove members, each by (member id, instance id); answered at once."""
        departures = []
        for member_id, instance_id in members:
            try:
                self.leave(member_id, instance_id)
                departures.append(Departure(member_id, instance_id))
            except RequestError as error:
                departures.append(Departure(member_id, instance_id, error))
        if any(departure.error is None for departure in departures):
            self.after_leave()
        answer(departures)

    def remove_all(self) -> None:
        """Remove every member, also those that are joining; their requests are answered with UnknownMemberId."""
        if self.rebalance.state is GroupState.DEAD:
            return
        self.rebalance.pending_joins.clear()
        for member_id in [member.member_id for member in self.members]:
            self.rebalance.drop(member_id)
        self.rebalance.was_empty = False  # no member is left that an initial delay could wait for
        if self.rebalance.state is not GroupState.EMPTY:
            self.after_leave()

    # --- offsets, deletion, records -------------------------------------------------------------------------

    def validate_offset_commit(self, by: Committer) -> None:
        """Raises when this member may not commit now. Commits of members keep their sessions alive."""
        self.rebalance.check_alive()
        if by.generation < 0 and self.rebalance.state is GroupState.EMPTY:
            return  # an administrator, or a consumer that manages its partitions itself
        if by.names_member:
            member = self.rebalance.validate(by.member_id, by.instance_id, by.generation)
            if self.rebalance.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self.rebalance.extend_session(member)
        elif not by.is_transactional:
            raise UnknownMemberId(
                f"the group {self.group_id!r} has members: only they may commit; stop them to set offsets "
                f"by hand"
            )
        if not by.is_transactional and self.rebalance.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; commit after it")

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may read the offsets of a classic group."""

    def validate_delete(self) -> None:
        """Raises GroupIdNotFound or NonEmptyGroup."""
        self._check_exists()
        if self.rebalance.state is not GroupState.EMPTY:
            raise NonEmptyGroup(
                f"the group {self.group_id!r} has {count(len(self.members), 'member')}; stop them first"
            )

    def validate_offset_delete(self) -> None:
        """Raises GroupIdNotFound, or NonEmptyGroup when the members' subscriptions are unknown."""
        self._check_exists()
        if self.rebalance.state is not GroupState.EMPTY and not self.rebalance.uses_consumer_protocol:
            raise NonEmptyGroup(f"the group {self.group_id!r} has members; stop them first")

    def _check_exists(self) -> None:
        if self.rebalance.state is GroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {self.group_id!r}")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read `topic`, or may read it."""
        if not self.rebalance.uses_consumer_protocol:
            return False
        topics = self.rebalance.subscriptions.topics
        return topics is None or topic in topics

    def unread_subscriptions(self) -> Callable[[], None] | None:
        """See `Group`."""
        subscriptions = self.rebalance.subscriptions
        return subscriptions.read if subscriptions.is_long else None

    @property
    def is_removable(self) -> bool:
        """Whether it has no members, and none is joining."""
        return self.rebalance.state is GroupState.EMPTY and not self.rebalance.pending_joins

    def retention_start(self) -> Callable[[OffsetAndMetadata], int] | None:
        """See `Group`. The retention of an empty group counts from when it became empty (KIP-211)."""
        rebalance = self.rebalance
        if rebalance.protocol_type is None:
            return commit_time_ms
        if rebalance.state is GroupState.EMPTY:
            if rebalance.state_timestamp_ms < 0:
                return commit_time_ms
            return lambda _committed: rebalance.state_timestamp_ms
        if rebalance.state is GroupState.STABLE and rebalance.subscriptions.topics is not None:
            return commit_time_ms
        return None

    def tombstones(self) -> list[EncodedRecord]:
        """Also for a group that only committed offsets: readers of the log forget a group by this record alone."""
        return [(encode_classic_group_key(self.group_id), None)]

    def after_tombstones(self, *, has_offsets: bool) -> bool:
        return self.is_removable and not has_offsets

    def die(self, error: OdradekError) -> None:
        """The group is deleted, unloaded or converted: every request that waits is answered with `error`."""
        self.rebalance.end(error)
