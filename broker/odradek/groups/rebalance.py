"""How a classic group gets from one generation to the next: waiting for joins, then for the assignment.

The base of `group.ClassicGroup`, which decides for each request what it means here. Nothing here does I/O:
answers that wait are callables with the members, what must outlive a restart goes to `GroupHost.store`, and
deadlines are data: `wake_at` says when `expire` wants to be called at the latest; a heartbeat moves one
number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, Protocol

from odradek.foundation.errors import InvalidRequest, OdradekError, RebalanceInProgress, UnknownMemberId
from odradek.groups.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    JoinRequest,
    JoinResult,
    Member,
    Members,
    SyncResult,
)
from odradek.groups.schema import ClassicGroupValue
from odradek.protocol.consumer import PROTOCOL_TYPE, parse_subscription

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = (
    5 * 60 * 1000
)  # Kafka's: a client that went away while it joined is forgotten


class GroupState(Enum):
    """The names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_REBALANCEABLE: Final = frozenset({GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY})


class GroupHost(Protocol):
    """What a group needs of the world around it."""

    max_size: int
    initial_rebalance_delay_ms: int
    rebalances_completed: int

    def now(self) -> float:
        """The loop's time in seconds; deadlines are on this scale."""
        ...

    def wall_ms(self) -> int: ...

    def new_member_id(self, prefix: str) -> str: ...

    def store(
        self, group: Rebalance, value: ClassicGroupValue, on_stored: Callable[[OdradekError | None], None]
    ) -> None:
        """Write the group; `on_stored` is called once, with the error to answer or None, maybe before this
        returns.
        """
        ...

    def wake(self, group: Rebalance) -> None:
        """`wake_at` may have come nearer."""
        ...


