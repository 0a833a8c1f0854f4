"""Heartbeats of share groups (KIP-932): members join, stay, leave and expire.

A heartbeat carries what the member subscribes to. Its answer says what the member should read. Most heartbeats change
nothing and are answered at once. The others become records, and are answered once these are written. Partitions are
assigned once their state is there: the heartbeat that first names a topic has the states made (`states`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from odradek.broker.coordination.shard import DeferredAnswer
from odradek.broker.coordination.timers import TimerHost
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.consumer.planning import Planning
from odradek.broker.groups.conversion import GroupParts
from odradek.broker.groups.schema import ShareRecordKind
from odradek.broker.groups.share.group import ShareGroup
from odradek.broker.groups.share.heartbeats import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ShareGroupHeartbeat,
    ShareHeartbeatResult,
    ShareOutcome,
)
from odradek.broker.groups.share.schema import (
    ShareCurrentValue,
    ShareMemberValue,
    ShareTargetEpochValue,
    decode_share_key,
    decode_share_value,
)
from odradek.broker.groups.share.states import GroupStates
from odradek.broker.groups.share.update import Partitions, ShareUpdate
from odradek.foundation.errors import FencedMemberEpoch, GroupMaxSizeReached, OdradekError
from odradek.foundation.named_tuple import NamedTuple

logger = logging.getLogger(__name__)


class _Step(NamedTuple):
    """What a heartbeat changes: the group's update, and the member's state before and after."""

    update: ShareUpdate
    before: ShareCurrentValue
    current: ShareCurrentValue
    has_new_epoch: bool
    begun: Partitions
    """The partitions whose state is to be made."""


class ShareRequests:
    """The heartbeats of the share groups of one shard, and the host of these groups."""

    def __init__(self, parts: GroupParts, host: TimerHost) -> None:
        self._groups, self._shard, self._context = parts
        self._planning = Planning(parts)
        self._fences = parts.context.fences
        self.states = GroupStates(parts, lambda group_id: ShareGroup(group_id, self))
        self.now, self.wake = host.now, host.wake

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member may send no heartbeat."""
        return self._context.share_value("session.timeout.ms", group_id)

    # --- records --------------------------------------------------------------------------------------------

    def replay(self, kind: int, key: bytes, value: bytes | None) -> None:
        """Apply one record of the log. Raises CorruptRecord."""
        _, group_id, name = decode_share_key(kind, key)
        decoded = None if value is None else decode_share_value(kind, value)
        group = self._groups.share(group_id)
        if group is None:
            if decoded is None:
                return
            replaced = self._groups.get(group_id)
            if replaced is not None:
                self._shard.stop_timer(replaced.timed)
            group = self._groups[group_id] = ShareGroup(group_id, self)
        group.apply(kind, name, decoded)
        if kind == ShareRecordKind.GROUP and decoded is None:
            self._shard.stop_timer(group.timed)
            del self._groups[group_id]

    # --- heartbeats -----------------------------------------------------------------------------------------

    def heartbeat(
        self, group_id: str, request: ShareGroupHeartbeat, answer: DeferredAnswer[ShareOutcome]
    ) -> None:
        """Join, stay or leave; the answer is the result, or the error of a write. A refused request raises.

        The caller is within `Shard.when_serving`.
        """
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(group_id, request, answer)
            return
        is_join = request.member_epoch == JOIN_EPOCH
        if is_join:
            self._fences.check_may_join(group_id)
        else:
            self._fences.check_may_stay(group_id)
        group = self._find_group(group_id, is_join=is_join)
        self._check_size(group, request)
        if self._is_quiet(group, request):
            group.deadlines.extend_session(request.member_id, self.session_timeout_ms(group_id))
            group.deadlines.wake()
            answer(ShareHeartbeatResult(request.member_id, group.current(request.member_id).member_epoch))
            return
        self._planning.plan(
            group,
            len(request.topic_names or ()),
            partial(self._plan_step, group, request),
            partial(self._write_step, group, request, answer),
            answer,
        )

    def _find_group(self, group_id: str, *, is_join: bool) -> ShareGroup:
        """The group; a join makes it. Raises GroupIdNotFound."""
        known = self._groups.share(group_id)
        if known is not None:
            return known
        if is_join and group_id not in self._groups:
            return ShareGroup(group_id, self)
        raise self._groups.missing(group_id, "share")

    def _check_size(self, group: ShareGroup, request: ShareGroupHeartbeat) -> None:
        size_max = self._context.settings.group_share_max_size
        if len(group.members) >= size_max and request.member_id not in group.members:
            raise GroupMaxSizeReached(
                f"The share group has reached its maximum capacity of {size_max} members."
            )

    def _is_quiet(self, group: ShareGroup, request: ShareGroupHeartbeat) -> bool:
        """Whether the heartbeat says nothing new, and the member reads what it should."""
        member = group.members.get(request.member_id)
        if (
            member is None
            or request.topic_names is not None
            or request.rack_id is not None
            or (member.client_id, member.client_host) != (request.client_id, request.client_host)
            or group.target_epoch < group.epoch
            or self.states.topics_seen(group) is not self._context.images.current.topics
            or self.states.is_due(group)
        ):
            return False
        current = group.current(request.member_id)
        return current.member_epoch == request.member_epoch == group.target_epoch

    def _plan_step(self, group: ShareGroup, request: ShareGroupHeartbeat) -> _Step:
        """The member's step, and what it changes of the group. Raises UnknownMemberId, FencedMemberEpoch."""
        update = ShareUpdate(group, self._context)
        copied, member_id = update.group, request.member_id
        if request.member_epoch != JOIN_EPOCH:
            copied.member(member_id)
        _check_epoch(copied, request)
        before = copied.current(member_id)
        is_changed = update.update_member(member_id, _member_value(copied.members.get(member_id), request))
        has_new_epoch = update.refresh(is_changed=is_changed)
        if update.is_assignment_due():
            update.update_target()
        current = update.reconcile(member_id)
        begun = update.find_new_partitions(again=self.states.may_ask_again(group))
        if begun:
            update.begin_states(begun)
        return _Step(update, before, current, has_new_epoch, begun)

    def _write_step(
        self,
        group: ShareGroup,
        request: ShareGroupHeartbeat,
        answer: DeferredAnswer[ShareOutcome],
        step: _Step,
    ) -> None:
        group_id, member_id = group.group_id, request.member_id
        update, before, current = step.update, step.before, step.current
        # A member of an epoch before has missed an answer. Kafka does not repeat the assignment, so nothing is read.
        names_all = request.topic_names is not None or request.member_epoch != before.member_epoch
        result = ShareHeartbeatResult(
            member_id,
            current.member_epoch,
            current.assigned if names_all or current.assigned != before.assigned else None,
        )

        def on_written(error: OdradekError | None) -> None:
            if error is not None:
                answer(error)
                return
            written = self._groups.share(group_id)
            assert written is not None
            if step.has_new_epoch:
                self._context.share_rebalances += 1
            written.deadlines.extend_session(member_id, self.session_timeout_ms(group_id))
            written.deadlines.wake()
            self.states.note_topics(written, update.topics)
            if step.begun:
                self.states.make(written, step.begun)
            answer(result)

        if update.records:
            self._planning.write(group, update, on_written)
        else:
            on_written(None)

    # --- leave and expiry -----------------------------------------------------------------------------------

    def _leave(
        self, group_id: str, request: ShareGroupHeartbeat, answer: DeferredAnswer[ShareOutcome]
    ) -> None:
        group = self._groups.share(group_id)
        if group is None:
            raise self._groups.missing(group_id, "share")
        group.member(request.member_id)
        result = ShareHeartbeatResult(request.member_id, request.member_epoch)

        def on_written(error: OdradekError | None) -> None:
            answer(error or result)

        self.fence(group, [request.member_id], on_written)

    def fence(self, group: ShareGroup, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove members; `on_written` is called once that is written, or with the error."""

        def plan() -> ShareUpdate:
            update = ShareUpdate(group, self._context)
            for member_id in member_ids:
                update.remove_member(member_id)
            update.bump_epoch()
            if update.group.is_empty:
                # The next first member begins with an assignment of its own.
                update.put(ShareRecordKind.TARGET_EPOCH, None, ShareTargetEpochValue(update.group.epoch))
            return update

        def finish(update: ShareUpdate) -> None:
            self._planning.write(group, update, on_written)

        self._planning.plan(group, 0, plan, finish, on_written)

    def expire_members(self, group: ShareGroup) -> None:
        """Fence the members whose session is over."""
        group_id = group.group_id

        def is_current() -> bool:
            return self._groups.get(group_id) is group

        def act() -> None:
            if not is_current():
                return
            due = group.deadlines.take_due(lambda member_id: group.current(member_id).member_epoch)
            fenced = sorted(member_id for member_id in due if member_id in group.members)
            if fenced:
                logger.info("group %r: members %s are fenced, their time is up", group_id, ", ".join(fenced))
                self.fence(group, fenced, partial(on_fenced, fenced))

        def on_fenced(fenced: Sequence[str], error: OdradekError | None) -> None:
            if error is not None and is_current():
                for member_id in fenced:
                    group.deadlines.extend_session(member_id, self.session_timeout_ms(group_id))
            group.deadlines.rearm()

        self._shard.when_free(group_id, act)


def _member_value(known: ShareMemberValue | None, request: ShareGroupHeartbeat) -> ShareMemberValue:
    known = known or ShareMemberValue()
    return ShareMemberValue(
        known.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        known.topic_names if request.topic_names is None else tuple(sorted(set(request.topic_names))),
    )


def _check_epoch(group: ShareGroup, request: ShareGroupHeartbeat) -> None:
    """Raises FencedMemberEpoch unless the epoch is the member's, or its last one: it may have missed an answer."""
    current, epoch = group.current(request.member_id), request.member_epoch
    if epoch in (JOIN_EPOCH, current.member_epoch):
        return
    if epoch == current.previous_member_epoch and epoch < current.member_epoch:
        return
    word = "greater" if epoch > current.member_epoch else "smaller"
    raise FencedMemberEpoch(
        f"The share group member has a {word} member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.member_epoch}). The member must abandon all its partitions and rejoin."
    )
