"""Requests of groups, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

from odradek.wire.protocol.api import ApiKey


class OffsetCommitRequestPartition:
    __slots__ = ()
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = -1
    committed_metadata: str | None


class OffsetCommitRequestTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": OffsetCommitRequestPartition}
    topic_id: UUID | None = None
    partitions: tuple[OffsetCommitRequestPartition, ...]
    name: str = ""


class OffsetCommitRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": OffsetCommitRequestTopic}
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None = None
    topics: tuple[OffsetCommitRequestTopic, ...]
    retention_time: timedelta | int = timedelta(milliseconds=-1)


class OffsetFetchRequestTopics:
    __slots__ = ()
    topic_id: UUID | None = None
    partition_indexes: tuple[int, ...]
    name: str = ""


class OffsetFetchRequestGroup:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": OffsetFetchRequestTopics}
    group_id: str
    member_id: str | None = None
    member_epoch: int = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


class OffsetFetchRequestTopic:
    __slots__ = ()
    name: str
    partition_indexes: tuple[int, ...]


class OffsetFetchRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"groups": OffsetFetchRequestGroup, "topics": OffsetFetchRequestTopic}
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = False
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()


class FindCoordinatorRequest:
    __slots__ = ()
    key_type: int = 0
    coordinator_keys: tuple[str, ...] = ()
    key: str = ""


class JoinGroupRequestProtocol:
    __slots__ = ()
    name: str
    metadata: bytes


class JoinGroupRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"protocols": JoinGroupRequestProtocol}
    group_id: str
    session_timeout: timedelta | int
    rebalance_timeout: timedelta | int = timedelta(milliseconds=-1)
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None


class HeartbeatRequest:
    __slots__ = ()
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


class MemberIdentity:
    __slots__ = ()
    member_id: str
    group_instance_id: str | None
    reason: str | None = None


class LeaveGroupRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"members": MemberIdentity}
    group_id: str
    members: tuple[MemberIdentity, ...] = ()
    member_id: str = ""


class SyncGroupRequestAssignment:
    __slots__ = ()
    member_id: str
    assignment: bytes


class SyncGroupRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"assignments": SyncGroupRequestAssignment}
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[SyncGroupRequestAssignment, ...]


class DescribeGroupsRequest:
    __slots__ = ()
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


class ListGroupsRequest:
    __slots__ = ()
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class DeleteGroupsRequest:
    __slots__ = ()
    groups_names: tuple[str, ...]


class OffsetDeleteRequestPartition:
    __slots__ = ()
    partition_index: int


class OffsetDeleteRequestTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": OffsetDeleteRequestPartition}
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


class OffsetDeleteRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": OffsetDeleteRequestTopic}
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


class TopicPartitions:
    __slots__ = ()
    topic_id: UUID | None
    partitions: tuple[int, ...]


class ConsumerGroupHeartbeatRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topic_partitions": TopicPartitions}
    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta | int
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None
    topic_partitions: tuple[TopicPartitions, ...] | None


class ConsumerGroupDescribeRequest:
    __slots__ = ()
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


TYPES: Final[dict[int, type]] = {
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest,
    ApiKey.OFFSET_FETCH: OffsetFetchRequest,
    ApiKey.FIND_COORDINATOR: FindCoordinatorRequest,
    ApiKey.JOIN_GROUP: JoinGroupRequest,
    ApiKey.HEARTBEAT: HeartbeatRequest,
    ApiKey.LEAVE_GROUP: LeaveGroupRequest,
    ApiKey.SYNC_GROUP: SyncGroupRequest,
    ApiKey.DESCRIBE_GROUPS: DescribeGroupsRequest,
    ApiKey.LIST_GROUPS: ListGroupsRequest,
    ApiKey.DELETE_GROUPS: DeleteGroupsRequest,
    ApiKey.OFFSET_DELETE: OffsetDeleteRequest,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ConsumerGroupHeartbeatRequest,
    ApiKey.CONSUMER_GROUP_DESCRIBE: ConsumerGroupDescribeRequest,
}
