"""The steps of a classic group from one generation to the next: it waits for joins, then for the assignment.

`group.ClassicGroup` decides what each request means and moves this object through its states (see there). Nothing here
does I/O. Answers that wait are callables, kept with the members. `GroupHost.store` writes what a restart must find.
Deadlines are data: `expire` must be called at `wake_at` at the latest, and a heartbeat moves one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, Protocol

from odradek.broker.coordination.timers import TimerHost
from odradek.broker.groups.classic.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    ClassicGroupMember,
    JoinRequest,
    JoinResult,
    Members,
    SyncResult,
)
from odradek.broker.groups.classic.schema import ClassicGroupValue
from odradek.broker.groups.classic.subscriptions import Subscriptions
from odradek.foundation.errors import (
    CoordinatorNotAvailable,
    IllegalGeneration,
    OdradekError,
    RebalanceInProgress,
    UnknownMemberId,
)
from odradek.wire.protocol.consumer import PROTOCOL_TYPE

# Kafka's: a client that disappears while it joins is forgotten after this time.
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000


class GroupState(Enum):
    """The names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_REBALANCEABLE: Final = frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY})


class GroupHost(TimerHost, Protocol):
    """The shard of a classic group, as the group needs it."""

    max_size: int
    initial_rebalance_delay_ms: int

    def rebalance_completed(self) -> None:
        """Count a rebalance that has ended."""
        ...

    def wall_ms(self) -> int: ...

    def new_id(self) -> str: ...

    def store(
        self, group: Rebalance, value: ClassicGroupValue, on_stored: Callable[[OdradekError | None], None]
    ) -> None:
        """Write the group; `on_stored` is called once, with the error to answer or None, maybe at once."""
        ...


