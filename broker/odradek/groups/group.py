"""A group of the classic protocol as a state machine: no I/O, no timers, no clock of its own.

    Empty --join--> PreparingRebalance --all joined or time is up--> CompletingRebalance --leader's sync-->
    Stable Stable, CompletingRebalance --member joins, leaves, dies or changes--> PreparingRebalance
    PreparingRebalance --nobody left--> Empty --tombstone--> Dead

Answers that must wait are callables that the caller hands in and the group calls once. What must outlive a
restart goes to `GroupHost.store`, which tells later whether it was written; a sync is answered, and the group
Stable, only then. Deadlines are data: `wake_at` says when `expire` wants to be called at the latest; a
heartbeat moves one number. Members of a consumer group that speak the classic protocol are not here but in
`consumer_group`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NonEmptyGroup,
    OdradekError,
    RebalanceInProgress,
    RequestError,
    UnknownMemberId,
)
from odradek.foundation.words import count
from odradek.groups.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    AnswerSync,
    JoinRequest,
    JoinResult,
    Member,
    Protocols,
    SyncResult,
)
from odradek.groups.rebalance import GroupHost, GroupState, Rebalance
from odradek.groups.schema import ClassicGroupValue
from odradek.protocol.consumer import PROTOCOL_TYPE

__all__ = ["ClassicGroup", "GroupHost", "GroupState", "JoinRequest"]


class ClassicGroup(Rebalance):
    """One group. Not safe for threads: everything happens on the event loop."""

    @classmethod
    def restored(cls, group_id: str, value: ClassicGroupValue, host: GroupHost) -> ClassicGroup:
        """The group as it was stored: Stable with its members, or Empty."""
        group = cls(group_id, host)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        group.state_timestamp_ms = value.state_timestamp_ms
        group.last_stored = value
        for stored in value.members:
            rebalance_timeout_ms = stored.rebalance_timeout_ms
            group.members.add(
                Member(
                    stored.member_id,
                    instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    rebalance_timeout_ms=(
                        stored.session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms
                    ),
                    session_timeout_ms=stored.session_timeout_ms,
                    protocol_type=value.protocol_type,
                    protocols=((value.protocol or "", stored.subscription),),
                    assignment=stored.assignment,
                )
            )
        if value.members:
            group.state = GroupState.STABLE
            group.members.leader = value.leader if value.leader in group.members else group.members.leader
        group._compute_subscribed_topics()
        return group

    def start_sessions(self) -> None:
        """After a restore: members have a whole session to show up; a group above the bound rebalances."""
        for member in self.members:
            self._extend_session(member)
        if len(self.members) > self._host.max_size:
            self._prepare_rebalance()
        self._host.wake(self)

    @classmethod
    def converted(
        cls, group_id: str, *, generation: int, members: Iterable[Member], host: GroupHost
    ) -> ClassicGroup:
        """A stable group of consumers that had been members of a consumer group, their assignments
        to be set.
        """
        group = cls(group_id, host)
        group.generation = generation
        group.protocol_type = PROTOCOL_TYPE
        for member in members:
            group.members.add(member)
        group.protocol = group.members.select_protocol()
        group._compute_subscribed_topics()
        group._transition(GroupState.STABLE)
        return group

    def start_after_conversion(self, *, rebalance: bool) -> None:
        """Sessions begin; when a member left, the others share its partitions."""
        self.start_sessions()
        if rebalance and self.state is GroupState.STABLE:
            self._prepare_rebalance()
        self._host.wake(self)

    def freeze(self, error: OdradekError) -> None:
        """The group is being converted: whoever waits is told `error` and comes back when that is done."""
        for member in list(self.members):
            self.members.complete_join(member, JoinResult(error=error, member_id=member.member_id))
            self.members.complete_sync(member, SyncResult(error=error))

    # --- requests of members --------------------------------------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join or rejoin; `answer` is called once, now or when the rebalance completes."""
        error = self._refuse_join(request)
        if error is not None:
            member_id = request.member_id
            if isinstance(error, GroupMaxSizeReached):
                self._drop(member_id)
                member_id = UNKNOWN_MEMBER
            answer(JoinResult(error=error, member_id=member_id))
        elif request.member_id == UNKNOWN_MEMBER:
            self._join_newcomer(request, answer)
        elif request.member_id in self._pending_joins:
            self._add_member(request, request.member_id, answer)
        else:
            self._rejoin(request, answer)
        self._host.wake(self)

    def _refuse_join(self, request: JoinRequest) -> OdradekError | None:
        if self.state is GroupState.DEAD:
            return CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if not self._accepts(request.member_id):
            return GroupMaxSizeReached(
                f"the group {self.group_id!r} is full: group.max.size is {self._host.max_size}"
            )
        names = [name for name, _ in request.protocols]
        if not self._supports(request.protocol_type, names):
            return InconsistentGroupProtocol(
                f"the group {self.group_id!r} is of type {self.protocol_type!r} and no protocol of "
                f"{', '.join(names) or '(none)'} is known to all of its members"
            )
        return None

    def _accepts(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        if self.state is GroupState.EMPTY:
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            # Who waits already stays; counting those who wait (not all members) throws out the last to come
            # when the bound was lowered.
            waits = member is not None and member.answer_join is not None
            return waits or self.members.awaiting_join < self._host.max_size
        return member is not None or len(self.members) < self._host.max_size

    def _supports(self, protocol_type: str, names: list[str]) -> bool:
        if not len(self.members):
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and self.members.shares_protocol(names)

    def _join_newcomer(self, request: JoinRequest, answer: AnswerJoin) -> None:
        member_id = self._host.new_member_id(request.instance_id or request.client_id)
        if request.instance_id is not None:
            existing = self.members.id_of_instance(request.instance_id)
            if existing is not None:
                self._replace_static(request, self.members[existing], member_id, answer)
            else:
                self._add_member(request, member_id, answer)
        elif request.requires_known_member_id:
            self._pending_joins[member_id] = self._after(request.session_timeout_ms)
            error = MemberIdRequired(f"join again as {member_id}", member_id=member_id)
            answer(JoinResult(error=error, member_id=member_id))
        else:
            self._add_member(request, member_id, answer)

    def _rejoin(self, request: JoinRequest, answer: AnswerJoin) -> None:
        try:
            member = self.members.validate(request.member_id, request.instance_id)
        except (UnknownMemberId, FencedInstanceId) as error:
            answer(JoinResult(error=error, member_id=request.member_id))
            return
        unchanged = member.protocols == request.protocols
        is_leader = self.members.leader == member.member_id
        if self.state is GroupState.COMPLETING_REBALANCE and unchanged:
            # The answer to the join was lost on its way: give it again.
            answer(self._join_result(member))
        elif self.state is GroupState.STABLE and unchanged and not is_leader:
            # The leader rejoins to make the group look at the topics anew; a follower has nothing to say.
            answer(self._join_result(member))
        else:
            self._update_member(member, request, answer)
            self._rebalance_or_complete()

    def _replace_static(
        self, request: JoinRequest, member: Member, new_member_id: str, answer: AnswerJoin
    ) -> None:
        """A static member came back under a new id (KIP-345): its old self is fenced at once."""
        old_member_id = member.member_id
        leader_before = self.members.leader
        fenced = FencedInstanceId(f"another member took over the instance id {request.instance_id!r}")
        self.members.complete_join(member, JoinResult(error=fenced, member_id=old_member_id))
        self.members.complete_sync(member, SyncResult(error=fenced))
        self.members.rename(member, new_member_id)
        self._pending_syncs.discard(old_member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._update_member(member, request, answer)
        self._extend_session(member)
        if self.state is GroupState.STABLE:
            if self.protocol != self.members.select_protocol():
                self._rebalance_or_complete()
                return
            self._store_replacement(request, member, old_member_id, leader_before or UNKNOWN_MEMBER, before)
        elif self.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id at this moment, so the generation cannot be saved.
            self._prepare_rebalance()
        else:
            self._maybe_complete_join()

    def _store_replacement(
        self,
        request: JoinRequest,
        member: Member,
        old_member_id: str,
        leader_before: str,
        before: tuple[Protocols, int, int],
    ) -> None:
        """Nothing changes for the group but an id: it is stored, and the generation goes on without a
        rebalance.
        """
        new_member_id = member.member_id

        def on_stored(error: OdradekError | None) -> None:
            if self.members.get(new_member_id) is not member:
                return  # gone, or replaced in turn, while the write was under way
            if error is not None:
                self._undo_replacement(member, old_member_id, before)
                result = JoinResult(error=error, generation=self.generation, leader=leader_before)
            elif request.supports_skipping_assignment:
                is_leader = self.members.leader == new_member_id
                result = self._join_result(member, skip_assignment=is_leader)
            else:
                # Older clients would run the assignment were they told that they lead: they see the leader of
                # before.
                result = self._join_result(member, leader=leader_before)
            if self.state is not GroupState.PREPARING_REBALANCE and self.members.complete_join(
                member, result
            ):
                self._extend_session(member)  # while it waited for a slow write its deadline may have passed
                self._host.wake(self)

        self._host.store(self, self.value(), on_stored)

    def _undo_replacement(
        self, member: Member, old_member_id: str, before: tuple[Protocols, int, int]
    ) -> None:
        protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
        self.members.update_protocols(member, protocols)
        self.members.rename(member, old_member_id)
        self._extend_session(member)
        self._host.wake(self)

    def sync(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: Mapping[str, bytes],
        answer: AnswerSync,
    ) -> None:
        """Ask for the assignment; the leader brings everybody's. `answer` is called once, now or when it is
        stored.
        """
        try:
            member = self._validate(member_id, instance_id, generation)
            for given, known in ((protocol_type, self.protocol_type), (protocol, self.protocol)):
                if given is not None and given != known:
                    raise InconsistentGroupProtocol(f"the group uses {known!r}, the member {given!r}")
            if self.state is GroupState.PREPARING_REBALANCE:
                raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; join again")
            if self.state is GroupState.EMPTY:
                raise UnknownMemberId(f"the group {self.group_id!r} has no members; join again")
        except RequestError as error:
            answer(SyncResult(error=error))
            return
        self._pending_syncs.discard(member_id)
        if not self._pending_syncs:
            self._sync_deadline = None
        if self.state is GroupState.STABLE:
            answer(self._sync_result(member.assignment))
            return
        member.answer_sync = answer
        if self.members.leader == member_id:
            self._store_assignments(assignments)

    def _store_assignments(self, assignments: Mapping[str, bytes]) -> None:
        generation = self.generation
        complete = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}

        def on_stored(error: OdradekError | None) -> None:
            # Members may have come or gone while the write was under way: then it is of no interest any more.
            if self.state is not GroupState.COMPLETING_REBALANCE or self.generation != generation:
                return
            if error is not None:
                self._propagate(SyncResult(error=error))
                self._prepare_rebalance()
            else:
                for member in self.members:
                    member.assignment = complete.get(member.member_id, b"")
                self._transition(GroupState.STABLE)
                self._propagate(None)
                self._host.rebalances_completed += 1
            self._host.wake(self)

        self._host.store(self, self.value(complete), on_stored)

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep the member alive. Raises RebalanceInProgress when it must join again, and as `_validate`."""
        member = self._validate(member_id, instance_id, generation)
        if self.state is GroupState.EMPTY:
            raise UnknownMemberId(f"the group {self.group_id!r} has no members; join again")
        self._extend_session(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; join again")

    def leave(self, member_id: str, instance_id: str | None) -> None:
        """Take one member out; `after_leave` must follow the last of a request. Raises as `Members.validate`.

        An empty member id with an instance id is an administrator's removal of a static member.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            current = self.members.id_of_instance(instance_id)
            if current is None:
                raise UnknownMemberId(f"the group has no static member {instance_id!r}")
            member_id = current
        elif self._pending_joins.pop(member_id, None) is not None:
            return
        else:
            self.members.validate(member_id, instance_id)
        self._drop(member_id)

    def after_leave(self) -> None:
        """Rebalance for those who stay."""
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance()
        else:
            self._maybe_complete_join()
        self._host.wake(self)

    def remove_all(self) -> None:
        """Take everybody out, also those on their way in; they are told to join again."""
        if self.state is GroupState.DEAD:
            return
        self._pending_joins.clear()
        for member_id in [member.member_id for member in self.members]:
            self._drop(member_id)
        self._was_empty = False  # nobody is left whom an initial delay could wait for
        if self.state is not GroupState.EMPTY:
            self.after_leave()

    # --- what else may be done to the group -----------------------------------------------------------------

    def validate_offset_commit(
        self, *, member_id: str, instance_id: str | None, generation: int, is_transactional: bool = False
    ) -> None:
        """Raises when this member may not commit now. Commits of members keep their sessions alive."""
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        if generation < 0 and self.state is GroupState.EMPTY:
            return  # an administrator, or a consumer that manages its partitions itself
        if generation >= 0 or member_id != UNKNOWN_MEMBER or instance_id is not None:
            member = self._validate(member_id, instance_id, generation)
            if self.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._extend_session(member)
        elif not is_transactional:
            raise UnknownMemberId(
                f"the group {self.group_id!r} has members: only they may commit; stop them to set offsets "
                f"by hand"
            )
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"the group {self.group_id!r} rebalances; commit after it")

    def validate_delete(self) -> None:
        """Raises GroupIdNotFound or NonEmptyGroup."""
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {self.group_id!r}")
        if self.state is not GroupState.EMPTY:
            raise NonEmptyGroup(
                f"the group {self.group_id!r} has {count(len(self.members), 'member')}; stop them first"
            )

    def validate_offset_delete(self) -> None:
        """Raises GroupIdNotFound, or NonEmptyGroup when nobody can say what the members subscribe to."""
        if self.state is GroupState.DEAD:
            raise GroupIdNotFound(f"there is no group {self.group_id!r}")
        if self.state is not GroupState.EMPTY and not self.uses_consumer_protocol:
            raise NonEmptyGroup(f"the group {self.group_id!r} has members; stop them first")

    # --- small parts ----------------------------------------------------------------------------------------

    def _validate(self, member_id: str, instance_id: str | None, generation: int) -> Member:
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")
        member = self.members.validate(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration(
                f"the group {self.group_id!r} is at generation {self.generation}, the member at {generation}"
            )
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members (may) read `topic`."""
        if not self.uses_consumer_protocol:
            return False
        return self.subscribed_topics is None or topic in self.subscribed_topics

    @property
    def is_removable(self) -> bool:
        """Nobody is in it or on the way in."""
        return self.state is GroupState.EMPTY and not self._pending_joins

    def die(self, error: OdradekError) -> None:
        """The group goes away here (deleted, unloaded, converted): whoever waits is told `error`."""
        self._transition(GroupState.DEAD)
        self._join_deadline = self._sync_deadline = None
        self._pending_joins.clear()
        for member in list(self.members):
            member.deadline = None
            self.members.complete_join(member, JoinResult(error=error, member_id=member.member_id))
            self.members.complete_sync(member, SyncResult(error=error))
