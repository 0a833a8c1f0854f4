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

from odradek.coordination.topic_log import EncodedRecord
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
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
from odradek.groups.classic.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    Departure,
    JoinRequest,
    JoinResult,
    Member,
    SyncRequest,
    SyncResult,
)
from odradek.groups.classic.rebalance import GroupHost, GroupState, Rebalance
from odradek.groups.classic.schema import (
    ClassicGroupValue,
    encode_classic_group_key,
)
from odradek.groups.classic.static_members import StaticMembers
from odradek.groups.offsets import commit_time_ms
from odradek.groups.schema import OffsetAndMetadata

__all__ = ["ClassicGroup", "GroupHost", "GroupState", "JoinRequest"]


class ClassicGroup:
    """One group: what each request means to it. `Rebalance` holds its members and takes it through its states."""

    kind: Final = "classic"

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self._rebalance = Rebalance(group_id, host)
        self.members = self._rebalance.members
        self.timed = self._rebalance  # what the session timers wake

    @property
    def state(self) -> GroupState:
        return self._rebalance.state

    @property
    def state_name(self) -> str:
        """The state that clients see."""
        return self._rebalance.state.value

    @property
    def generation(self) -> int:
        return self._rebalance.generation

    @property
    def protocol_type(self) -> str | None:
        return self._rebalance.protocol_type

    @property
    def protocol(self) -> str | None:
        """The assignor that the members agreed on."""
        return self._rebalance.protocol

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are consumers, whose subscriptions the broker can read."""
        return self._rebalance.uses_consumer_protocol

    @property
    def wake_at(self) -> float:
        """The loop time at which `expire` must be called at the latest."""
        return self._rebalance.wake_at

    def expire(self) -> None:
        """Do what is due: remove silent members, end the wait for joins or syncs."""
        self._rebalance.expire()

    @classmethod
    def restored(cls, group_id: str, value: ClassicGroupValue, host: GroupHost) -> ClassicGroup:
        """The group as it was stored: Stable with its members, or Empty."""
        group = cls(group_id, host)
        group._rebalance.restore(value)
        return group

    @classmethod
    def converted(
        cls, group_id: str, *, generation: int, members: Iterable[Member], host: GroupHost
    ) -> ClassicGroup:
        """A stable group of the members of a former consumer group. The caller sets their assignments."""
        group = cls(group_id, host)
        group._rebalance.begin_stable(generation, members)
        return group

    def start_sessions(self) -> None:
        """After a load: each member has a whole session for its first heartbeat; a group above its bound rebalances."""
        for member in self.members:
            self._rebalance.extend_session(member)
        if len(self.members) > self._host.max_size:
            self._rebalance.prepare()
        self._rebalance.wake()

    def start_converted(self, stored: ClassicGroupValue, *, rebalance: bool) -> None:
        """Begin after the conversion is written. When a member has left, the others share its partitions."""
        self._rebalance.last_stored = stored
        self.start_sessions()
        if rebalance and self._rebalance.state is GroupState.STABLE:
            self._rebalance.prepare()
        self._rebalance.wake()

    def freeze(self, error: OdradekError) -> None:
        """Answer every request that waits with `error`: the group is being converted, and its members join again."""
        self._rebalance.answer_waiting(error)

    # --- requests of members --------------------------------------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join or rejoin; `answer` is called once, now or when the rebalance completes."""
        error = self._refuse_join(request)
        if error is not None:
            member_id = request.member_id
            if isinstance(error, GroupMaxSizeReached):
                self._rebalance.drop(member_id)
                member_id = UNKNOWN_MEMBER
            answer(JoinResult(error=error, member_id=member_id))
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_newcomer(request, answer)
        elif request.member_id in self._rebalance.pending_joins:
            self._rebalance.add_member(request, request.member_id, answer)
        else:
            self._rejoin(request, answer)
        self._rebalance.wake()

    def _refuse_join(self, request: JoinRequest) -> OdradekError | None:
        if self._rebalance.state is GroupState.DEAD:
            return CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if not self._accepts(request.member_id):
            return GroupMaxSizeReached(
                f"the group {self.group_id!r} is full: group.max.size is {self._host.max_size}"
            )
        names = [name for name, _ in request.protocols]
        if not self._supports(request.protocol_type, names):
            return InconsistentGroupProtocol(
                f"the group {self.group_id!r} is of type {self._rebalance.protocol_type!r} and no protocol of "
                f"{', '.join(names) or '(none)'} is known to all of its members"
            )
        return None

    def _accepts(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        if self._rebalance.state is GroupState.EMPTY:
            return True
        if self._rebalance.state is GroupState.PREPARING_REBALANCE:
            # Members that wait already stay. The bound is on those that wait, not on all members: when it has been
            # lowered, the last ones to join are refused.
            waits = member is not None and member.answer_join is not None
            return waits or self.members.awaiting_join < self._host.max_size
        return member is not None or len(self.members) < self._host.max_size

    def _supports(self, protocol_type: str, names: list[str]) -> bool:
        if not len(self.members):
            return bool(protocol_type) and bool(names)
        return self._rebalance.protocol_type == protocol_type and self.members.shares_protocol(names)

    def _join_newcomer(self, request: JoinRequest, answer: AnswerJoin) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self._host.new_id()}"
        if request.instance_id is not None:
            existing = self.members.id_of_instance(request.instance_id)
            if existing is not None:
                StaticMembers(self._rebalance, self._host).replace(
                    self.members[existing], member_id, request, answer
                )
            else:
                self._rebalance.add_member(request, member_id, answer)
        elif request.requires_known_member_id:
            self._rebalance.pending_joins[member_id] = self._rebalance.deadline_after(
                request.session_timeout_ms
            )
            error = MemberIdRequired(f"join again as {member_id}", member_id=member_id)
            answer(JoinResult(error=error, member_id=member_id))
        else:
            self._rebalance.add_member(request, member_id, answer)

    def _rejoin(self, request: JoinRequest, answer: AnswerJoin) -> None:
        try:
            member = self.members.validate(request.member_id, request.instance_id)
        except (UnknownMemberId, FencedInstanceId) as error:
            answer(JoinResult(error=error, member_id=request.member_id))
            return
        unchanged = member.protocols == request.protocols
        is_leader = self.members.leader == member.member_id
        if self._rebalance.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # The answer to the last join was lost: give it again.
            answer(self._rebalance.join_result(member))
        elif self._rebalance.state is GroupState.STABLE and unchanged and not is_leader:
            # A leader rejoins because the topics have changed; a follower has nothing new.
            answer(self._rebalance.join_result(member))
        else:
            self._rebalance.update_member(member, request, answer)
            self._rebalance.rebalance_or_complete()

    def sync(self, request: SyncRequest, answer: AnswerSync) -> None:
        """Ask for the assignment; the leader sends those of all members. `answer` is called once, now or after the
        write."""
        try:
            member = self._rebalance.validate(request.member_id, request.instance_id, request.generation)
            for given, known in (
                (request.protocol_type, self._rebalance.protocol_type),
                (request.protocol, self._rebalance.protocol),
            ):
                if given is not None and given != known:
                    raise InconsistentGroupProtocol(f"the group uses {known!r}, the member {given!r}")
            if self._rebalance.state is GroupState.PREPARING_REBALANCE:
                raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; join again")
            if self._rebalance.state is GroupState.EMPTY:
                raise UnknownMemberId(f"the group {self.group_id!r} has no members; join again")
        except RequestError as error:
            answer(SyncResult(error=error))
            return
        self._rebalance.pending_syncs.discard(request.member_id)
        if not self._rebalance.pending_syncs:
            self._rebalance.sync_deadline = None
        if self._rebalance.state is GroupState.STABLE:
            answer(self._rebalance.sync_result(member.assignment))
            return
        member.answer_sync = answer
        if self.members.leader == request.member_id:
            self._store_assignments(request.assignments)

    def _store_assignments(self, assignments: Mapping[str, bytes]) -> None:
        generation = self._rebalance.generation
        complete = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}

        def on_stored(error: OdradekError | None) -> None:
            # Members may have joined or left during the write; then its result is void.
            if (
                self._rebalance.state is not GroupState.COMPLETING_REBALANCE
                or self._rebalance.generation != generation
            ):
                return
            if error is not None:
                self._rebalance.answer_syncs(SyncResult(error=error))
                self._rebalance.prepare()
            else:
                for member in self.members:
                    member.assignment = complete.get(member.member_id, b"")
                self._rebalance.transition(GroupState.STABLE)
                self._rebalance.answer_syncs(None)
                self._host.rebalance_completed()
            self._rebalance.wake()

        self._host.store(self._rebalance, self._rebalance.value(complete), on_stored)

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep the member alive. Raises RebalanceInProgress when it must join again, and as `Rebalance.validate`."""
        member = self._rebalance.validate(member_id, instance_id, generation)
        if self._rebalance.state is GroupState.EMPTY:
            raise UnknownMemberId(f"the group {self.group_id!r} has no members; join again")
        self._rebalance.extend_session(member)
        if self._rebalance.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; join again")

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Remove one member; `after_leave` must follow the last one of a request. Raises as `Members.validate`.

        An empty member id with an instance id is an administrator's removal of a static member.
        """
        if self._rebalance.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            current = self.members.id_of_instance(instance_id)
            if current is None:
                raise UnknownMemberId(f"the group has no static member {instance_id!r}")
            member_id = current
        elif self._rebalance.pending_joins.pop(member_id, None) is not None:
            return
        else:
            self.members.validate(member_id, instance_id)
        self._rebalance.drop(member_id)

    def after_leave(self) -> None:
        """Rebalance for the members that stay."""
        if self._rebalance.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._rebalance.prepare()
        else:
            self._rebalance.complete_join_if_ready()
        self._rebalance.wake()

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
        if self._rebalance.state is GroupState.DEAD:
            return
        self._rebalance.pending_joins.clear()
        for member_id in [member.member_id for member in self.members]:
            self._rebalance.drop(member_id)
        self._rebalance.was_empty = False  # no member is left that an initial delay could wait for
        if self._rebalance.state is not GroupState.EMPTY:
            self.after_leave()

    # --- offsets, deletion, records -------------------------------------------------------------------------

    def validate_offset_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        is_transactional: bool = False,
    ) -> None:
        """Raises when this member may not commit now. Commits of members keep their sessions alive."""
        if self._rebalance.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if generation < 0 and self._rebalance.state is GroupState.EMPTY:
            return  # an administrator, or a consumer that manages its partitions itself
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            member = self._rebalance.validate(member_id, instance_id, generation)
            if self._rebalance.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._rebalance.extend_session(member)
        elif not is_transactional:
            raise UnknownMemberId(
                f"the group {self.group_id!r} has members: only they may commit; stop them to set offsets "
                f"by hand"
            )
        if not is_transactional and self._rebalance.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; commit after it")

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Any client may read the offsets of a classic group."""

    def validate_delete(self) -> None:
        """Raises GroupIdNotFound or NonEmptyGroup."""
        if self._rebalance.state is GroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {self.group_id!r}")
        if self._rebalance.state is not GroupState.EMPTY:
            raise NonEmptyGroup(
                f"the group {self.group_id!r} has {count(len(self.members), 'member')}; stop them first"
            )

    def validate_offset_delete(self) -> None:
        """Raises GroupIdNotFound, or NonEmptyGroup when the members' subscriptions are unknown."""
        if self._rebalance.state is GroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {self.group_id!r}")
        if self._rebalance.state is not GroupState.EMPTY and not self._rebalance.uses_consumer_protocol:
            raise NonEmptyGroup(f"the group {self.group_id!r} has members; stop them first")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read `topic`, or may read it."""
        if not self._rebalance.uses_consumer_protocol:
            return False
        return self._rebalance.subscribed_topics is None or topic in self._rebalance.subscribed_topics

    @property
    def is_removable(self) -> bool:
        """Whether it has no members, and none is joining."""
        return self._rebalance.state is GroupState.EMPTY and not self._rebalance.pending_joins

    def retention_start(self) -> Callable[[OffsetAndMetadata], int] | None:
        """See `Group`. The retention of an empty group counts from when it became empty (KIP-211)."""
        rebalance = self._rebalance
        if rebalance.protocol_type is None:
            return commit_time_ms
        if rebalance.state is GroupState.EMPTY:
            if rebalance.state_timestamp_ms < 0:
                return commit_time_ms
            return lambda _committed: rebalance.state_timestamp_ms
        if rebalance.state is GroupState.STABLE and rebalance.subscribed_topics is not None:
            return commit_time_ms
        return None

    def value(self) -> ClassicGroupValue:
        """The group as it is stored."""
        return self._rebalance.value()

    def tombstones(self) -> list[EncodedRecord]:
        """Nothing for a group that was never stored."""
        is_stored = self._rebalance.last_stored is not None
        return [(encode_classic_group_key(self.group_id), None)] if is_stored else []

    def after_tombstones(self, *, has_offsets: bool) -> bool:
        self._rebalance.last_stored = None
        return self.is_removable and not has_offsets

    def die(self, error: OdradekError) -> None:
        """The group is deleted, unloaded or converted: every request that waits is answered with `error`."""
        self._rebalance.end(error)
