"""Requests of Streams groups, as handlers read them.

Written by `odradek.broker.requests.request_types`; edits are lost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Final

from odradek.wire.protocol.api import ApiKey


class KeyValue:
    __slots__ = ()
    key: str
    value: str


class StreamsGroupHeartbeatTopicInfo:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"topic_configs": KeyValue}
    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[KeyValue, ...]


class CopartitionGroup:
    __slots__ = ()
    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "state_changelog_topics": StreamsGroupHeartbeatTopicInfo,
        "repartition_source_topics": StreamsGroupHeartbeatTopicInfo,
        "copartition_groups": CopartitionGroup,
    }
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[StreamsGroupHeartbeatTopicInfo, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[StreamsGroupHeartbeatTopicInfo, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


class Topology:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {"subtopologies": Subtopology}
    epoch: int
    subtopologies: tuple[Subtopology, ...]


class TaskIds:
    __slots__ = ()
    subtopology_id: str
    partitions: tuple[int, ...]


class StreamsGroupHeartbeatTaskIds:
    __slots__ = ()
    subtopology_id: str
    partitions: tuple[int, ...]


class StreamsGroupHeartbeatEndpoint:
    __slots__ = ()
    host: str
    port: int


class StreamsGroupHeartbeatKeyValue:
    __slots__ = ()
    key: str
    value: str


class TaskOffset:
    __slots__ = ()
    subtopology_id: str
    partition: int
    offset: int


class StreamsGroupHeartbeatTaskOffset:
    __slots__ = ()
    subtopology_id: str
    partition: int
    offset: int


class StreamsGroupHeartbeatRequest:
    __slots__ = ()
    nested: ClassVar[dict[str, type]] = {
        "topology": Topology,
        "active_tasks": TaskIds,
        "standby_tasks": StreamsGroupHeartbeatTaskIds,
        "warmup_tasks": StreamsGroupHeartbeatTaskIds,
        "user_endpoint": StreamsGroupHeartbeatEndpoint,
        "client_tags": StreamsGroupHeartbeatKeyValue,
        "task_offsets": TaskOffset,
        "task_end_offsets": StreamsGroupHeartbeatTaskOffset,
    }
    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout: timedelta | int
    topology: Topology | None
    active_tasks: tuple[TaskIds, ...] | None
    standby_tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] | None
    warmup_tasks: tuple[StreamsGroupHeartbeatTaskIds, ...] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatEndpoint | None
    client_tags: tuple[StreamsGroupHeartbeatKeyValue, ...] | None
    task_offsets: tuple[TaskOffset, ...] | None
    task_end_offsets: tuple[StreamsGroupHeartbeatTaskOffset, ...] | None
    shutdown_application: bool


class StreamsGroupDescribeRequest:
    __slots__ = ()
    group_ids: tuple[str, ...]
    include_authorized_operations: bool
    include_topology_description: bool = False


TYPES: Final[dict[int, type]] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: StreamsGroupHeartbeatRequest,
    ApiKey.STREAMS_GROUP_DESCRIBE: StreamsGroupDescribeRequest,
}
