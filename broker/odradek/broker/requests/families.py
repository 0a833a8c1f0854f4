"""Which family of requests each API belongs to: its handler gets the parts of that family, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestParts

# The field of `BrokerParts`, or of `ControllerParts`, for each API; `shared` for an API that is not named.
FAMILIES: Final[dict[int, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    **dict.fromkeys(
        (
            ApiKey.LIST_OFFSETS,
            ApiKey.DELETE_RECORDS,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.DESCRIBE_PRODUCERS,
        ),
        "partitions",
    ),
    **dict.fromkeys((ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS), "metadata"),
    **dict.fromkeys(
        (
            ApiKey.OFFSET_COMMIT,
            ApiKey.OFFSET_FETCH,
            ApiKey.OFFSET_DELETE,
            ApiKey.JOIN_GROUP,
            ApiKey.HEARTBEAT,
            ApiKey.LEAVE_GROUP,
            ApiKey.SYNC_GROUP,
            ApiKey.DESCRIBE_GROUPS,
            ApiKey.LIST_GROUPS,
            ApiKey.DELETE_GROUPS,
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            ApiKey.STREAMS_GROUP_DESCRIBE,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            ApiKey.SHARE_GROUP_DESCRIBE,
        ),
        "groups",
    ),
    ApiKey.FIND_COORDINATOR: "coordinators",
    **dict.fromkeys(
        (
            ApiKey.INIT_PRODUCER_ID,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            ApiKey.ADD_OFFSETS_TO_TXN,
            ApiKey.END_TXN,
            ApiKey.TXN_OFFSET_COMMIT,
            ApiKey.DESCRIBE_TRANSACTIONS,
            ApiKey.LIST_TRANSACTIONS,
        ),
        "transactions",
    ),
    ApiKey.WRITE_TXN_MARKERS: "markers",
    **dict.fromkeys((ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE), "shares"),
    **dict.fromkeys(
        (
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ),
        "share_groups",
    ),
    **dict.fromkeys(
        (
            ApiKey.INITIALIZE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE,
            ApiKey.WRITE_SHARE_GROUP_STATE,
            ApiKey.DELETE_SHARE_GROUP_STATE,
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ),
        "share_states",
    ),
    **dict.fromkeys((ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS), "configs"),
    **dict.fromkeys(
        (
            ApiKey.CREATE_TOPICS,
            ApiKey.DELETE_TOPICS,
            ApiKey.CREATE_PARTITIONS,
            ApiKey.ALTER_CONFIGS,
            ApiKey.UPDATE_FEATURES,
            ApiKey.ALTER_CLIENT_QUOTAS,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.ALLOCATE_PRODUCER_IDS,
        ),
        "admin",
    ),
    **dict.fromkeys(
        (
            ApiKey.ELECT_LEADERS,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ApiKey.ALTER_PARTITION,
            ApiKey.UNREGISTER_BROKER,
        ),
        "replicas",
    ),
    **dict.fromkeys(
        (
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.RENEW_DELEGATION_TOKEN,
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ),
        "tokens",
    ),
    **dict.fromkeys((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY), "telemetry"),
}


class AllParts(Protocol):
    """The families that one dispatcher serves."""

    @property
    def shared(self) -> RequestParts: ...


def parts_for(parts: AllParts, api_key: int) -> RequestParts:
    """What the handler of an API may use: the shared parts where `parts` has no family of its own for it."""
    family: RequestParts | None = getattr(parts, FAMILIES.get(api_key, "shared"), None)
    return parts.shared if family is None else family
