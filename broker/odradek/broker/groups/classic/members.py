"""The members of a classic group: their ids, their protocols, their leader, and their requests that wait.

This module has no rules: `group` and `rebalance` decide when members join, leave or expire. Two counts are kept as
members change: joins that wait, and members by protocol. A rebalance of a thousand members asks for them a thousand
times, and each would take a walk over all members.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final

from odradek.broker.groups.classic.schema import ClassicMemberValue
from odradek.foundation.errors import FencedInstanceId, OdradekError, UnknownMemberId
from odradek.foundation.named_tuple import NamedTuple

UNKNOWN_MEMBER: Final = ""

Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the preferred one first


class JoinResult(NamedTuple):
    """The answer to a join. `members` (id, instance id, metadata) is for the leader alone."""

    error: OdradekError | None = None
    member_id: str = UNKNOWN_MEMBER
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = UNKNOWN_MEMBER
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


class SyncResult(NamedTuple):
    """The answer to a sync: the member's assignment."""

    error: OdradekError | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Departure(NamedTuple):
    """One member of a leave request, and its error if there is one."""

    member_id: str
    instance_id: str | None
    error: OdradekError | None = None


class JoinRequest(NamedTuple):
    """A join as the group sees it. Times in milliseconds; `member_id` is empty for a new member."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_known_member_id: bool
    supports_skipping_assignment: bool
    reason: str | None = None


class SyncRequest(NamedTuple):
    """A sync as the group sees it. Only the leader sends `assignments`, by member id."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


AnswerJoin = Callable[[JoinResult], object]
AnswerSync = Callable[[SyncResult], object]
AnswerLeave = Callable[[list[Departure]], object]


@dataclass(slots=True, eq=False, repr=False)
class ClassicGroupMember:
    """One member. `deadline` is the loop time at which it expires, or None while it waits for an answer."""

    member_id: str
    _: KW_ONLY
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    answer_join: AnswerJoin | None = None
    answer_sync: AnswerSync | None = None
    deadline: float | None = None
    is_new: bool = False

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for `protocol`; empty when it does not know the protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The member's favourite among `candidates`, of which it knows at least one."""
        return next(name for name, _ in self.protocols if name in candidates)

    def as_value(self, protocol: str, assignment: bytes) -> ClassicMemberValue:
        return ClassicMemberValue(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )


class Members:
    """All members of one group by id, in the order in which they came."""

    def __init__(self) -> None:
        # Its first is found at once also when those before it have left, which a dict would pass over each time.
        self._by_id: OrderedDict[str, ClassicGroupMember] = OrderedDict()
        self._id_by_instance: dict[str, str] = {}
        self._protocol_counts: dict[str, int] = {}
        self._awaiting_join = 0
        self.leader: str | None = None

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> ClassicGroupMember:
        return self._by_id[member_id]

    def get(self, member_id: str) -> ClassicGroupMember | None:
        return self._by_id.get(member_id)

    @property
    def awaiting_join(self) -> int:
        """The number of members that wait for the answer to their join."""
        return self._awaiting_join

    def of_instance(self, instance_id: str | None) -> ClassicGroupMember | None:
        """The static member of this instance id."""
        member_id = None if instance_id is None else self._id_by_instance.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def validate(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """The member. Raises UnknownMemberId, or FencedInstanceId when another took over the instance id."""
        if instance_id is not None:
            current = self._id_by_instance.get(instance_id)
            if current is None:
                raise UnknownMemberId(f"the group has no static member {instance_id!r}; join again")
            if current != member_id:
                raise FencedInstanceId(
                    f"another member took over the instance id {instance_id!r}; stop this one or give it "
                    f"its own id"
                )
        member = self._by_id.get(member_id)
        if member is None:
            raise UnknownMemberId(f"the group has no member {member_id!r}; join again")
        return member

    def add(self, member: ClassicGroupMember) -> None:
        assert member.member_id not in self._by_id, f"{member.member_id} is a member already"
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            assert member.instance_id not in self._id_by_instance, f"{member.instance_id} is taken"
            self._id_by_instance[member.instance_id] = member.member_id
        self._count(member.protocols, 1)
        if member.answer_join is not None:
            self._awaiting_join += 1
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove the member; the caller has answered its waiting requests."""
        member = self._by_id.pop(member_id, None)
        if member is None:
            return None
        self._count(member.protocols, -1)
        if member.answer_join is not None:
            self._awaiting_join -= 1
        if member.instance_id is not None and self._id_by_instance.get(member.instance_id) == member_id:
            del self._id_by_instance[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._by_id), None)
        return member

    def rename(self, member: ClassicGroupMember, new_member_id: str) -> None:
        """Give a static member another id; a leader stays leader."""
        was_leader = self.leader == member.member_id
        del self._by_id[member.member_id]
        member.member_id = new_member_id
        self._by_id[new_member_id] = member
        assert member.instance_id is not None
        self._id_by_instance[member.instance_id] = new_member_id
        if was_leader:
            self.leader = new_member_id

    def update_protocols(self, member: ClassicGroupMember, protocols: Protocols) -> None:
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def await_join(self, member: ClassicGroupMember, answer: AnswerJoin | None) -> None:
        """Let `answer` wait; an older join of the member is dropped, because its client has sent another one."""
        self._awaiting_join += (answer is not None) - (member.answer_join is not None)
        member.answer_join = answer

    def complete_join(self, member: ClassicGroupMember, result: JoinResult) -> bool:
        """Answer a waiting join; returns whether there was one."""
        answer = member.answer_join
        if answer is None:
            return False
        self.await_join(member, None)
        answer(result)
        return True

    def complete_sync(self, member: ClassicGroupMember, result: SyncResult) -> bool:
        """Answer a waiting sync; returns whether there was one."""
        answer = member.answer_sync
        if answer is None:
            return False
        member.answer_sync = None
        answer(result)
        return True

    def elect_joined_leader(self) -> bool:
        """Make a member that waits for its join the leader; returns whether there is one."""
        if self.leader is None:
            return False
        if self._by_id[self.leader].answer_join is not None:
            return True
        for member in self._by_id.values():
            if member.answer_join is not None:
                self.leader = member.member_id
                return True
        return False

    def shares_protocol(self, names: Collection[str]) -> bool:
        """Whether all members know one of `names`."""
        count = len(self._by_id)
        return any(self._protocol_counts.get(name, 0) == count for name in names)

    def select_protocol(self) -> str:
        """The protocol that all members know and most prefer."""
        count = len(self._by_id)
        candidates = {name for name, known_by in self._protocol_counts.items() if known_by == count}
        votes: dict[str, int] = {}
        for member in self._by_id.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _count(self, protocols: Protocols, change: int) -> None:
        counts = self._protocol_counts
        for name in {name for name, _ in protocols}:
            counts[name] = counts.get(name, 0) + change
            if not counts[name]:
                del counts[name]
