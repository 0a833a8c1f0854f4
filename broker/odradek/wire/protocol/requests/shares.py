"""Requests of share groups, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

from odradek.wire.protocol.api import ApiKey


class ShareGroupHeartbeatRequest:
    __slots__ = ()
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: tuple[str, ...] | None


class ShareGroupDescribeRequest:
    __slots__ = ()
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


class AcknowledgementBatch:
    __slots__ = ()
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class FetchPartition:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"acknowledgement_batches": AcknowledgementBatch}
    partition_index: int
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


class FetchTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": FetchPartition}
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic:
    __slots__ = ()
    topic_id: UUID | None
    partitions: tuple[int, ...]


class ShareFetchRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": FetchTopic, "forgotten_topics_data": ForgottenTopic}
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait: timedelta | int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...]


class ShareAcknowledgementBatch:
    __slots__ = ()
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class AcknowledgePartition:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"acknowledgement_batches": ShareAcknowledgementBatch}
    partition_index: int
    acknowledgement_batches: tuple[ShareAcknowledgementBatch, ...]


class AcknowledgeTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": AcknowledgePartition}
    topic_id: UUID | None
    partitions: tuple[AcknowledgePartition, ...]


class ShareAcknowledgeRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": AcknowledgeTopic}
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool = False
    topics: tuple[AcknowledgeTopic, ...]


class InitializeShareGroupStatePartitionData:
    __slots__ = ()
    partition: int
    state_epoch: int
    start_offset: int


class InitializeStateData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": InitializeShareGroupStatePartitionData}
    topic_id: UUID | None
    partitions: tuple[InitializeShareGroupStatePartitionData, ...]


class InitializeShareGroupStateRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": InitializeStateData}
    group_id: str
    topics: tuple[InitializeStateData, ...]


class ReadShareGroupStatePartitionData:
    __slots__ = ()
    partition: int
    leader_epoch: int


class ReadStateData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": ReadShareGroupStatePartitionData}
    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStatePartitionData, ...]


class ReadShareGroupStateRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": ReadStateData}
    group_id: str
    topics: tuple[ReadStateData, ...]


class StateBatch:
    __slots__ = ()
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class WriteShareGroupStatePartitionData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"state_batches": StateBatch}
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = -1
    state_batches: tuple[StateBatch, ...]


class WriteStateData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": WriteShareGroupStatePartitionData}
    topic_id: UUID | None
    partitions: tuple[WriteShareGroupStatePartitionData, ...]


class WriteShareGroupStateRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": WriteStateData}
    group_id: str
    topics: tuple[WriteStateData, ...]


class DeleteShareGroupStatePartitionData:
    __slots__ = ()
    partition: int


class DeleteStateData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": DeleteShareGroupStatePartitionData}
    topic_id: UUID | None
    partitions: tuple[DeleteShareGroupStatePartitionData, ...]


class DeleteShareGroupStateRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DeleteStateData}
    group_id: str
    topics: tuple[DeleteStateData, ...]


class ReadShareGroupStateSummaryPartitionData:
    __slots__ = ()
    partition: int
    leader_epoch: int


class ReadStateSummaryData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": ReadShareGroupStateSummaryPartitionData}
    topic_id: UUID | None
    partitions: tuple[ReadShareGroupStateSummaryPartitionData, ...]


class ReadShareGroupStateSummaryRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": ReadStateSummaryData}
    group_id: str
    topics: tuple[ReadStateSummaryData, ...]


class DescribeShareGroupOffsetsRequestTopic:
    __slots__ = ()
    topic_name: str
    partitions: tuple[int, ...]


class DescribeShareGroupOffsetsRequestGroup:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DescribeShareGroupOffsetsRequestTopic}
    group_id: str
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


class DescribeShareGroupOffsetsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"groups": DescribeShareGroupOffsetsRequestGroup}
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


class AlterShareGroupOffsetsRequestPartition:
    __slots__ = ()
    partition_index: int
    start_offset: int


class AlterShareGroupOffsetsRequestTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": AlterShareGroupOffsetsRequestPartition}
    topic_name: str
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


class AlterShareGroupOffsetsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": AlterShareGroupOffsetsRequestTopic}
    group_id: str
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


class DeleteShareGroupOffsetsRequestTopic:
    __slots__ = ()
    topic_name: str


class DeleteShareGroupOffsetsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DeleteShareGroupOffsetsRequestTopic}
    group_id: str
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


TYPES: Final[dict[int, type]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: ShareGroupHeartbeatRequest,
    ApiKey.SHARE_GROUP_DESCRIBE: ShareGroupDescribeRequest,
    ApiKey.SHARE_FETCH: ShareFetchRequest,
    ApiKey.SHARE_ACKNOWLEDGE: ShareAcknowledgeRequest,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: InitializeShareGroupStateRequest,
    ApiKey.READ_SHARE_GROUP_STATE: ReadShareGroupStateRequest,
    ApiKey.WRITE_SHARE_GROUP_STATE: WriteShareGroupStateRequest,
    ApiKey.DELETE_SHARE_GROUP_STATE: DeleteShareGroupStateRequest,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ReadShareGroupStateSummaryRequest,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsRequest,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: AlterShareGroupOffsetsRequest,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: DeleteShareGroupOffsetsRequest,
}
