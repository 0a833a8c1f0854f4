"""Requests about topics and the cluster, with the rights that they need."""

from __future__ import annotations

from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.api import ApiKey
from tests.support.rights import (
    ALTER,
    CLUSTER,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOKEN,
    NO_TOPIC,
    READ,
    TOPIC,
    Row,
    acl,
)

ROWS: list[Row] = [
    (
        ApiKey.LIST_OFFSETS,
        7,
        {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": "seen", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        {NO_TOPIC},
        [acl(DESCRIBE, TOPIC, "seen")],
    ),
    (ApiKey.METADATA, 12, {"topics": [{"name": "seen"}]}, {NO_TOPIC}, [acl(READ, TOPIC, "seen")]),
    (
        ApiKey.CREATE_TOPICS,
        7,
        {
            "topics": [
                {
                    "name": "new",
                    "num_partitions": 1,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            "timeout": 1000,
            "validate_only": False,
        },
        {NO_TOPIC},
        [acl(CREATE, TOPIC, "new"), acl(AclOperation.DESCRIBE_CONFIGS, TOPIC, "new")],
    ),
    (
        ApiKey.DELETE_TOPICS,
        5,
        {"topic_names": ["seen"], "timeout": 1000},
        {NO_TOPIC},
        [acl(DELETE, TOPIC, "seen")],
    ),
    (
        ApiKey.DELETE_TOPICS,
        6,
        {"topics": [{"name": "seen", "topic_id": None}], "timeout": 1000},
        {NO_TOPIC},
        [acl(DELETE, CLUSTER)],
    ),
    (
        ApiKey.DELETE_RECORDS,
        2,
        {"topics": [{"name": "seen", "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 1000},
        {NO_TOPIC},
        [acl(DELETE, TOPIC, "seen")],
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        {
            "replica_id": -1,
            "topics": [
                {
                    "topic": "seen",
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
                }
            ],
        },
        {NO_TOPIC},
        [acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.DESCRIBE_ACLS,
        2,
        {
            "resource_type_filter": 1,
            "resource_name_filter": None,
            "pattern_type_filter": 1,
            "principal_filter": None,
            "host_filter": None,
            "operation": 1,
            "permission_type": 1,
        },
        {NO_CLUSTER},
        [acl(DESCRIBE, CLUSTER)],
    ),
    (
        ApiKey.CREATE_ACLS,
        2,
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "other",
                    "resource_pattern_type": 3,
                    "principal": "User:bob",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (
        ApiKey.DELETE_ACLS,
        2,
        {
            "filters": [
                {
                    "resource_type_filter": 2,
                    "resource_name_filter": "other",
                    "pattern_type_filter": 3,
                    "principal_filter": None,
                    "host_filter": None,
                    "operation": 1,
                    "permission_type": 1,
                }
            ]
        },
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 2, "resource_name": "seen", "configuration_keys": None}],
            "include_synonyms": False,
        },
        {NO_TOPIC},
        [acl(AclOperation.ALTER_CONFIGS, TOPIC, "seen")],
    ),
    (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}],
            "include_synonyms": False,
        },
        {NO_CLUSTER},
        [acl(AclOperation.DESCRIBE_CONFIGS, CLUSTER)],
    ),
    (
        ApiKey.ALTER_CONFIGS,
        2,
        {"resources": [{"resource_type": 2, "resource_name": "seen", "configs": []}], "validate_only": False},
        {NO_TOPIC},
        [acl(AclOperation.ALTER_CONFIGS, TOPIC, "seen")],
    ),
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {"resources": [{"resource_type": 32, "resource_name": "g", "configs": []}], "validate_only": False},
        {NO_GROUP},
        [acl(AclOperation.ALTER_CONFIGS, GROUP, "g")],
    ),
    (
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        {"dirs": [{"path": "/logs", "topics": [{"name": "seen", "partitions": [0]}]}]},
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (ApiKey.DESCRIBE_LOG_DIRS, 3, {"topics": None}, {NO_CLUSTER}, [acl(DESCRIBE, CLUSTER)]),
    (
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": "seen", "count": 2, "assignments": None}],
            "timeout": 1000,
            "validate_only": True,
        },
        {NO_TOPIC},
        [acl(ALTER, TOPIC, "seen")],
    ),
    (
        ApiKey.ELECT_LEADERS,
        2,
        {"topic_partitions": [{"topic": "seen", "partitions": [0]}], "timeout": 1000},
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        {
            "timeout": 1000,
            "topics": [{"name": "seen", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
        },
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        {"timeout": 1000, "topics": None},
        {NO_CLUSTER},
        [acl(DESCRIBE, CLUSTER)],
    ),
    (
        ApiKey.UPDATE_FEATURES,
        1,
        {"timeout": 1000, "feature_updates": [], "validate_only": True},
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (ApiKey.UNREGISTER_BROKER, 0, {"broker_id": 99}, {NO_CLUSTER}, [acl(ALTER, CLUSTER)]),
    (
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": "seen", "partition_indexes": [0]}]},
        {NO_TOPIC},
        [acl(READ, TOPIC, "seen")],
    ),
    (
        ApiKey.LIST_CONFIG_RESOURCES,
        1,
        {"resource_types": []},
        {NO_CLUSTER},
        [acl(AclOperation.DESCRIBE_CONFIGS, CLUSTER)],
    ),
    (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [{"name": "seen"}], "response_partition_limit": 100, "cursor": None},
        {NO_TOPIC},
        [acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        {"components": [], "strict": False},
        {NO_CLUSTER},
        [acl(AclOperation.DESCRIBE_CONFIGS, CLUSTER)],
    ),
    (
        ApiKey.ALTER_CLIENT_QUOTAS,
        1,
        {
            "entries": [
                {
                    "entity": [{"entity_type": "user", "entity_name": "u"}],
                    "ops": [{"key": "producer_byte_rate", "value": 1e6, "remove": False}],
                }
            ],
            "validate_only": True,
        },
        {NO_CLUSTER},
        [acl(AclOperation.ALTER_CONFIGS, CLUSTER)],
    ),
    (
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        # With null, Apache Kafka 4.1.1 fails to make its refusal, and never answers.
        {"users": []},
        {NO_CLUSTER},
        [acl(DESCRIBE, CLUSTER)],
    ),
    (
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        {"deletions": [{"name": "u", "mechanism": 1}], "upsertions": []},
        {NO_CLUSTER},
        [acl(ALTER, CLUSTER)],
    ),
    (
        ApiKey.CREATE_DELEGATION_TOKEN,
        3,
        {"owner_principal_type": "User", "owner_principal_name": "bob", "renewers": [], "max_lifetime": -1},
        {NO_TOKEN},
        [acl(AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob")],
    ),
]
