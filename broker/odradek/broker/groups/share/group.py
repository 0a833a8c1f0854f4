"""One share group as its records have it (KIP-932): members, what they should read, and whose state is kept.

Records alone change it (`apply`), so a restart finds what clients know. Members give nothing back before they are
assigned something else: several may read one partition at once. Offsets are no business of the group. The leader of
each partition knows what the members have acknowledged, and `states` has the partitions that it does so for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Final, NoReturn, Protocol

from odradek.broker.coordination.timers import TimerHost, Wakeable
from odradek.broker.coordination.topic_log import EncodedRecord
from odradek.broker.coordination.writer import OnWritten
from odradek.broker.groups.classic.members import (
    AnswerJoin,
    AnswerLeave,
    AnswerSync,
    JoinRequest,
    SyncRequest,
)
from odradek.broker.groups.consumer.deadlines import MemberDeadlines
from odradek.broker.groups.offsets import Committer
from odradek.broker.groups.schema import OffsetAndMetadata, ShareRecordKind
from odradek.broker.groups.share.schema import (
    ShareCurrentValue,
    ShareGroupValue,
    ShareMemberValue,
    ShareStatesValue,
    ShareTargetEpochValue,
    ShareTargetValue,
    ShareValue,
    encode_share_key,
    encode_share_value,
)
from odradek.foundation.errors import (
    GroupIdNotFound,
    InconsistentGroupProtocol,
    NonEmptyGroup,
    OdradekError,
    UnknownMemberId,
)
from odradek.foundation.words import count

logger = logging.getLogger(__name__)

SHARE_PROTOCOL: Final = "share"

NEW_MEMBER: Final = ShareCurrentValue()
_NEW_GROUP: Final = ShareGroupValue(epoch=1)
_NO_TARGET_YET: Final = ShareTargetEpochValue(epoch=1)
_NO_TARGET: Final = ShareTargetValue()


class ShareGroupHost(TimerHost, Protocol):
    """The shard of a share group, as the group needs it."""

    def session_timeout_ms(self, group_id: str) -> int:
        """The time that a member may send no heartbeat: the group's own setting or the broker's."""
        ...

    def expire_members(self, group: ShareGroup) -> None:
        """Fence the members whose time is up, and set the next `wake_at`."""
        ...

    def fence(self, group: ShareGroup, member_ids: Sequence[str], on_written: OnWritten) -> None:
        """Remove the members; `on_written` is called once that is written, or with the error."""
        ...


class ShareGroup:
    """One group: its records, the sessions of its members, and what requests mean to it."""

    kind: Final = SHARE_PROTOCOL
    protocol_type: Final = SHARE_PROTOCOL

    def __init__(self, group_id: str, host: ShareGroupHost) -> None:
        self.group_id = group_id
        self._host = host
        self.value = _NEW_GROUP
        self.target_value = _NO_TARGET_YET
        self.members: dict[str, ShareMemberValue] = {}
        self.targets: dict[str, ShareTargetValue] = {}
        self.currents: dict[str, ShareCurrentValue] = {}
        self.states = ShareStatesValue()
        # The topics that members read, with the number of members that read each.
        self._readers: dict[str, int] = {}
        # Kept in memory alone: by when the state of a partition that is being initialized is asked for again.
        self.initializing_until = 0.0

    @cached_property
    def deadlines(self) -> MemberDeadlines:
        """Made when a deadline is first set. They know the group, and one that is for an update is freed at once."""
        return MemberDeadlines(self._host, self.expire)

    def copy(self) -> ShareGroup:
        """A group with the same records and no deadlines, for an update."""
        copied = ShareGroup(self.group_id, self._host)
        copied.value, copied.target_value, copied.states = self.value, self.target_value, self.states
        copied.members, copied.targets = self.members.copy(), self.targets.copy()
        copied.currents, copied._readers = self.currents.copy(), self._readers.copy()
        return copied

    def take(self, changed: ShareGroup) -> None:
        """Have the records of a changed copy, which nothing else uses any more."""
        for member_id in self.members.keys() - changed.members.keys():
            self.deadlines.remove(member_id)
        self.value, self.target_value, self.states = changed.value, changed.target_value, changed.states
        self.members, self.targets = changed.members, changed.targets
        self.currents, self._readers = changed.currents, changed._readers

    # --- records --------------------------------------------------------------------------------------------

    def apply(self, kind: int, name: str, value: ShareValue | None) -> None:
        """Apply a record that is in the log; None removes."""
        if kind == ShareRecordKind.GROUP and isinstance(value, ShareGroupValue):
            self.value = value
        elif kind == ShareRecordKind.TARGET_EPOCH:
            if not isinstance(value, ShareTargetEpochValue):
                value = ShareTargetEpochValue(-1)
            self.target_value = value
        elif kind == ShareRecordKind.MEMBER:
            self._put_member(name, value if isinstance(value, ShareMemberValue) else None)
        elif kind == ShareRecordKind.TARGET:
            if isinstance(value, ShareTargetValue):
                self.targets[name] = value
            else:
                self.targets.pop(name, None)
        elif kind == ShareRecordKind.CURRENT:
            if isinstance(value, ShareCurrentValue):
                self.currents[name] = value
            else:
                self.currents.pop(name, None)
        elif kind == ShareRecordKind.STATES:
            self.states = value if isinstance(value, ShareStatesValue) else ShareStatesValue()

    def _put_member(self, member_id: str, value: ShareMemberValue | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            for topic in old.topic_names:
                self._readers[topic] -= 1
                if not self._readers[topic]:
                    del self._readers[topic]
        if value is None:
            self.deadlines.remove(member_id)
            return
        self.members[member_id] = value
        for topic in value.topic_names:
            self._readers[topic] = self._readers.get(topic, 0) + 1

    def live_records(self) -> Iterator[EncodedRecord]:
        """The records from which `apply` makes this group."""
        group_id = self.group_id
        rows: list[tuple[int, str | None, ShareValue]] = []
        rows += [(ShareRecordKind.MEMBER, one, value) for one, value in self.members.items()]
        rows.append((ShareRecordKind.GROUP, None, self.value))
        rows += [(ShareRecordKind.TARGET, one, value) for one, value in self.targets.items()]
        rows.append((ShareRecordKind.TARGET_EPOCH, None, self.target_value))
        rows += [(ShareRecordKind.CURRENT, one, value) for one, value in self.currents.items()]
        rows.append((ShareRecordKind.STATES, None, self.states))
        for kind, name, value in rows:
            yield encode_share_key(kind, group_id, name), encode_share_value(value)

    def tombstones(self) -> list[EncodedRecord]:
        """The records that remove the group, in an order in which a reader never sees half of it."""
        group_id = self.group_id
        keys = [encode_share_key(ShareRecordKind.CURRENT, group_id, one) for one in self.currents]
        keys += [encode_share_key(ShareRecordKind.TARGET, group_id, one) for one in self.targets]
        keys.append(encode_share_key(ShareRecordKind.TARGET_EPOCH, group_id))
        keys += [encode_share_key(ShareRecordKind.MEMBER, group_id, one) for one in self.members]
        keys.append(encode_share_key(ShareRecordKind.STATES, group_id))
        keys.append(encode_share_key(ShareRecordKind.GROUP, group_id))
        return [(key, None) for key in keys]

    # --- questions ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.value.epoch

    @property
    def target_epoch(self) -> int:
        return self.target_value.epoch

    def current(self, member_id: str) -> ShareCurrentValue:
        return self.currents.get(member_id, NEW_MEMBER)

    def target(self, member_id: str) -> ShareTargetValue:
        return self.targets.get(member_id, _NO_TARGET)

    def member(self, member_id: str) -> ShareMemberValue:
        """Raises UnknownMemberId."""
        found = self.members.get(member_id)
        if found is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return found

    def list_subscribed_topics(self) -> Sequence[str]:
        return sorted(self._readers)

    @property
    def size(self) -> int:
        """Members, topics and partitions: what a change of the group copies and assigns."""
        partitions = sum(len(topic.partitions) for topic in self.states.initialized.values())
        return len(self.members) + len(self._readers) + partitions

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        """The state that clients see."""
        return "Stable" if self.members else "Empty"

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self._readers

    def unread_subscriptions(self) -> Callable[[], None] | None:
        """Nothing: members name their topics."""
        return None

    # --- time -----------------------------------------------------------------------------------------------

    def start_sessions(self) -> None:
        """After a load: each member has a whole session for its first heartbeat."""
        timeout_ms = self._host.session_timeout_ms(self.group_id)
        for member_id in self.members:
            self.deadlines.extend_session(member_id, timeout_ms)
        self.deadlines.wake()

    def expire(self) -> None:
        self._host.expire_members(self)

    @property
    def timed(self) -> Wakeable:
        return self.deadlines

    def die(self, error: OdradekError) -> None:
        """No request waits in the group: each is answered once its records are written."""
        self.deadlines.clear()

    # --- requests of other protocols ------------------------------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """Raises InconsistentGroupProtocol, also without members: the group keeps states of share-partitions."""
        raise InconsistentGroupProtocol(
            f"the group {self.group_id!r} is a share group; use a share consumer, or another group id"
        )

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
            f"the group {self.group_id!r} is a share group, without members of the classic protocol"
        )

    # --- offsets and removal --------------------------------------------------------------------------------

    def validate_offset_commit(self, by: Committer) -> None:
        """Raises GroupIdNotFound: a share group has no committed offsets."""
        self._refuse_offsets()

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Raises GroupIdNotFound for a member that names itself. Others learn that there are no offsets."""
        if member_id or member_epoch >= 0:
            self._refuse_offsets()

    def validate_offset_delete(self) -> None:
        """Raises GroupIdNotFound."""
        self._refuse_offsets()

    def _refuse_offsets(self) -> NoReturn:
        raise GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def retention_start(self) -> Callable[[OffsetAndMetadata], int] | None:
        """None: its states do not expire."""
        return None

    def validate_delete(self) -> None:
        """Raises NonEmptyGroup."""
        if not self.is_empty:
            raise NonEmptyGroup(
                f"the group {self.group_id!r} has {count(len(self.members), 'member')}; stop them first"
            )

    @property
    def is_removable(self) -> bool:
        return False

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
