"""Responses about topics, logs and the cluster, for mypy alone.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from odradek.wire.protocol.responses import Response


class MetadataResponseBroker(Response):
    node_id: int
    host: str
    port: int
    rack: str | None


class MetadataResponsePartition(Response):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class MetadataResponseTopic(Response):
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[MetadataResponsePartition, ...]
    topic_authorized_operations: int


class MetadataResponse(Response):
    throttle_time: timedelta | int
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataResponseTopic, ...]
    error_code: int
    cluster_authorized_operations: int


class ApiVersion(Response):
    api_key: int
    min_version: int
    max_version: int


class SupportedFeatureKey(Response):
    name: str
    min_version: int
    max_version: int


class FinalizedFeatureKey(Response):
    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsResponse(Response):
    error_code: int
    api_keys: tuple[ApiVersion, ...]
    throttle_time: timedelta | int
    supported_features: tuple[SupportedFeatureKey, ...]
    finalized_features_epoch: int
    finalized_features: tuple[FinalizedFeatureKey, ...]
    zk_migration_ready: bool


class CreatableTopicConfigs(Response):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool


class CreatableTopicResult(Response):
    name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None
    topic_config_error_code: int
    num_partitions: int
    replication_factor: int
    configs: tuple[CreatableTopicConfigs, ...] | None


class CreateTopicsResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[CreatableTopicResult, ...]


class DeletableTopicResult(Response):
    name: str | None
    topic_id: UUID | None
    error_code: int
    error_message: str | None


class DeleteTopicsResponse(Response):
    throttle_time: timedelta | int
    responses: tuple[DeletableTopicResult, ...]


class DescribeConfigsSynonym(Response):
    name: str
    value: str | None
    source: int


class DescribeConfigsResourceResult(Response):
    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: tuple[DescribeConfigsSynonym, ...]
    config_type: int
    documentation: str | None


class DescribeConfigsResult(Response):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    configs: tuple[DescribeConfigsResourceResult, ...]


class DescribeConfigsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[DescribeConfigsResult, ...]


class AlterConfigsResourceResponse(Response):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class AlterConfigsResponse(Response):
    throttle_time: timedelta | int
    responses: tuple[AlterConfigsResourceResponse, ...]


class AlterReplicaLogDirPartitionResult(Response):
    partition_index: int
    error_code: int


class AlterReplicaLogDirTopicResult(Response):
    topic_name: str
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...]


class AlterReplicaLogDirsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[AlterReplicaLogDirTopicResult, ...]


class DescribeLogDirsPartition(Response):
    partition_index: int
    partition_size: int
    offset_lag: int
    is_future_key: bool


class DescribeLogDirsTopic(Response):
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


class DescribeLogDirsResult(Response):
    error_code: int
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int
    usable_bytes: int
    is_cordoned: bool


class DescribeLogDirsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    results: tuple[DescribeLogDirsResult, ...]


class CreatePartitionsTopicResult(Response):
    name: str
    error_code: int
    error_message: str | None


class CreatePartitionsResponse(Response):
    throttle_time: timedelta | int
    results: tuple[CreatePartitionsTopicResult, ...]


class PartitionResult(Response):
    partition_id: int
    error_code: int
    error_message: str | None


class ReplicaElectionResult(Response):
    topic: str
    partition_result: tuple[PartitionResult, ...]


class ElectLeadersResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    replica_election_results: tuple[ReplicaElectionResult, ...]


class IncrementalAlterConfigsResourceResponse(Response):
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str


class IncrementalAlterConfigsResponse(Response):
    throttle_time: timedelta | int
    responses: tuple[IncrementalAlterConfigsResourceResponse, ...]


class ReassignablePartitionResponse(Response):
    partition_index: int
    error_code: int
    error_message: str | None


class ReassignableTopicResponse(Response):
    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


class AlterPartitionReassignmentsResponse(Response):
    throttle_time: timedelta | int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: tuple[ReassignableTopicResponse, ...]


class OngoingPartitionReassignment(Response):
    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class OngoingTopicReassignment(Response):
    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ListPartitionReassignmentsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    topics: tuple[OngoingTopicReassignment, ...]


class PartitionData(Response):
    partition_index: int
    error_code: int
    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int
    partition_epoch: int


class AlterPartitionTopicData(Response):
    topic_id: UUID | None
    partitions: tuple[PartitionData, ...]


class AlterPartitionResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    topics: tuple[AlterPartitionTopicData, ...]


class UpdatableFeatureResult(Response):
    feature: str
    error_code: int
    error_message: str | None


class UpdateFeaturesResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    results: tuple[UpdatableFeatureResult, ...]


class DescribeClusterBroker(Response):
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class DescribeClusterResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int


class UnregisterBrokerResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    error_message: str | None


class AllocateProducerIdsResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    producer_id_start: int
    producer_id_len: int


class ConfigResource(Response):
    resource_name: str
    resource_type: int


class ListConfigResourcesResponse(Response):
    throttle_time: timedelta | int
    error_code: int
    config_resources: tuple[ConfigResource, ...]


class DescribeTopicPartitionsResponsePartition(Response):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]


class DescribeTopicPartitionsResponseTopic(Response):
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]
    topic_authorized_operations: int


class Cursor(Response):
    topic_name: str
    partition_index: int


class DescribeTopicPartitionsResponse(Response):
    throttle_time: timedelta | int
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None
