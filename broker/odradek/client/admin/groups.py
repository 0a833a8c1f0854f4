"""Groups: list, describe, their committed offsets, delete. Every call goes to the group's coordinator. Offsets are
changed without membership (generation -1). A coordinator allows that only while the group has no members, as for
Kafka's own tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from odradek.client.admin.group_offsets import read_offsets
from odradek.client.checked_calls import checking_arguments
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.errors import UnsupportedByBroker, raise_for
from odradek.client.group_metadata import GroupMetadata, commit
from odradek.client.partition_rows import list_answer_rows, numbers_by_topic, rows_by_topic
from odradek.client.results import CommittedOffset, GroupDescription, GroupListing, GroupMember
from odradek.foundation.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    NonEmptyGroup,
    UnknownMemberId,
    UnsupportedVersion,
)
from odradek.foundation.ids import TopicPartition, flat
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import parse_assignment, parse_subscription

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.groups import (
        ConsumerGroupDescribeAssignment,
        OffsetCommitResponsePartition,
        OffsetDeleteResponsePartition,
    )
    from odradek.wire.protocol.responses.shares import ShareGroupDescribeAssignment
    from odradek.wire.protocol.responses.streams import (
        StreamsGroupDescribeAssignment,
        StreamsGroupDescribedGroup,
    )

T = TypeVar("T")

LIST_VERSIONS = (0, 5)
DESCRIBE_VERSIONS = (0, 6)
DESCRIBE_CONSUMER_VERSIONS = (0, 1)
DESCRIBE_STREAMS_VERSIONS = (0, 1)
# Before 8 a request has one group, and before 7 it cannot ask for stable offsets.
OFFSET_FETCH_VERSIONS = (2, 9)
OFFSET_DELETE_VERSIONS = (0, 0)
DELETE_VERSIONS = (0, 2)
CONSUMER_PROTOCOL = "consumer"
STREAMS_PROTOCOL = "streams"
SHARE_GROUP_DESCRIBE_VERSIONS = (1, 1)
SHARE = "share"
# The type of groups whose consumers share partitions through ZooKeeper, which only Odradek's brokers show.
ZOOKEEPER = "zookeeper"
DEAD = "Dead"


@checking_arguments()
class GroupAdmin:
    """The admin calls for groups."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list(self) -> list[GroupListing]:
        """Every group of every broker, by id."""
        by_broker = await self.list_by_broker()
        found = {group.group_id: group for listed in by_broker.values() for group in listed}
        return [found[group_id] for group_id in sorted(found)]

    async def list_by_broker(self) -> dict[int, Sequence[GroupListing]]:
        """The groups that each broker coordinates. Raises what a broker has instead of an answer."""
        cluster = await self._client.refresh(())
        return {
            broker_id: await self._client.with_retries(lambda: self.list_of(broker_id))  # noqa: B023 (awaited here)
            for broker_id in sorted(cluster.brokers)
        }

    async def list_of(self, broker_id: int) -> Sequence[GroupListing]:
        """The groups that one broker coordinates. Raises CoordinatorLoadInProgress, ConnectionFailed, …"""
        connection = await self._client.broker(broker_id)
        response = await connection.request(
            ApiKey.LIST_GROUPS, versions=LIST_VERSIONS, states_filter=[], types_filter=[]
        )
        raise_for(response.error_code)
        return [
            GroupListing(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                state=getattr(group, "group_state", ""),
                type=getattr(group, "group_type", "") or "classic",
            )
            for group in response.groups
        ]

    async def describe(self, group_id: str) -> GroupDescription:
        """One group of any type. Raises GroupIdNotFound."""
        try:
            return await self._on_coordinator(group_id, lambda c: self._describe_consumer(c, group_id))
        except (GroupIdNotFound, UnsupportedByBroker):
            pass
        try:
            return await self._on_coordinator(group_id, lambda c: self._describe_classic(c, group_id))
        except GroupIdNotFound as missing:
            try:
                return await self._on_coordinator(group_id, lambda c: self._describe_streams(c, group_id))
            except (GroupIdNotFound, UnsupportedByBroker, UnsupportedVersion):
                pass
            try:
                return await self._on_coordinator(group_id, lambda c: self._describe_share(c, group_id))
            except (GroupIdNotFound, UnsupportedByBroker, UnsupportedVersion):
                raise missing from None

    async def _describe_classic(self, connection: BrokerConnection, group_id: str) -> GroupDescription:
        response = await connection.request(
            ApiKey.DESCRIBE_GROUPS,
            versions=DESCRIBE_VERSIONS,
            groups=[group_id],
            include_authorized_operations=False,
        )
        group = response.groups[0]
        raise_for(
            group.error_code,
            getattr(group, "error_message", None),
            about=f"group {group_id!r}",
            group=group_id,
        )
        if group.group_state == DEAD:
            raise GroupIdNotFound(
                f"there is no group {group_id!r}; `odradek groups list` lists all groups",
                missing_name=group_id,
            )
        is_consumer = group.protocol_type in (CONSUMER_PROTOCOL, ZOOKEEPER)
        return GroupDescription(
            group_id=group_id,
            state=group.group_state,
            type=ZOOKEEPER if group.protocol_type == ZOOKEEPER else "classic",
            protocol_type=group.protocol_type,
            assignor=group.protocol_data,
            coordinator=connection.broker_id(self._client.cluster),
            members=tuple(
                GroupMember(
                    member.member_id,
                    getattr(member, "group_instance_id", None),
                    member.client_id,
                    member.client_host,
                    assignment=_assignment(member.member_assignment) if is_consumer else (),
                    topics=_subscription(member.member_metadata) if is_consumer else (),
                )
                for member in group.members
            ),
        )

    async def _describe_consumer(self, connection: BrokerConnection, group_id: str) -> GroupDescription:
        response = await connection.request(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            versions=DESCRIBE_CONSUMER_VERSIONS,
            group_ids=[group_id],
            include_authorized_operations=False,
        )
        group = response.groups[0]
        raise_for(group.error_code, group.error_message, about=f"group {group_id!r}", group=group_id)
        return GroupDescription(
            group_id=group_id,
            state=group.group_state,
            type="consumer",
            protocol_type=CONSUMER_PROTOCOL,
            assignor=group.assignor_name,
            coordinator=connection.broker_id(self._client.cluster),
            members=tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    assignment=_partitions(member.assignment),
                    topics=member.subscribed_topic_names,
                    pattern=member.subscribed_topic_regex or None,
                    epoch=member.member_epoch,
                    target=_partitions(member.target_assignment),
                )
                for member in group.members
            ),
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )

    async def _describe_streams(self, connection: BrokerConnection, group_id: str) -> GroupDescription:
        """A Streams group. Members have the partitions that their active tasks read."""
        response = await connection.request(
            ApiKey.STREAMS_GROUP_DESCRIBE,
            versions=DESCRIBE_STREAMS_VERSIONS,
            group_ids=[group_id],
            include_authorized_operations=False,
            include_topology_description=False,
        )
        group = response.groups[0]
        raise_for(group.error_code, group.error_message, about=f"group {group_id!r}", group=group_id)
        sources = _sources(group)
        topics = tuple(sorted({topic for names in sources.values() for topic in names}))
        known = (await self._client.refresh(topics)).topics
        counts = {name: len(known[name].partitions) for name in topics if name in known}

        def list_partitions(assignment: StreamsGroupDescribeAssignment) -> tuple[TopicPartition, ...]:
            return tuple(
                sorted(
                    TopicPartition(topic, number)
                    for task in assignment.active_tasks
                    for topic in sources.get(task.subtopology_id, ())
                    for number in task.partitions
                    if number < counts.get(topic, 0)
                )
            )

        return GroupDescription(
            group_id=group_id,
            state=group.group_state,
            type=STREAMS_PROTOCOL,
            protocol_type=STREAMS_PROTOCOL,
            assignor=getattr(group, "assignor_name", None) or "",
            coordinator=connection.broker_id(self._client.cluster),
            members=tuple(
                GroupMember(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.client_host,
                    assignment=list_partitions(member.assignment),
                    topics=topics,
                    epoch=member.member_epoch,
                    target=list_partitions(member.target_assignment),
                )
                for member in group.members
            ),
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )

    async def _describe_share(self, connection: BrokerConnection, group_id: str) -> GroupDescription:
        answer = await connection.request(
            ApiKey.SHARE_GROUP_DESCRIBE,
            versions=SHARE_GROUP_DESCRIBE_VERSIONS,
            group_ids=[group_id],
            include_authorized_operations=False,
        )
        group = answer.groups[0]
        raise_for(group.error_code, group.error_message, about=f"group {group_id!r}", group=group_id)
        return GroupDescription(
            group_id=group_id,
            state=group.group_state,
            type=SHARE,
            protocol_type=SHARE,
            assignor=group.assignor_name,
            coordinator=connection.broker_id(self._client.cluster),
            members=tuple(
                GroupMember(
                    member.member_id,
                    None,
                    member.client_id,
                    member.client_host,
                    assignment=_partitions(member.assignment),
                    topics=tuple(member.subscribed_topic_names),
                    epoch=member.member_epoch,
                )
                for member in group.members
            ),
            epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )

    async def offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets, of these partitions or of all; partitions without a commit are absent.

        Brokers before Kafka 2.5 ignore `require_stable`: they cannot wait for the offsets of transactions.
        """
        topics = numbers_by_topic(partitions, partitions="partition_indexes")

        async def ask(connection: BrokerConnection) -> dict[TopicPartition, CommittedOffset]:
            response = await connection.request(
                ApiKey.OFFSET_FETCH,
                versions=OFFSET_FETCH_VERSIONS,
                group_id=group_id,
                topics=topics,
                groups=[{"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": topics}],
                require_stable=require_stable,
            )
            return read_offsets(getattr(response, "groups", (response,))[0], group_id)

        return await self._on_coordinator(group_id, ask)

    async def alter_offsets(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Set committed offsets of a group without members. Raises NonEmptyGroup when it has some.

        Offsets of a group in ZooKeeper are not changed by this: its coordinator gets a group of the same name.
        """

        async def ask(connection: BrokerConnection) -> None:
            response = await commit(connection, GroupMetadata(group_id), offsets)
            _raise_partition_errors(list_answer_rows(response.topics), group_id)

        await self._on_coordinator(group_id, ask)

    async def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Delete committed offsets. Raises GroupSubscribedToTopic while a member reads the topic."""
        topics = rows_by_topic((key, {"partition_index": key.partition}) for key in partitions)

        async def ask(connection: BrokerConnection) -> None:
            response = await connection.request(
                ApiKey.OFFSET_DELETE, versions=OFFSET_DELETE_VERSIONS, group_id=group_id, topics=topics
            )
            raise_for(response.error_code, about=f"group {group_id!r}", group=group_id)
            _raise_partition_errors(list_answer_rows(response.topics), group_id)

        await self._on_coordinator(group_id, ask)

    async def check_changeable(self, group_id: str, *, has_offsets: bool = False) -> None:
        """Raise InvalidRequest for a group in ZooKeeper: no broker changes it. One that does not exist is none.

        With `has_offsets` its committed offsets are to change: also for a queue, which has none.
        """
        try:
            described = await self.describe(group_id)
        except GroupIdNotFound:
            return
        if has_offsets and described.type == SHARE:
            raise InvalidRequest(f"group {group_id!r} is a queue; `odradek queues reset` moves it")
        if described.type == ZOOKEEPER:
            raise InvalidRequest(
                f"group {group_id!r} is kept in ZooKeeper, where only its consumers change it; "
                f"use seek of their connector, or stop them and edit /consumers/{group_id}"
            )

    async def delete(self, group_id: str) -> None:
        """Delete a group without members. Raises NonEmptyGroup, GroupIdNotFound."""

        async def ask(connection: BrokerConnection) -> None:
            response = await connection.request(
                ApiKey.DELETE_GROUPS, versions=DELETE_VERSIONS, groups_names=[group_id]
            )
            raise_for(response.results[0].error_code, about=f"group {group_id!r}", group=group_id)

        await self._on_coordinator(group_id, ask)

    async def _on_coordinator(self, group_id: str, ask: Callable[[BrokerConnection], Awaitable[T]]) -> T:
        async def attempt() -> T:
            return await ask(await self._client.coordinator(group_id))

        return await self._client.with_retries(attempt, group_id=group_id)


def _raise_partition_errors(
    rows: Iterable[tuple[TopicPartition, OffsetDeleteResponsePartition | OffsetCommitResponsePartition]],
    group_id: str,
) -> None:
    for key, row in rows:
        try:
            raise_for(
                row.error_code, about=f"group {group_id!r}, partition {key}", topic=key.topic, group=group_id
            )
        except GroupSubscribedToTopic as failure:
            raise GroupSubscribedToTopic(
                f"group {group_id!r} has members that subscribe to topic {key.topic!r}; stop these consumers first"
            ) from failure
        except UnknownMemberId as failure:
            # The coordinator's errors for a commit without membership while the group has members.
            raise NonEmptyGroup(f"group {group_id!r} has members; stop its consumers first") from failure


def _sources(group: StreamsGroupDescribedGroup) -> dict[str, list[str]]:
    """The topics that each subtopology reads, internal ones included."""
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    return {
        one.subtopology_id: [*one.source_topics, *(topic.name for topic in one.repartition_source_topics)]
        for one in subtopologies
    }


def _partitions(
    assignment: ConsumerGroupDescribeAssignment | ShareGroupDescribeAssignment,
) -> tuple[TopicPartition, ...]:
    return flat((topic.topic_name, topic.partitions) for topic in assignment.topic_partitions)


def _subscription(data: bytes) -> tuple[str, ...]:
    """The topics that a member subscribes to; none if the client stores other bytes there."""
    try:
        return parse_subscription(data).topics
    except InvalidRequest:
        return ()


def _assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of a member; none if the client stores other bytes there."""
    try:
        return flat(parse_assignment(data).partitions)
    except InvalidRequest:
        return ()