class Rebalance:
    """A group's members, state and generation."""

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.state = GroupState.EMPTY
        self._was_empty = True  # the state before PreparingRebalance was Empty: the initial delay applies
        self.state_timestamp_ms = host.wall_ms()
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        self.members = Members()
        self._pending_joins: dict[str, float] = {}  # ids handed out, not yet used, by when they lapse
        self._pending_syncs: set[str] = set()
        self._join_deadline: float | None = None
        self._join_delay_left_ms = 0  # by how much the initial delay may still grow
        self._has_newcomer = False
        self._sync_deadline: float | None = None
        self.wake_at = math.inf  # no deadline lies before this
        self.last_stored: ClassicGroupValue | None = None  # what a restart would find

    # --- rebalance ------------------------------------------------------------------------------------------

    def _add_member(self, request: JoinRequest, member_id: str, answer: AnswerJoin) -> None:
        member = Member(
            member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
        )
        member.is_new = True
        member.answer_join = answer
        if not len(self.members):
            self.protocol_type = request.protocol_type
        if self.state is GroupState.PREPARING_REBALANCE and self._was_empty:
            self._has_newcomer = True
        self._pending_joins.pop(member_id, None)
        self.members.add(member)
        member.deadline = self._after(NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance_or_complete()

    def _update_member(self, member: Member, request: JoinRequest, answer: AnswerJoin) -> None:
        self.members.update_protocols(member, request.protocols)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self.members.await_join(member, answer)

    def _rebalance_or_complete(self) -> None:
        if self.state in _REBALANCEABLE:
            self._prepare_rebalance()
        else:
            self._maybe_complete_join()

    @property
    def _all_joined(self) -> bool:
        return len(self.members) == self.members.awaiting_join and not self._pending_joins

    def _maybe_complete_join(self) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and not self._was_empty and self._all_joined:
            self._complete_join()

    def _prepare_rebalance(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._propagate(SyncResult(error=RebalanceInProgress(f"the group {self.group_id!r} rebalances")))
        self._pending_syncs.clear()
        self._sync_deadline = None
        self._was_empty = self.state is GroupState.EMPTY
        self._transition(GroupState.PREPARING_REBALANCE)
        if self._was_empty:
            delay_ms = self._host.initial_rebalance_delay_ms
            self._join_delay_left_ms = max(self._rebalance_timeout_ms() - delay_ms, 0)
            self._has_newcomer = False
            self._join_deadline = self._after(delay_ms)
        elif self._all_joined:
            self._complete_join()
        else:
            self._join_deadline = self._after(self._rebalance_timeout_ms())

    def _complete_join(self) -> None:
        self._join_deadline = None
        late = [m.member_id for m in self.members if m.answer_join is None and m.instance_id is None]
        for member_id in late:
            self._drop(member_id)
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members are left and none has come back yet: wait on; their sessions end it.
            self._join_deadline = self._after(self._rebalance_timeout_ms())
            return
        self.generation += 1
        self._pending_syncs.clear()
        if not len(self.members):
            self.protocol = None
            self._compute_subscribed_topics()
            self._transition(GroupState.EMPTY)
            # When this write fails the generation before comes back after a restart and times out: no harm.
            self._host.store(self, self.value(), _ignore)
            return
        self.protocol = self.members.select_protocol()
        self._compute_subscribed_topics()
        self._transition(GroupState.COMPLETING_REBALANCE)
        self._sync_deadline = self._after(self._rebalance_timeout_ms())
        for member in list(self.members):
            self._extend_session(member)
            member.is_new = False
            self._pending_syncs.add(member.member_id)
            self.members.complete_join(member, self._join_result(member))

    def _propagate(self, failure: SyncResult | None) -> None:
        """Answer all who wait for their assignment: with `failure`, or with what they are assigned."""
        for member in list(self.members):
            if failure is not None:
                member.assignment = b""
            if self.members.complete_sync(member, failure or self._sync_result(member.assignment)):
                self._extend_session(member)

    def _drop(self, member_id: str) -> None:
        """Remove a member, telling it to join anew if it waits."""
        self._pending_joins.pop(member_id, None)
        self._pending_syncs.discard(member_id)
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
        deadlines += self._pending_joins.values()
        deadlines += [at for at in (self._join_deadline, self._sync_deadline) if at is not None]
        return min(deadlines, default=math.inf)

    def expire(self) -> None:
        """Do what is due: drop silent members, end the wait for joins or syncs."""
        now = self._host.now()
        if self._join_deadline is not None and self._join_deadline <= now:
            self._join_time_is_up()
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._sync_time_is_up()
        lapsed = [member_id for member_id, at in self._pending_joins.items() if at <= now]
        for member_id in lapsed:
            del self._pending_joins[member_id]
        dead = []
        for member in self.members:
            if member.deadline is None or member.deadline > now:
                continue
            if not member.is_new and (member.answer_join is not None or member.answer_sync is not None):
                member.deadline = None  # whoever waits for us is alive; the answer starts its session anew
            else:
                dead.append(member.member_id)
        for member_id in dead:
            self._drop(member_id)
        if dead or lapsed:
            if dead and self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self._prepare_rebalance()
            elif self.state is GroupState.PREPARING_REBALANCE and self._all_joined:
                self._complete_join()
        self.wake_at = self._next_deadline()
        self._host.wake(self)

    def _join_time_is_up(self) -> None:
        """The initial delay grows while members keep coming, up to the rebalance timeout; then whoever came
        is in.
        """
        if self._was_empty and self._has_newcomer and self._join_delay_left_ms > 0:
            self._has_newcomer = False
            delay_ms = min(self._host.initial_rebalance_delay_ms, self._join_delay_left_ms)
            self._join_delay_left_ms = max(
                self._join_delay_left_ms - self._host.initial_rebalance_delay_ms, 0
            )
            self._join_deadline = self._after(delay_ms)
        else:
            self._complete_join()

    def _sync_time_is_up(self) -> None:
        """Who joined but never synced is out, or it would hold partitions that nobody reads."""
        self._sync_deadline = None
        for member_id in list(self._pending_syncs):
            self._drop(member_id)
        self._prepare_rebalance()

    def _after(self, delay_ms: int) -> float:
        """The loop time `delay_ms` from now, by which `expire` will have been called."""
        at = self._host.now() + delay_ms / 1000
        if at < self.wake_at:
            self.wake_at = at
        return at

    def _extend_session(self, member: Member) -> None:
        member.deadline = self._after(member.session_timeout_ms)

    # --- small parts ----------------------------------------------------------------------------------------

    def _transition(self, state: GroupState) -> None:
        self.state = state
        self.state_timestamp_ms = self._host.wall_ms()

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members), default=0)

    def _join_result(
        self, member: Member, *, leader: str | None = None, skip_assignment: bool = False
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

    def _sync_result(self, assignment: bytes) -> SyncResult:
        return SyncResult(protocol_type=self.protocol_type, protocol=self.protocol, assignment=assignment)

    def _compute_subscribed_topics(self) -> None:
        """The topics that members subscribe to; None when they cannot be told."""
        if not len(self.members):
            self.subscribed_topics = frozenset() if self.protocol_type is not None else None
            return
        self.subscribed_topics = None
        if not self.uses_consumer_protocol or self.protocol is None:
            return
        topics: set[str] = set()
        try:
            for member in self.members:
                topics.update(parse_subscription(member.metadata(self.protocol)).topics)
        except InvalidRequest:
            return
        self.subscribed_topics = frozenset(topics)

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
                member.stored(
                    protocol,
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in self.members
            ),
        )


def _ignore(_error: OdradekError | None) -> None:
    """For writes whose failure changes nothing for anybody."""
