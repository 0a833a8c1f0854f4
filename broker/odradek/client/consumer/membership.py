"""The requests of a group's member, with the member id and generation that they carry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.assignors import RANGE
from odradek.client.consumer.outage import COORDINATOR, Outage
from odradek.client.errors import ClientTimeout, ConnectionFailed, raise_for
from odradek.client.group_metadata import GroupMetadata, commit
from odradek.client.partition_rows import list_answer_rows
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import MemberIdRequired
from odradek.foundation.ids import TopicPartition, by_topic, flat
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import (
    PROTOCOL_TYPE,
    build_assignment,
    build_subscription,
    parse_assignment,
)
from odradek.wire.protocol.errors import code_of

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.groups import JoinGroupResponse, SyncGroupResponse

T = TypeVar("T")

JOIN_VERSIONS = (2, 9)
# Before 5 a member has no instance id, and would be a dynamic one.
STATIC_JOIN_VERSIONS = (5, 9)
SYNC_VERSIONS = (1, 5)
HEARTBEAT_VERSIONS = (1, 4)
LEAVE_VERSIONS = (0, 5)
# The range assignor needs no more.
SUBSCRIPTION_VERSION = 1
ASSIGNMENT_VERSION = 0
_MEMBER_ID_REQUIRED = code_of(MemberIdRequired)
# Added to the rebalance timeout, for which the broker may delay the answer.
JOIN_ANSWER_MS = 5_000


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader learns of it; `subscription` are its own encoded bytes."""

    member_id: str
    instance_id: str | None
    subscription: bytes


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to JoinGroup; only the leader gets `members`."""

    is_leader: bool
    protocol: str
    members: tuple[JoinedMember, ...]


class Membership:
    """One member of one group. Every call raises the coordinator's error."""

    def __init__(
        self,
        client: Client,
        group_id: str,
        *,
        instance_id: str | None,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        outage: Outage,
    ) -> None:
        self._client = client
        self._outage = outage
        self._group_id = group_id
        self._lane = client.new_lane("group")
        self.instance_id = instance_id
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = ""
        self.generation = -1
        self.given_data: bytes | None = None
        """Data that the leader gave this member besides its partitions."""

    def metadata(self) -> GroupMetadata:
        """The group, and this member of its present generation."""
        return GroupMetadata(self._group_id, self.generation, self.member_id, self.instance_id)

    async def join(self, topics: Sequence[str]) -> Joined:
        """Ask to be a member of the next generation; the present one ends. The broker answers when all have asked."""
        self.generation = -1
        subscription = build_subscription(topics, version=SUBSCRIPTION_VERSION)

        async def ask(connection: BrokerConnection) -> JoinGroupResponse:
            response: JoinGroupResponse = await connection.request(
                ApiKey.JOIN_GROUP,
                versions=JOIN_VERSIONS if self.instance_id is None else STATIC_JOIN_VERSIONS,
                timeout_ms=self._rebalance_timeout_ms + JOIN_ANSWER_MS,
                group_id=self._group_id,
                session_timeout=self._session_timeout_ms,
                rebalance_timeout=self._rebalance_timeout_ms,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[{"name": RANGE, "metadata": subscription}],
                reason=None,
            )
            if response.error_code != _MEMBER_ID_REQUIRED:
                self._check(response.error_code)
            return response

        response = await self._on_coordinator(ask)
        if response.error_code == _MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            response = await self._on_coordinator(ask)
            self._check(response.error_code)
        self.member_id = response.member_id
        self.generation = response.generation_id
        members = tuple(
            JoinedMember(member.member_id, getattr(member, "group_instance_id", None), bytes(member.metadata))
            for member in response.members
        )
        is_leader = response.leader == self.member_id and not getattr(response, "skip_assignment", False)
        return Joined(is_leader, response.protocol_name or RANGE, members)

    async def synchronize(
        self,
        joined: Joined,
        assignments: Mapping[str, Sequence[TopicPartition]],
        *,
        user_data: Mapping[str, bytes] | None = None,
    ) -> tuple[TopicPartition, ...]:
        """Send the assignments as the leader (none as another member). Returns this member's own. `user_data` is what
        else each member is given; see `given_data`.
        """

        async def ask(connection: BrokerConnection) -> SyncGroupResponse:
            response: SyncGroupResponse = await connection.request(
                ApiKey.SYNC_GROUP,
                versions=SYNC_VERSIONS,
                timeout_ms=self._rebalance_timeout_ms + JOIN_ANSWER_MS,
                group_id=self._group_id,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self.instance_id,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=joined.protocol,
                assignments=[
                    {
                        "member_id": member_id,
                        "assignment": build_assignment(
                            by_topic(partitions).items(),
                            version=ASSIGNMENT_VERSION,
                            user_data=(user_data or {}).get(member_id),
                        ),
                    }
                    for member_id, partitions in assignments.items()
                ],
            )
            self._check(response.error_code)
            return response

        assignment = parse_assignment((await self._on_coordinator(ask)).assignment)
        self.given_data = assignment.user_data
        return flat(assignment.partitions)

    async def heartbeat(self) -> None:
        """Send a heartbeat. RebalanceInProgress means: join again.

        An answer may take longer than a rebalance: what it says of an earlier generation is ignored.
        """
        member = self.metadata()

        async def ask(connection: BrokerConnection) -> None:
            response = await connection.request(
                ApiKey.HEARTBEAT,
                versions=HEARTBEAT_VERSIONS,
                timeout_ms=self._session_timeout_ms,
                group_id=member.group_id,
                generation_id=member.generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            )
            if member == self.metadata():
                self._check(response.error_code)

        await self._on_coordinator(ask)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets as a member of this generation, also when the generation ends before the answer. Without
        membership, the coordinator would accept them whenever the group has no member.
        """
        member = self.metadata()

        async def ask(connection: BrokerConnection) -> None:
            for key, row in list_answer_rows((await commit(connection, member, offsets)).topics):
                self._check(row.error_code, topic=key.topic)

        await self._on_coordinator(ask)

    async def leave(self) -> None:
        """Leave, so that the others need not wait for the session to end. A static member only stops its heartbeats."""
        if not self.member_id or self.instance_id is not None:
            return
        member_id, self.member_id, self.generation = self.member_id, "", -1
        connection = await self._client.coordinator(self._group_id, lane=self._lane)
        response = await connection.request(
            ApiKey.LEAVE_GROUP,
            versions=LEAVE_VERSIONS,
            group_id=self._group_id,
            member_id=member_id,
            members=[
                {"member_id": member_id, "group_instance_id": None, "reason": "the consumer was closed"}
            ],
        )
        self._check(response.error_code)

    async def close(self) -> None:
        """Close the connection to the coordinator."""
        await self._client.release_lane(self._lane)

    def forget(self, *, is_member: bool) -> None:
        """End the generation. With `is_member` the member id stays valid."""
        self.generation = -1
        if not is_member:
            self.member_id = ""

    def _check(self, error_code: int, *, topic: str = "") -> None:
        about = f"group {self._group_id!r}"
        words = f"{about}, topic {topic!r}" if topic else about
        raise_for(error_code, about=words, group=self._group_id, topic=topic)

    async def _on_coordinator(self, ask: Callable[[BrokerConnection], Awaitable[T]]) -> T:
        async def attempt() -> T:
            try:
                result = await ask(await self._client.coordinator(self._group_id, lane=self._lane))
            except (ConnectionFailed, ClientTimeout) as failure:
                self._outage.note_failure([COORDINATOR], failure, now=asyncio.get_running_loop().time())
                raise
            self._outage.note_answer(COORDINATOR, now=asyncio.get_running_loop().time())
            return result

        return await self._client.with_retries(attempt, group_id=self._group_id)
