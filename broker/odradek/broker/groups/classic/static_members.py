"""Static members of a classic group (KIP-345): one that returns under a new member id keeps its assignment."""

from __future__ import annotations

from odradek.broker.groups.classic.members import (
    UNKNOWN_MEMBER,
    AnswerJoin,
    ClassicGroupMember,
    JoinRequest,
    JoinResult,
    Protocols,
    SyncResult,
)
from odradek.broker.groups.classic.rebalance import GroupHost, GroupState, Rebalance
from odradek.foundation.errors import FencedInstanceId, OdradekError


class StaticMembers:
    """Replaces the member ids of one group's static members."""

    def __init__(self, rebalance: Rebalance, host: GroupHost) -> None:
        self._rebalance = rebalance
        self._members = rebalance.members
        self._host = host

    def replace(
        self, member: ClassicGroupMember, new_member_id: str, request: JoinRequest, answer: AnswerJoin
    ) -> None:
        """Give the member its new id, and fence the old id at once."""
        old_member_id = member.member_id
        leader_before = self._members.leader
        fenced = FencedInstanceId(f"another member took over the instance id {request.instance_id!r}")
        self._members.complete_join(member, JoinResult(error=fenced, member_id=old_member_id))
        self._members.complete_sync(member, SyncResult(error=fenced))
        self._members.rename(member, new_member_id)
        self._rebalance.pending_syncs.discard(old_member_id)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._rebalance.update_member(member, request, answer)
        self._rebalance.extend_session(member)
        if self._rebalance.state is GroupState.STABLE:
            if self._rebalance.protocol != self._members.select_protocol():
                self._rebalance.rebalance_or_complete()
                return
            self._store(request, member, old_member_id, leader_before or UNKNOWN_MEMBER, before)
        elif self._rebalance.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id at this moment, so the generation cannot be saved.
            self._rebalance.prepare()
        else:
            self._rebalance.complete_join_if_ready()

    def _store(
        self,
        request: JoinRequest,
        member: ClassicGroupMember,
        old_member_id: str,
        leader_before: str,
        before: tuple[Protocols, int, int],
    ) -> None:
        """Store the new id. Nothing else changes, so the generation continues without a rebalance."""
        new_member_id = member.member_id

        def on_stored(error: OdradekError | None) -> None:
            if self._members.get(new_member_id) is not member:
                return  # it left or was replaced while the write was under way
            if error is not None:
                self._undo(member, old_member_id, before)
                result = JoinResult(error=error, generation=self._rebalance.generation, leader=leader_before)
            elif request.supports_skipping_assignment:
                is_leader = self._members.leader == new_member_id
                result = self._rebalance.join_result(member, skip_assignment=is_leader)
            else:
                # An older client that sees itself as leader would assign: it gets the leader of before.
                result = self._rebalance.join_result(member, leader=leader_before)
            if self._rebalance.state is not GroupState.PREPARING_REBALANCE and self._members.complete_join(
                member, result
            ):
                # Its deadline may have passed during a slow write.
                self._rebalance.extend_session(member)
                self._rebalance.wake()

        self._host.store(self._rebalance, self._rebalance.value(), on_stored)

    def _undo(
        self, member: ClassicGroupMember, old_member_id: str, before: tuple[Protocols, int, int]
    ) -> None:
        protocols, member.rebalance_timeout_ms, member.session_timeout_ms = before
        self._members.update_protocols(member, protocols)
        self._members.rename(member, old_member_id)
        self._rebalance.extend_session(member)
        self._rebalance.wake()
