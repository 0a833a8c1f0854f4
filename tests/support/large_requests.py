"""Requests of every API with as many elements as asked for: what costs too much shows at thousands of them.

Names are unknown to a broker and differ from each other unless a row says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import build_subscription
from odradek.wire.protocol.framing import SIZE_BYTES
from tests.support.large_share_requests import SHARE_ROWS, ids

Fields = dict[str, Any]


class LargeRequest:
    """One kind of request, and its fields for a number of elements."""

    def __init__(self, api: ApiKey, version: int, fields: Callable[[int], Fields]) -> None:
        self.api, self.version, self.fields = api, version, fields

    def frame(self, count: int, correlation_id: int = 7) -> bytes:
        """The whole frame, its size included."""
        message = messages.request(self.api, self.version, **self.fields(count))
        return codec.encode_request(self.api, self.version, correlation_id, "large", message)

    def body(self, count: int, correlation_id: int = 7) -> memoryview:
        """The frame as a dispatcher is given it, without its size."""
        return memoryview(bytearray(self.frame(count, correlation_id)))[SIZE_BYTES:]


def names(count: int) -> list[str]:
    return [f"n{number:07}" for number in range(count)]


def _topics(count: int, key: str = "name", /, **fields: Any) -> list[Fields]:
    return [{key: name, **fields} for name in names(count)]


def _group(**fields: Any) -> Fields:
    return {"group_id": "g", "member_id": None, "member_epoch": -1, **fields}


def _subtopology(name: str) -> Fields:
    return {**dict.fromkeys(_TOPICS_OF_TASKS, ()), "subtopology_id": name, "source_topics": [name]}


_QUOTA_OPS: Final = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
_TIMEOUT: Final = {"timeout": 1000}
_TOPICS_OF_TASKS: Final = (
    "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics",
    "copartition_groups",
)  # fmt: skip
_STREAMS_MEMBER: Final = {
    "group_id": "streams", "member_id": "m", "member_epoch": 0, "endpoint_information_epoch": 0, "process_id": "p",
    "rebalance_timeout": 60_000, "shutdown_application": False,
    **dict.fromkeys(("instance_id", "rack_id", "topology", "user_endpoint", "task_offsets", "task_end_offsets")),
    **dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks", "client_tags"), ()),
}  # fmt: skip
ROWS: Final[dict[str, LargeRequest]] = {
    "metadata": LargeRequest(
        ApiKey.METADATA,
        13,
        lambda count: {"topics": _topics(count, topic_id=None), "allow_auto_topic_creation": False},
    ),
    "metadata of ids": LargeRequest(
        ApiKey.METADATA,
        13,
        lambda count: {"topics": [{"name": None, "topic_id": one} for one in ids(count)]},
    ),
    "find coordinator": LargeRequest(
        ApiKey.FIND_COORDINATOR, 6, lambda count: {"key_type": 0, "coordinator_keys": names(count)}
    ),
    "offset fetch": LargeRequest(
        ApiKey.OFFSET_FETCH,
        9,
        lambda count: {"groups": [_group(topics=_topics(count, partition_indexes=[0]))]},
    ),
    "offset fetch of groups": LargeRequest(
        ApiKey.OFFSET_FETCH,
        9,
        lambda count: {"groups": [_group(topics=[]) | {"group_id": name} for name in names(count)]},
    ),
    # The last one names what all of them are answered with, if answers are found by their group.
    "offset fetch of one group many times": LargeRequest(
        ApiKey.OFFSET_FETCH,
        9,
        lambda count: {
            "groups": [
                *(_group(topics=[]) for _ in range(count // 2)),
                _group(topics=_topics(count // 2, partition_indexes=[0])),
            ]
        },
    ),
    "offset fetch of old clients": LargeRequest(
        ApiKey.OFFSET_FETCH,
        5,
        lambda count: {"group_id": "g", "topics": _topics(count, partition_indexes=[0])},
    ),
    "offset fetch of partitions": LargeRequest(
        ApiKey.OFFSET_FETCH,
        5,
        lambda count: {"group_id": "g", "topics": [{"name": "t", "partition_indexes": list(range(count))}]},
    ),
    "offset delete": LargeRequest(
        ApiKey.OFFSET_DELETE,
        0,
        lambda count: {"group_id": "g", "topics": _topics(count, partitions=[{"partition_index": 0}])},
    ),
    "list offsets": LargeRequest(
        ApiKey.LIST_OFFSETS,
        9,
        lambda count: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": _topics(count, partitions=[{"partition_index": 0, "timestamp": -1}]),
        },
    ),
    "list offsets of one partition": LargeRequest(
        ApiKey.LIST_OFFSETS,
        9,
        lambda count: {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}] * count}],
        },
    ),
    "offset commit": LargeRequest(
        ApiKey.OFFSET_COMMIT,
        9,
        lambda count: {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": _topics(count, partitions=[{"partition_index": 0, "committed_offset": 1}]),
        },
    ),
    "transactional offset commit": LargeRequest(
        ApiKey.TXN_OFFSET_COMMIT,
        4,
        lambda count: {
            "transactional_id": "t",
            "group_id": "g",
            "producer_id": 1,
            "producer_epoch": 0,
            "topics": _topics(count, partitions=[{"partition_index": 0, "committed_offset": 1}]),
        },
    ),
    "describe groups": LargeRequest(ApiKey.DESCRIBE_GROUPS, 5, lambda count: {"groups": names(count)}),
    "describe consumer groups": LargeRequest(
        ApiKey.CONSUMER_GROUP_DESCRIBE, 0, lambda count: {"group_ids": names(count)}
    ),
    "list groups": LargeRequest(
        ApiKey.LIST_GROUPS, 5, lambda count: {"states_filter": names(count), "types_filter": names(count)}
    ),
    "delete groups": LargeRequest(ApiKey.DELETE_GROUPS, 2, lambda count: {"groups_names": names(count)}),
    "leave group": LargeRequest(
        ApiKey.LEAVE_GROUP, 5, lambda count: {"group_id": "g", "members": _topics(count, "member_id")}
    ),
    "join group": LargeRequest(
        ApiKey.JOIN_GROUP,
        9,
        lambda count: {
            "group_id": "joined",
            "session_timeout": 10_000,
            "rebalance_timeout": 1000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": _topics(count, metadata=b""),
        },
    ),
    "join group of many topics": LargeRequest(
        ApiKey.JOIN_GROUP,
        3,
        lambda count: {
            "group_id": "subscribed",
            "session_timeout": 10_000,
            "rebalance_timeout": 1000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": build_subscription(names(count))}],
        },
    ),
    "sync group": LargeRequest(
        ApiKey.SYNC_GROUP,
        5,
        lambda count: {
            "group_id": "g",
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": _topics(count, "member_id", assignment=b""),
        },
    ),
    "consumer group heartbeat": LargeRequest(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda count: {
            "group_id": "kip848",
            "member_id": "m",
            "member_epoch": 0,
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": names(count),
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [],
        },
    ),
    "consumer group heartbeat of an owner": LargeRequest(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        lambda count: {
            "group_id": "kip848",
            "member_id": "m",
            "member_epoch": 1,
            "rebalance_timeout": 60_000,
            "subscribed_topic_names": None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [{"topic_id": one, "partitions": [0]} for one in ids(count)],
        },
    ),
    "describe streams groups": LargeRequest(
        ApiKey.STREAMS_GROUP_DESCRIBE, 0, lambda count: {"group_ids": names(count)}
    ),
    "streams group heartbeat": LargeRequest(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        lambda count: {
            **_STREAMS_MEMBER,
            "topology": {"epoch": 1, "subtopologies": [_subtopology(name) for name in names(count)]},
        },
    ),
    "streams group heartbeat of an owner": LargeRequest(
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        0,
        lambda count: {
            **_STREAMS_MEMBER,
            "member_epoch": 1,
            "active_tasks": [{"subtopology_id": name, "partitions": [0]} for name in names(count)],
        },
    ),
    "describe configs": LargeRequest(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda count: {
            "resources": _topics(count, "resource_name", resource_type=2, configuration_keys=None)
        },
    ),
    "describe configs of one topic": LargeRequest(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        lambda count: {
            "resources": [{"resource_type": 2, "resource_name": "known", "configuration_keys": names(count)}]
        },
    ),
    "alter configs": LargeRequest(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda count: {
            "validate_only": False,
            "resources": _topics(
                count,
                "resource_name",
                resource_type=2,
                configs=[{"name": "retention.ms", "config_operation": 0, "value": "1"}],
            ),
        },
    ),
    "alter configs of groups": LargeRequest(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda count: {
            "validate_only": False,
            "resources": _topics(
                count,
                "resource_name",
                resource_type=32,
                configs=[{"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000"}],
            ),
        },
    ),
    "append to a list": LargeRequest(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        lambda count: {
            "validate_only": True,
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": "known",
                    "configs": [
                        {
                            "name": "leader.replication.throttled.replicas",
                            "config_operation": 2,
                            "value": ",".join(f"{number}:1" for number in range(min(count, 3000))),
                        }
                    ],
                }
            ],
        },
    ),
    "alter client quotas": LargeRequest(
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        lambda count: {
            "validate_only": False,
            "entries": [
                {"entity": [{"entity_type": "user", "entity_name": name}], "ops": _QUOTA_OPS}
                for name in names(count)
            ],
        },
    ),
    "describe scram": LargeRequest(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, lambda count: {"users": _topics(count)}
    ),
    "alter scram": LargeRequest(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        lambda count: {"deletions": _topics(count, mechanism=1), "upsertions": []},
    ),
    "create topics": LargeRequest(
        ApiKey.CREATE_TOPICS,
        7,
        lambda count: {
            "validate_only": True,
            "topics": _topics(count, num_partitions=1, replication_factor=1),
        },
    ),
    "create partitions": LargeRequest(
        ApiKey.CREATE_PARTITIONS,
        3,
        lambda count: {
            "topics": _topics(count, count=2, assignments=None),
            "validate_only": True,
            **_TIMEOUT,
        },
    ),
    "delete topics": LargeRequest(
        ApiKey.DELETE_TOPICS, 6, lambda count: {"topics": _topics(count, topic_id=None)}
    ),
    "delete records": LargeRequest(
        ApiKey.DELETE_RECORDS,
        2,
        lambda count: {
            "topics": _topics(count, partitions=[{"partition_index": 0, "offset": 0}]),
            **_TIMEOUT,
        },
    ),
    "create acls": LargeRequest(
        ApiKey.CREATE_ACLS,
        3,
        lambda count: {
            "creations": _topics(
                min(count, 10_000),
                "resource_name",
                resource_type=2,
                resource_pattern_type=3,
                principal="User:a",
                host="*",
                operation=3,
                permission_type=3,
            )
        },
    ),
    "delete acls": LargeRequest(
        ApiKey.DELETE_ACLS,
        3,
        lambda count: {
            "filters": _topics(
                count,
                "resource_name_filter",
                resource_type_filter=1,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            )
        },
    ),
    "elect leaders": LargeRequest(
        ApiKey.ELECT_LEADERS,
        2,
        lambda count: {
            "election_type": 0,
            "topic_partitions": _topics(count, "topic", partitions=[0]),
            **_TIMEOUT,
        },
    ),
    "alter reassignments": LargeRequest(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        lambda count: {
            "topics": _topics(count, partitions=[{"partition_index": 0, "replicas": [1]}]),
            **_TIMEOUT,
        },
    ),
    "list reassignments": LargeRequest(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        lambda count: {"topics": _topics(count, partition_indexes=[0]), **_TIMEOUT},
    ),
    "describe topic partitions": LargeRequest(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        lambda count: {"topics": _topics(count), "response_partition_limit": 2000, "cursor": None},
    ),
    "describe producers": LargeRequest(
        ApiKey.DESCRIBE_PRODUCERS, 0, lambda count: {"topics": _topics(count, partition_indexes=[0])}
    ),
    "describe transactions": LargeRequest(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, lambda count: {"transactional_ids": names(count)}
    ),
    "list transactions": LargeRequest(
        ApiKey.LIST_TRANSACTIONS,
        1,
        lambda count: {"state_filters": names(count), "producer_id_filters": [], "duration_filter": -1},
    ),
    "list transactions of producers": LargeRequest(
        ApiKey.LIST_TRANSACTIONS,
        1,
        lambda count: {"state_filters": [], "producer_id_filters": range(count), "duration_filter": -1},
    ),
    "add partitions to transaction": LargeRequest(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        lambda count: {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": _topics(count, partitions=[0]),
        },
    ),
    "write transaction markers": LargeRequest(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        lambda count: {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": _topics(count, partition_indexes=[0]),
                }
            ]
        },
    ),
    "leader epochs": LargeRequest(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        lambda count: {
            "replica_id": -1,
            "topics": _topics(
                count, "topic", partitions=[{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}]
            ),
        },
    ),
    "alter log dirs": LargeRequest(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        lambda count: {"dirs": [{"path": "", "topics": _topics(count, partitions=[0])}]},
    ),
    "describe log dirs": LargeRequest(
        ApiKey.DESCRIBE_LOG_DIRS, 4, lambda count: {"topics": _topics(count, "topic", partitions=[0])}
    ),
    "fetch": LargeRequest(
        ApiKey.FETCH,
        12,
        lambda count: {
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "topics": _topics(
                count, "topic", partitions=[{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
            ),
        },
    ),
    "produce": LargeRequest(
        ApiKey.PRODUCE,
        9,
        lambda count: {
            "acks": 1,
            "topic_data": _topics(count, partition_data=[{"index": 0, "records": None}]),
            **_TIMEOUT,
        },
    ),
    **{name: LargeRequest(*row) for name, row in SHARE_ROWS.items()},
}