class Rebalance:
    """A group's members, its state and its generation. A generation is one agreement on which member reads what."""

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.state = GroupState.EMPTY
        self.was_empty = True  # the state before PreparingRebalance was Empty: the initial delay applies
        self.state_timestamp_ms = host.wall_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscriptions = Subscriptions.none()
        """The topics that members subscribed to when their last rebalance ended."""
        self.members = Members()
        # Ids that were given but not used yet, and when they expire.
        self.pending_joins: dict[str, float] = {}
        self.pending_syncs: set[str] = set()
        self.join_deadline: float | None = None
        self._join_delay_left_ms = 0  # by how much the initial delay may still grow
        self._has_newcomer = False
        self.sync_deadline: float | None = None
        self.wake_at = math.inf  # no deadline lies before this

    def restore(self, value: ClassicGroupValue) -> None:
        """Begin as stored: Stable with the stored members, or Empty."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.state_timestamp_ms = value.state_timestamp_ms
        for stored in value.members:
            timeout_ms = stored.rebalance_timeout_ms
            self.members.add(
                ClassicGroupMember(
                    stored.member_id,
                    instance_id=stored.group_instance_id,
                    client_id=stored.client_id,
                    client_host=stored.client_host,
                    rebalance_timeout_ms=stored.session_timeout_ms if timeout_ms == -1 else timeout_ms,
                    session_timeout_ms=stored.session_timeout_ms,
                    protocols=((value.protocol or "", stored.subscription),),
                    assignment=stored.assignment,
                )
            )
        if value.members:
            self.state = GroupState.STABLE
            if value.leader in self.members:
                self.members.leader = value.leader
        self.update_subscriptions()

    def begin_stable(self, generation: int, members: Iterable[ClassicGroupMember]) -> None:
        """Begin as a stable group of consumers."""
        self.generation = generation
        self.protocol_type = PROTOCOL_TYPE
        for member in members:
            self.members.add(member)
        self.protocol = self.members.select_protocol()
        self.update_subscriptions()
        self.transition(GroupState.STABLE)

    # --- rebalance ------------------------------------------------------------------------------------------

    def add_member(self, request: JoinRequest, member_id: str, answer: AnswerJoin) -> None:
        member = ClassicGroupMember(
            member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            answer_join=answer,
            is_new=True,
        )
        if not len(self.members):
            self.protocol_type = request.protocol_type
        if self.state is GroupState.PREPARING_REBALANCE and self.was_empty:
            self._has_newcomer = True
        self.pending_joins.pop(member_id, None)
        self.members.add(member)
        member.deadline = self.deadline_after(NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance_or_complete()

    def update_member(self, member: ClassicGroupMember, request: JoinRequest, answer: AnswerJoin) -> None:
        self.members.update_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self.members.await_join(member, answer)

    def rebalance_or_complete(self) -> None:
        """Begin a rebalance, or continue the one under way."""
        if self.state in _REBALANCEABLE:
            self.prepare()
        else:
            self.complete_join_if_ready()

    @property
    def _all_joined(self) -> bool:
        return len(self.members) == self.members.awaiting_join and not self.pending_joins

    def complete_join_if_ready(self) -> None:
        """End the wait for joins once every member has joined, except during an initial delay."""
        if self.state is GroupState.PREPARING_REBALANCE and not self.was_empty and self._all_joined:
            self._complete()

    def prepare(self) -> None:
        """Begin a rebalance: wait until every member has joined."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.answer_syncs(
                SyncResult(error=RebalanceInProgress(f"the group {self.group_id!r} rebalances"))
            )
        self.pending_syncs.clear()
        self.sync_deadline = None
        self.was_empty = self.state is GroupState.EMPTY
        self.transition(GroupState.PREPARING_REBALANCE)
        if self.was_empty:
            delay_ms = self._host.initial_rebalance_delay_ms
            self._join_delay_left_ms = max(self._rebalance_timeout_ms() - delay_ms, 0)
            self._has_newcomer = False
            self.join_deadline = self.deadline_after(delay_ms)
        elif self._all_joined:
            self._complete()
        else:
            self.join_deadline = self.deadline_after(self._rebalance_timeout_ms())

    def _complete(self) -> None:
        self.join_deadline = None
        late = [m.member_id for m in self.members if m.answer_join is None and m.instance_id is None]
        for member_id in late:
            self.drop(member_id)
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members are left, and none has joined yet. Wait on; the end of their sessions ends the wait.
            self.join_deadline = self.deadline_after(self._rebalance_timeout_ms())
            return
        self.generation += 1
        self.pending_syncs.clear()
        if not len(self.members):
            self.protocol = None
            self.update_subscriptions()
            self.transition(GroupState.EMPTY)
            # If this write fails, a restart finds the last generation, whose members expire: no harm.
            self._host.store(self, self.value(), _ignore)
            return
        self.protocol = self.members.select_protocol()
        self.update_subscriptions()
        self.transition(GroupState.COMPLETING_REBALANCE)
        self.sync_deadline = self.deadline_after(self._rebalance_timeout_ms())
        for member in list(self.members):
            self.extend_session(member)
            member.is_new = False
            self.pending_syncs.add(member.member_id)
            self.members.complete_join(member, self.join_result(member))

    def answer_syncs(self, failure: SyncResult | None) -> None:
        """Answer every sync that waits: with `failure`, or with the member's assignment."""
        for member in list(self.members):
            if failure is not None:
                member.assignment = b""
            if self.members.complete_sync(member, failure or self.sync_result(member.assignment)):
                self.extend_session(member)

    def answer_waiting(self, error: OdradekError) -> None:
        """Answer every join and sync that waits with `error`."""
        for member in list(self.members):
            self.members.complete_join(member, JoinResult(error=error, member_id=member.member_id))
            self.members.complete_sync(member, SyncResult(error=error))

    def end(self, error: OdradekError) -> None:
        """The group is gone: no deadline counts, and every request that waits is answered with `error`."""
        self.transition(GroupState.DEAD)
        self.join_deadline = self.sync_deadline = None
        self.pending_joins.clear()
        for member in self.members:
            member.deadline = None
        self.answer_waiting(error)

    def drop(self, member_id: str) -> None:
        """Remove a member; its waiting request is answered with UnknownMemberId, so that it joins again."""
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.discard(member_id)
        member = self.members.get(member_id)
        if member is None:
            return
        gone = UnknownMemberId(f"the member {member_id!r} was removed from the group; join again")
        self.members.complete_join(member, JoinResult(error=gone))
        self.members.complete_sync(member, SyncResult(error=gone))
        self.members.remove(member_id)

    # --- time -----------------------------------------------------------------------------------------------

    def _next_deadline(self) -> float:
        deadlines = [member.deadline for member in self.members if member.deadline is not None]
        deadlines += self.pending_joins.values()
        deadlines += [at for at in (self.join_deadline, self.sync_deadline) if at is not None]
        return min(deadlines, default=math.inf)

    def expire(self) -> None:
        """Do what is due: drop members without heartbeats, end the wait for joins or syncs."""
        now = self._host.now()
        if self.join_deadline is not None and self.join_deadline <= now:
            self._join_time_is_up()
        if self.sync_deadline is not None and self.sync_deadline <= now:
            self._sync_time_is_up()
        lapsed = [member_id for member_id, at in self.pending_joins.items() if at <= now]
        for member_id in lapsed:
            del self.pending_joins[member_id]
        dead = []
        for member in self.members:
            if member.deadline is None or member.deadline > now:
                continue
            if not member.is_new and (member.answer_join is not None or member.answer_sync is not None):
                member.deadline = None  # it waits for our answer, and that starts a new session
            else:
                dead.append(member.member_id)
        for member_id in dead:
            self.drop(member_id)
        if dead or lapsed:
            if dead and self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self.prepare()
            elif self.state is GroupState.PREPARING_REBALANCE and self._all_joined:
                self._complete()
        self.wake_at = self._next_deadline()
        self.wake()

    def _join_time_is_up(self) -> None:
        """Complete the join, or extend the initial delay: it grows while members join, up to the rebalance timeout."""
        if self.was_empty and self._has_newcomer and self._join_delay_left_ms > 0:
            self._has_newcomer = False
            delay_ms = min(self._host.initial_rebalance_delay_ms, self._join_delay_left_ms)
            self._join_delay_left_ms = max(
                self._join_delay_left_ms - self._host.initial_rebalance_delay_ms, 0
            )
            self.join_deadline = self.deadline_after(delay_ms)
        else:
            self._complete()

    def _sync_time_is_up(self) -> None:
        """Drop the members that joined but did not sync: they would hold partitions that no member reads."""
        self.sync_deadline = None
        for member_id in list(self.pending_syncs):
            self.drop(member_id)
        self.prepare()

    def deadline_after(self, delay_ms: int) -> float:
        """The loop time `delay_ms` from now; `expire` is called by then."""
        at = self._host.now() + delay_ms / 1000
        if at < self.wake_at:
            self.wake_at = at
        return at

    def validate(self, member_id: str, instance_id: str | None, generation: int) -> ClassicGroupMember:
        """The member. Raises UnknownMemberId, FencedInstanceId, IllegalGeneration, CoordinatorNotAvailable."""
        self.check_alive()
        member = self.members.validate(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration(
                f"the group {self.group_id!r} is at generation {self.generation}, the member at {generation}"
            )
        return member

    def check_alive(self) -> None:
        """Raises CoordinatorNotAvailable when the group was unloaded, deleted or converted."""
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"the group {self.group_id!r} is being removed; try again")

    def wake(self) -> None:
        """Set the timer: `wake_at` may have moved."""
        self._host.wake(self)

    def extend_session(self, member: ClassicGroupMember) -> None:
        member.deadline = self.deadline_after(member.session_timeout_ms)

    # --- small parts ----------------------------------------------------------------------------------------

    def transition(self, state: GroupState) -> None:
        self.state = state
        self.state_timestamp_ms = self._host.wall_ms()

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members), default=0)

    def join_result(
        self, member: ClassicGroupMember, *, leader: str | None = None, skip_assignment: bool = False
    ) -> JoinResult:
        leads = leader is None and self.members.leader == member.member_id
        protocol = self.protocol or ""
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=(self.members.leader or UNKNOWN_MEMBER) if leader is None else leader,
            skip_assignment=skip_assignment,
            members=(
                tuple(
                    (other.member_id, other.instance_id, other.metadata(protocol)) for other in self.members
                )
                if leads
                else ()
            ),
        )

    def sync_result(self, assignment: bytes) -> SyncResult:
        return SyncResult(protocol_type=self.protocol_type, protocol=self.protocol, assignment=assignment)

    def update_subscriptions(self) -> None:
        """Keep what members subscribe to; it is read when the topics are asked for."""
        protocol = self.protocol
        if not len(self.members) and self.protocol_type is not None:
            self.subscriptions = Subscriptions(())
        elif not self.uses_consumer_protocol or protocol is None:
            self.subscriptions = Subscriptions.none()
        else:
            self.subscriptions = Subscriptions(member.metadata(protocol) for member in self.members)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    def value(self, assignments: Mapping[str, bytes] | None = None) -> ClassicGroupValue:
        """The group as it is stored, with `assignments` or those that are in force."""
        protocol = self.protocol or ""
        return ClassicGroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.members.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                member.as_value(
                    protocol,
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in self.members
            ),
        )


def _ignore(_error: OdradekError | None) -> None:
    """For writes whose failure changes nothing."""
