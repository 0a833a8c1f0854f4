"""A group as its coordinator sees it, whichever protocol its members speak: classic or consumer (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Protocol

from odradek.broker.coordination.timers import Wakeable
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.groups.classic.members import (
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    JoinRequest,
    SyncRequest,
)
from odradek.broker.groups.offsets import Committer
from odradek.broker.groups.schema import OffsetAndMetadata
from odradek.foundation.errors import OdradekError


class Group(Protocol):
    """One group. A refused request raises. Errors of a write, and of single members that leave, are answered."""

    group_id: str

    @property
    def kind(self) -> str:
        """ "classic" or "consumer", as clients see it."""
        ...

    @property
    def members(self) -> Sized: ...

    @property
    def state_name(self) -> str:
        """The state that clients see."""
        ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def timed(self) -> Wakeable:
        """The part of this group that the session timers wake."""
        ...

    # --- requests of members that speak the classic protocol ------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join or rejoin; `answer` is called once, now or later, unless this raises."""
        ...

    def sync(self, request: SyncRequest, answer: AnswerSync) -> None:
        """Ask for the assignment; `answer` is called once, now or later, unless this raises."""
        ...

    def heartbeat(self, *, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep the member alive. Raises RebalanceInProgress when it must join again, UnknownMemberId, …"""
        ...

    def leave_members(self, members: Sequence[tuple[str, str | None]], answer: AnswerLeave) -> None:
        """Remove members, each by (member id, instance id); `answer` is called once, now or later."""
        ...

    # --- offsets --------------------------------------------------------------------------------------------

    def validate_offset_commit(self, by: Committer) -> None:
        """Raises when this member may not commit now."""
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises when a member that names itself is unknown or behind."""
        ...

    def validate_offset_delete(self) -> None:
        """Raises when no offset of the group may be deleted."""
        ...

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read `topic`, or may read it."""
        ...

    def unread_subscriptions(self) -> Callable[[], None] | None:
        """What reads the topics that members subscribe to, where that is long work for a thread; None where not.

        Whatever asks for topics before pays for it.
        """
        ...

    def retention_start(self) -> Callable[[OffsetAndMetadata], int] | None:
        """The moment, in ms since 1970, that an offset's retention counts from; None while every offset is in use."""
        ...

    # --- life -----------------------------------------------------------------------------------------------

    def start_sessions(self) -> None:
        """After a load: each member has a whole session for its first heartbeat."""
        ...

    def remove_all(self) -> None:
        """Remove every member, also those that are joining."""
        ...

    def die(self, error: OdradekError) -> None:
        """The group leaves memory: every request that waits is answered with `error`."""
        ...

    def validate_delete(self) -> None:
        """Raises GroupIdNotFound, or NonEmptyGroup while it has members."""
        ...

    @property
    def is_removable(self) -> bool:
        """Whether it has no members, and none is joining."""
        ...

    def after_tombstones(self, *, has_offsets: bool) -> bool:
        """Its tombstones are in the log; returns whether it may be dropped from memory."""
        ...

    def tombstones(self) -> list[EncodedRecord]:
        """The records that remove it from the log, without its offsets."""
        ...
