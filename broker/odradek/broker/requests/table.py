"""Which module serves which API, in which versions. ApiVersions is read from this table.

The ranges are Apache Kafka 4.4's for clients. A module is imported at its first request: the start of the broker
loads only what ApiVersions needs. As in Kafka 4, Produce is advertised from version 0 although versions below 3 are
refused: librdkafka before 2.11 would otherwise turn compression off.

Each module has `handle(request, context)`, which gives a `loading.Answer` or is a coroutine function. The request is
decoded, save for modules that take the frame and read its body themselves.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.api import ApiKey


class Handler(NamedTuple):
    """The versions served, lowest and highest, and the module's name below `odradek.broker.requests`.

    With `takes_frame` the handler reads the request from its frame, and answers errors itself.
    """

    version_min: int
    version_max: int
    module: str
    takes_frame: bool = False


HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.PRODUCE: Handler(3, 13, "produce.handler", takes_frame=True),
    ApiKey.FETCH: Handler(4, 18, "fetch.handler", takes_frame=True),
    ApiKey.LIST_OFFSETS: Handler(1, 11, "list_offsets"),
    ApiKey.METADATA: Handler(0, 13, "metadata"),
    ApiKey.OFFSET_COMMIT: Handler(2, 10, "offset_commit"),
    ApiKey.OFFSET_FETCH: Handler(1, 10, "offset_fetch"),
    ApiKey.FIND_COORDINATOR: Handler(0, 6, "find_coordinator"),
    ApiKey.JOIN_GROUP: Handler(0, 9, "join_group"),
    ApiKey.HEARTBEAT: Handler(0, 4, "heartbeat"),
    ApiKey.LEAVE_GROUP: Handler(0, 5, "leave_group"),
    ApiKey.SYNC_GROUP: Handler(0, 5, "sync_group"),
    ApiKey.DESCRIBE_GROUPS: Handler(0, 6, "describe_groups"),
    ApiKey.LIST_GROUPS: Handler(0, 5, "list_groups"),
    ApiKey.SASL_HANDSHAKE: Handler(0, 1, "sasl_handshake"),
    ApiKey.API_VERSIONS: Handler(0, 5, "api_versions"),
    ApiKey.CREATE_TOPICS: Handler(2, 7, "create_topics"),
    ApiKey.DELETE_TOPICS: Handler(1, 6, "delete_topics"),
    ApiKey.DELETE_RECORDS: Handler(0, 2, "delete_records"),
    ApiKey.INIT_PRODUCER_ID: Handler(0, 5, "init_producer_id"),
    ApiKey.ADD_PARTITIONS_TO_TXN: Handler(0, 5, "add_partitions_to_txn"),
    ApiKey.ADD_OFFSETS_TO_TXN: Handler(0, 4, "add_offsets_to_txn"),
    ApiKey.END_TXN: Handler(0, 5, "end_txn"),
    ApiKey.WRITE_TXN_MARKERS: Handler(1, 2, "write_txn_markers"),
    ApiKey.TXN_OFFSET_COMMIT: Handler(0, 6, "txn_offset_commit"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Handler(2, 4, "offset_for_leader_epoch"),
    ApiKey.DESCRIBE_ACLS: Handler(1, 3, "describe_acls"),
    ApiKey.CREATE_ACLS: Handler(1, 3, "create_acls"),
    ApiKey.DELETE_ACLS: Handler(1, 3, "delete_acls"),
    ApiKey.DESCRIBE_CONFIGS: Handler(1, 4, "describe_configs"),
    ApiKey.ALTER_CONFIGS: Handler(0, 2, "alter_configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Handler(1, 2, "alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: Handler(1, 5, "describe_log_dirs"),
    ApiKey.CREATE_PARTITIONS: Handler(0, 3, "create_partitions"),
    ApiKey.SASL_AUTHENTICATE: Handler(0, 2, "sasl_authenticate"),
    ApiKey.CREATE_DELEGATION_TOKEN: Handler(1, 3, "create_delegation_token"),
    ApiKey.RENEW_DELEGATION_TOKEN: Handler(1, 2, "renew_delegation_token"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Handler(1, 2, "expire_delegation_token"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Handler(1, 3, "describe_delegation_token"),
    ApiKey.DELETE_GROUPS: Handler(0, 3, "delete_groups"),
    ApiKey.ELECT_LEADERS: Handler(0, 2, "elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Handler(0, 1, "incremental_alter_configs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Handler(0, 1, "alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Handler(0, 0, "list_partition_reassignments"),
    ApiKey.OFFSET_DELETE: Handler(0, 0, "offset_delete"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Handler(0, 0, "describe_user_scram_credentials"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Handler(0, 0, "alter_user_scram_credentials"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: Handler(0, 1, "describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: Handler(0, 1, "alter_client_quotas"),
    ApiKey.UPDATE_FEATURES: Handler(0, 2, "update_features"),
    ApiKey.DESCRIBE_CLUSTER: Handler(0, 2, "describe_cluster"),
    ApiKey.DESCRIBE_PRODUCERS: Handler(0, 0, "describe_producers"),
    ApiKey.DESCRIBE_TRANSACTIONS: Handler(0, 0, "describe_transactions"),
    ApiKey.LIST_TRANSACTIONS: Handler(0, 2, "list_transactions"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Handler(0, 1, "consumer_group_heartbeat"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Handler(0, 1, "consumer_group_describe"),
    ApiKey.UNREGISTER_BROKER: Handler(0, 0, "unregister_broker"),
    ApiKey.LIST_CONFIG_RESOURCES: Handler(0, 1, "list_config_resources"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Handler(0, 0, "describe_topic_partitions"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: Handler(0, 1, "streams_group_heartbeat"),
    ApiKey.STREAMS_GROUP_DESCRIBE: Handler(0, 1, "streams_group_describe"),
    ApiKey.SHARE_GROUP_HEARTBEAT: Handler(1, 1, "shares.group_heartbeat"),
    ApiKey.SHARE_GROUP_DESCRIBE: Handler(1, 1, "shares.group_describe"),
    ApiKey.SHARE_FETCH: Handler(1, 2, "shares.share_fetch"),
    ApiKey.SHARE_ACKNOWLEDGE: Handler(1, 2, "shares.share_acknowledge"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: Handler(0, 0, "shares.initialize_state"),
    ApiKey.READ_SHARE_GROUP_STATE: Handler(0, 0, "shares.read_state"),
    ApiKey.WRITE_SHARE_GROUP_STATE: Handler(0, 1, "shares.write_state"),
    ApiKey.DELETE_SHARE_GROUP_STATE: Handler(0, 0, "shares.delete_state"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: Handler(0, 1, "shares.read_state_summary"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Handler(0, 1, "shares.describe_offsets"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: Handler(0, 0, "shares.alter_offsets"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: Handler(0, 0, "shares.delete_offsets"),
}

# What a broker serves besides with client.telemetry.enable. As Kafka without a receiver, others do not list it.
TELEMETRY_HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Handler(0, 0, "get_telemetry_subscriptions"),
    ApiKey.PUSH_TELEMETRY: Handler(0, 0, "push_telemetry"),
}

# What a cluster's broker forwards to the controller: requests that only it may decide.
FORWARDED: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    )
)

# What a controller serves on its own listener: the requests that brokers forward, and the brokers' own.
CONTROLLER_HANDLERS: Final[dict[int, Handler]] = {
    ApiKey.API_VERSIONS: HANDLERS[ApiKey.API_VERSIONS],
    **{api: HANDLERS[api] for api in FORWARDED},
    ApiKey.ALTER_PARTITION: Handler(2, 3, "alter_partition"),
    ApiKey.ALLOCATE_PRODUCER_IDS: Handler(0, 0, "allocate_producer_ids"),
}

# The lowest version that ApiVersions names, where that is not the lowest that is served.
ADVERTISED_VERSION_MIN: Final[dict[int, int]] = {ApiKey.PRODUCE: 0}
