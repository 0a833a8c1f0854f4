"""A heartbeat of a share group's member and its answer, and what a heartbeat may say."""

from __future__ import annotations

from typing import Final

from odradek.broker.groups.consumer.schema import Assignment
from odradek.broker.groups.context import GroupContext
from odradek.foundation.errors import InvalidRequest, OdradekError
from odradek.foundation.named_tuple import NamedTuple

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class ShareGroupHeartbeat(NamedTuple):
    """A heartbeat; None means as before."""

    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topic_names: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeatResult(NamedTuple):
    """The answer: the member's epoch, and its assignment if it changed or was asked for."""

    member_id: str
    member_epoch: int
    assigned: Assignment | None = None


ShareOutcome = ShareHeartbeatResult | OdradekError


def check_share_heartbeat(context: GroupContext, group_id: str, request: ShareGroupHeartbeat) -> None:
    """Raises InvalidRequest for fields that contradict each other, UnsupportedVersion where groups are not served."""
    context.check_share_protocol()
    _require(request.member_id != "", "MemberId can't be empty.")
    _require(group_id != "", "GroupId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _require(request.topic_names is not None, "SubscribedTopicNames must be set in first request.")
    _require(request.member_epoch >= LEAVE_EPOCH, "MemberEpoch is invalid.")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidRequest(message)
