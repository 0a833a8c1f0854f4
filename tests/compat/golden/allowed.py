"""Differences from Apache Kafka 4.1.1 that are meant, by story and path, each with its reason.

A path may hold `*` for any characters. Every row must still be needed: one that matches no difference fails.
"""

from __future__ import annotations

from typing import Final

from odradek.protocol.api import ApiKey

# What this broker does not have, and so does not offer in ApiVersions. Clients that need none of it go without.
_APIS_LEFT_OUT: Final[dict[str, tuple[ApiKey, ...]]] = {
    "transactions are not there yet": (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    ),
    "clients are not authenticated yet": (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ),
    "there is no authoriser yet": (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS),
    "there are no quotas yet": (ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS),
    "a replica stays in the directory where it was made": (ApiKey.ALTER_REPLICA_LOG_DIRS,),
    "the cluster's state is not kept by KRaft": (
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    ),
    "share groups are a preview in Kafka 4.1, off unless asked for": (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.SHARE_FETCH,
        ApiKey.SHARE_ACKNOWLEDGE,
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ),
}

_PART: Final = "responses/0/partition_responses/0"

ALLOWED: Final[dict[str, dict[str, str]]] = {
    "versions": {
        f"ranges by version */{int(api)}": reason for reason, apis in _APIS_LEFT_OUT.items() for api in apis
    },
    "produce": {
        f"unknown compression 5/{_PART}/error_code": (
            "Kafka fails on it unexpectedly; UNSUPPORTED_COMPRESSION_TYPE says what is wrong and is not retried either"
        ),
        f"said to be gzip and is not/{_PART}/*": (
            "batches are stored as they came and not decompressed on the way (see records.validation); a reader of the"
            " topic that its producer may write to sees the damage"
        ),
        f"transactional without transaction/{_PART}/error_code": (
            "there are no transactions; NOT_ENOUGH_REPLICAS would make the client try again until its time is up"
        ),
    },
    "reassignment": {
        "nothing/error_message": "Kafka says an empty text where nothing was asked for; null says that nothing failed",
    },
    "configs": {
        "an unknown group: configs/odradek.fenced.until": "our own: Kafka has no way to keep members out of a group",
        "operation 9/responses/0/error_code": (
            "Kafka fails on it unexpectedly; INVALID_REQUEST says what is wrong"
        ),
    },
}
