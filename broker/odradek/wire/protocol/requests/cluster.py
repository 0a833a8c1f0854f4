"""Requests of topics, logs and the cluster, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final
from uuid import UUID

from odradek.wire.protocol.api import ApiKey


class ListOffsetsPartition:
    __slots__ = ()
    partition_index: int
    current_leader_epoch: int = -1
    timestamp: int


class ListOffsetsTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": ListOffsetsPartition}
    name: str
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": ListOffsetsTopic}
    replica_id: int
    isolation_level: int = 0
    topics: tuple[ListOffsetsTopic, ...]
    timeout: timedelta | int = timedelta(milliseconds=0)


class MetadataRequestTopic:
    __slots__ = ()
    topic_id: UUID | None = None
    name: str | None


class MetadataRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": MetadataRequestTopic}
    topics: tuple[MetadataRequestTopic, ...] | None
    allow_auto_topic_creation: bool = True
    include_topic_authorized_operations: bool = False
    include_cluster_authorized_operations: bool = False


class ApiVersionsRequest:
    __slots__ = ()
    client_software_name: str = ""
    client_software_version: str = ""
    cluster_id: str | None = None
    node_id: int = -1


class CreatableReplicaAssignment:
    __slots__ = ()
    partition_index: int
    broker_ids: tuple[int, ...]


class CreatableTopicConfig:
    __slots__ = ()
    name: str
    value: str | None


class CreatableTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "assignments": CreatableReplicaAssignment,
        "configs": CreatableTopicConfig,
    }
    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[CreatableReplicaAssignment, ...]
    configs: tuple[CreatableTopicConfig, ...]


class CreateTopicsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": CreatableTopic}
    topics: tuple[CreatableTopic, ...]
    timeout: timedelta | int
    validate_only: bool


class DeleteTopicState:
    __slots__ = ()
    name: str | None
    topic_id: UUID | None


class DeleteTopicsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DeleteTopicState}
    topics: tuple[DeleteTopicState, ...] = ()
    timeout: timedelta | int
    topic_names: tuple[str, ...] = ()


class DeleteRecordsPartition:
    __slots__ = ()
    partition_index: int
    offset: int


class DeleteRecordsTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": DeleteRecordsPartition}
    name: str
    partitions: tuple[DeleteRecordsPartition, ...]


class DeleteRecordsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DeleteRecordsTopic}
    topics: tuple[DeleteRecordsTopic, ...]
    timeout: timedelta | int


class InitProducerIdRequest:
    __slots__ = ()
    transactional_id: str | None
    transaction_timeout: timedelta | int
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


class OffsetForLeaderPartition:
    __slots__ = ()
    partition: int
    current_leader_epoch: int
    leader_epoch: int


class OffsetForLeaderTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": OffsetForLeaderPartition}
    topic: str
    partitions: tuple[OffsetForLeaderPartition, ...]


class OffsetForLeaderEpochRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": OffsetForLeaderTopic}
    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...]


class DescribeConfigsResource:
    __slots__ = ()
    resource_type: int
    resource_name: str
    configuration_keys: tuple[str, ...] | None


class DescribeConfigsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"resources": DescribeConfigsResource}
    resources: tuple[DescribeConfigsResource, ...]
    include_synonyms: bool
    include_documentation: bool = False


class AlterableConfig:
    __slots__ = ()
    name: str
    value: str | None


class AlterConfigsResource:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"configs": AlterableConfig}
    resource_type: int
    resource_name: str
    configs: tuple[AlterableConfig, ...]


class AlterConfigsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"resources": AlterConfigsResource}
    resources: tuple[AlterConfigsResource, ...]
    validate_only: bool


class AlterReplicaLogDirTopic:
    __slots__ = ()
    name: str
    partitions: tuple[int, ...]


class AlterReplicaLogDir:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": AlterReplicaLogDirTopic}
    path: str
    topics: tuple[AlterReplicaLogDirTopic, ...]


class AlterReplicaLogDirsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"dirs": AlterReplicaLogDir}
    dirs: tuple[AlterReplicaLogDir, ...]


class DescribableLogDirTopic:
    __slots__ = ()
    topic: str
    partitions: tuple[int, ...]


class DescribeLogDirsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DescribableLogDirTopic}
    topics: tuple[DescribableLogDirTopic, ...] | None


class CreatePartitionsAssignment:
    __slots__ = ()
    broker_ids: tuple[int, ...]


class CreatePartitionsTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"assignments": CreatePartitionsAssignment}
    name: str
    count: int
    assignments: tuple[CreatePartitionsAssignment, ...] | None


class CreatePartitionsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": CreatePartitionsTopic}
    topics: tuple[CreatePartitionsTopic, ...]
    timeout: timedelta | int
    validate_only: bool


class ElectLeadersTopicPartitions:
    __slots__ = ()
    topic: str
    partitions: tuple[int, ...]


class ElectLeadersRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topic_partitions": ElectLeadersTopicPartitions}
    election_type: int = 0
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None
    timeout: timedelta | int


class IncrementalAlterConfigsAlterableConfig:
    __slots__ = ()
    name: str
    config_operation: int
    value: str | None


class IncrementalAlterConfigsResource:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"configs": IncrementalAlterConfigsAlterableConfig}
    resource_type: int
    resource_name: str
    configs: tuple[IncrementalAlterConfigsAlterableConfig, ...]


class IncrementalAlterConfigsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"resources": IncrementalAlterConfigsResource}
    resources: tuple[IncrementalAlterConfigsResource, ...]
    validate_only: bool


class ReassignablePartition:
    __slots__ = ()
    partition_index: int
    replicas: tuple[int, ...] | None


class ReassignableTopic:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": ReassignablePartition}
    name: str
    partitions: tuple[ReassignablePartition, ...]


class AlterPartitionReassignmentsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": ReassignableTopic}
    timeout: timedelta | int
    allow_replication_factor_change: bool = True
    topics: tuple[ReassignableTopic, ...]


class ListPartitionReassignmentsTopics:
    __slots__ = ()
    name: str
    partition_indexes: tuple[int, ...]


class ListPartitionReassignmentsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": ListPartitionReassignmentsTopics}
    timeout: timedelta | int
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None


class BrokerState:
    __slots__ = ()
    broker_id: int
    broker_epoch: int


class PartitionData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"new_isr_with_epochs": BrokerState}
    partition_index: int
    leader_epoch: int
    new_isr_with_epochs: tuple[BrokerState, ...] = ()
    leader_recovery_state: int
    partition_epoch: int
    new_isr: tuple[int, ...] = ()


class TopicData:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"partitions": PartitionData}
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


class AlterPartitionRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": TopicData}
    broker_id: int
    broker_epoch: int
    topics: tuple[TopicData, ...]


class FeatureUpdateKey:
    __slots__ = ()
    feature: str
    max_version_level: int
    upgrade_type: int = 1
    allow_downgrade: bool = False


class UpdateFeaturesRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"feature_updates": FeatureUpdateKey}
    timeout: timedelta | int
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: bool = False


class DescribeClusterRequest:
    __slots__ = ()
    include_cluster_authorized_operations: bool
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


class TopicRequest:
    __slots__ = ()
    name: str
    partition_indexes: tuple[int, ...]


class DescribeProducersRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": TopicRequest}
    topics: tuple[TopicRequest, ...]


class UnregisterBrokerRequest:
    __slots__ = ()
    broker_id: int


class AllocateProducerIdsRequest:
    __slots__ = ()
    broker_id: int
    broker_epoch: int


class ListConfigResourcesRequest:
    __slots__ = ()
    resource_types: tuple[int, ...] = ()


class DescribeTopicPartitionsTopicRequest:
    __slots__ = ()
    name: str


class Cursor:
    __slots__ = ()
    topic_name: str
    partition_index: int


class DescribeTopicPartitionsRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topics": DescribeTopicPartitionsTopicRequest, "cursor": Cursor}
    topics: tuple[DescribeTopicPartitionsTopicRequest, ...]
    response_partition_limit: int
    cursor: Cursor | None


TYPES: Final[dict[int, type]] = {
    ApiKey.LIST_OFFSETS: ListOffsetsRequest,
    ApiKey.METADATA: MetadataRequest,
    ApiKey.API_VERSIONS: ApiVersionsRequest,
    ApiKey.CREATE_TOPICS: CreateTopicsRequest,
    ApiKey.DELETE_TOPICS: DeleteTopicsRequest,
    ApiKey.DELETE_RECORDS: DeleteRecordsRequest,
    ApiKey.INIT_PRODUCER_ID: InitProducerIdRequest,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest,
    ApiKey.DESCRIBE_CONFIGS: DescribeConfigsRequest,
    ApiKey.ALTER_CONFIGS: AlterConfigsRequest,
    ApiKey.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsRequest,
    ApiKey.DESCRIBE_LOG_DIRS: DescribeLogDirsRequest,
    ApiKey.CREATE_PARTITIONS: CreatePartitionsRequest,
    ApiKey.ELECT_LEADERS: ElectLeadersRequest,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AlterPartitionReassignmentsRequest,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ListPartitionReassignmentsRequest,
    ApiKey.ALTER_PARTITION: AlterPartitionRequest,
    ApiKey.UPDATE_FEATURES: UpdateFeaturesRequest,
    ApiKey.DESCRIBE_CLUSTER: DescribeClusterRequest,
    ApiKey.DESCRIBE_PRODUCERS: DescribeProducersRequest,
    ApiKey.UNREGISTER_BROKER: UnregisterBrokerRequest,
    ApiKey.ALLOCATE_PRODUCER_IDS: AllocateProducerIdsRequest,
    ApiKey.LIST_CONFIG_RESOURCES: ListConfigResourcesRequest,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest,
}
