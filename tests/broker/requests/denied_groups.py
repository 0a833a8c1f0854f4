"""Requests about groups and transactions, with the rights that they need."""

from __future__ import annotations

from odradek.security.authorization.acls import AclOperation
from odradek.wire.protocol.api import ApiKey
from tests.support.rights import (
    CLUSTER,
    DELETE,
    DESCRIBE,
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    NO_TRANSACTION,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    Row,
    acl,
)

ROWS: list[Row] = [
    (
        ApiKey.OFFSET_COMMIT,
        8,
        {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [
                {
                    "name": "seen",
                    "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
                }
            ],
        },
        {NO_GROUP},
        [acl(READ, GROUP, "g"), acl(READ, TOPIC, "seen")],
    ),
    (
        ApiKey.OFFSET_FETCH,
        8,
        {
            "groups": [{"group_id": "g", "topics": [{"name": "seen", "partition_indexes": [0]}]}],
            "require_stable": False,
        },
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.OFFSET_FETCH,
        7,
        {"group_id": "g", "topics": [{"name": "seen", "partition_indexes": [0]}], "require_stable": False},
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.FIND_COORDINATOR,
        4,
        {"key_type": 0, "coordinator_keys": ["g"]},
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g")],
    ),
    (ApiKey.FIND_COORDINATOR, 3, {"key_type": 0, "key": "g"}, {NO_GROUP}, [acl(DESCRIBE, GROUP, "g")]),
    (
        ApiKey.FIND_COORDINATOR,
        4,
        {"key_type": 1, "coordinator_keys": ["t"]},
        {NO_TRANSACTION},
        [acl(DESCRIBE, TRANSACTIONAL_ID, "t")],
    ),
    (
        ApiKey.JOIN_GROUP,
        5,
        {
            "group_id": "g",
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        {NO_GROUP},
        [acl(READ, GROUP, "g")],
    ),
    (
        ApiKey.HEARTBEAT,
        3,
        {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None},
        {NO_GROUP},
        [acl(READ, GROUP, "g")],
    ),
    (
        ApiKey.LEAVE_GROUP,
        3,
        {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": None}]},
        {NO_GROUP},
        [acl(READ, GROUP, "g")],
    ),
    (
        ApiKey.SYNC_GROUP,
        3,
        {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None, "assignments": []},
        {NO_GROUP},
        [acl(READ, GROUP, "g")],
    ),
    (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]}, {NO_GROUP}, [acl(DESCRIBE, GROUP, "g")]),
    (
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": None, "transaction_timeout": 1000},
        {NO_CLUSTER},
        [acl(WRITE, TOPIC, "seen")],
    ),
    (
        ApiKey.INIT_PRODUCER_ID,
        3,
        {"transactional_id": None, "transaction_timeout": 1000},
        {NO_CLUSTER},
        [acl(AclOperation.IDEMPOTENT_WRITE, CLUSTER)],
    ),
    (
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": "t", "transaction_timeout": 1000},
        {NO_TRANSACTION},
        [acl(WRITE, TRANSACTIONAL_ID, "t")],
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        {
            "v3_and_below_transactional_id": "t",
            "v3_and_below_producer_id": 1,
            "v3_and_below_producer_epoch": 0,
            "v3_and_below_topics": [{"name": "seen", "partitions": [0]}],
        },
        {NO_TRANSACTION},
        [acl(WRITE, TRANSACTIONAL_ID, "t"), acl(WRITE, TOPIC, "seen")],
    ),
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        4,
        {
            "transactions": [
                {
                    "transactional_id": "t",
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "verify_only": True,
                    "topics": [{"name": "seen", "partitions": [0]}],
                }
            ]
        },
        {NO_CLUSTER},
        [acl(AclOperation.CLUSTER_ACTION, CLUSTER)],
    ),
    (
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "group_id": "g"},
        {NO_TRANSACTION},
        [acl(WRITE, TRANSACTIONAL_ID, "t"), acl(READ, GROUP, "g")],
    ),
    (
        ApiKey.END_TXN,
        3,
        {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0, "committed": True},
        {NO_TRANSACTION},
        [acl(WRITE, TRANSACTIONAL_ID, "t")],
    ),
    (
        ApiKey.WRITE_TXN_MARKERS,
        1,
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": [{"name": "seen", "partition_indexes": [0]}],
                }
            ]
        },
        {NO_CLUSTER},
        [acl(AclOperation.CLUSTER_ACTION, CLUSTER)],
    ),
    (
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        {
            "transactional_id": "t",
            "group_id": "g",
            "producer_id": 1,
            "producer_epoch": 0,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [
                {
                    "name": "seen",
                    "partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}],
                }
            ],
        },
        {NO_TRANSACTION},
        [acl(WRITE, TRANSACTIONAL_ID, "t"), acl(READ, GROUP, "g"), acl(READ, TOPIC, "seen")],
    ),
    (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}, {NO_GROUP}, [acl(DELETE, GROUP, "g")]),
    (
        ApiKey.OFFSET_DELETE,
        0,
        {"group_id": "g", "topics": [{"name": "seen", "partitions": [{"partition_index": 0}]}]},
        {NO_GROUP},
        [acl(DELETE, GROUP, "g"), acl(READ, TOPIC, "seen")],
    ),
    (
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": ["t"]},
        {NO_TRANSACTION},
        [acl(DESCRIBE, TRANSACTIONAL_ID, "t")],
    ),
    (
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        {
            "group_id": "g",
            "member_id": "",
            "member_epoch": 0,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": ["seen"],
            "server_assignor": None,
            "topic_partitions": [],
        },
        {NO_GROUP},
        [acl(READ, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        0,
        {"group_ids": ["g"], "include_authorized_operations": False},
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g")],
    ),
    (
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        1,
        {
            "group_id": "g",
            "member_id": "m",
            "member_epoch": 0,
            "endpoint_information_epoch": -1,
            "rebalance_timeout": 10_000,
            "topology": {
                "epoch": 0,
                "subtopologies": [
                    {
                        "subtopology_id": "0",
                        "source_topics": ["seen"],
                        "state_changelog_topics": [],
                        "repartition_source_topics": [],
                        "copartition_groups": [],
                    }
                ],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "p",
            "client_tags": [],
            "task_offsets": None,
            "task_end_offsets": None,
        },
        {NO_GROUP},
        [acl(READ, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.STREAMS_GROUP_DESCRIBE,
        1,
        {
            "group_ids": ["g"],
            "include_authorized_operations": False,
            "include_topology_description": False,
        },
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g")],
    ),
]
