"""The rights that each API needs: one row for each API of the broker and of the controller.

The rows are Kafka's (`KafkaApis`, `ControllerApis`). A test compares them with the tables of handlers, and the
dispatcher's step refuses an API without a row. Rows for APIs that have no handler yet do no harm.

A check that is more than one right is a function. Those of the cluster's APIs and of delegation tokens are here. A
client's own tokens need no right (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Never

from odradek.broker.requests.context import AnyContext, RequestContext
from odradek.broker.requests.delegation_tokens import check_requester
from odradek.broker.requests.describe_delegation_token import describe_visible
from odradek.broker.requests.loading import Answer, Handle
from odradek.broker.requests.offset_commit import FIRST_WITH_TOPIC_IDS as OFFSET_COMMIT_BY_ID
from odradek.broker.requests.parts import TokenParts
from odradek.broker.requests.rights import (
    groups,
    records,
    share_groups,
    streams,
    topics,
    transactions,
)
from odradek.broker.requests.rights.rights import Rights
from odradek.broker.requests.rights.rules import (
    Check,
    each,
    nothing,
    on_cluster,
    on_element,
    on_topic,
    on_topic_or_id,
    reads_group,
    whole,
    writes_transaction,
)
from odradek.broker.requests.table import FORWARDED
from odradek.broker.requests.txn_offset_commit import FIRST_WITH_TOPIC_IDS as TXN_OFFSET_COMMIT_BY_ID
from odradek.foundation.errors import RequestError
from odradek.foundation.security_errors import DelegationTokenAuthorizationFailed
from odradek.security.authentication.delegation_tokens import DelegationToken
from odradek.security.authorization.acls import AclOperation, AclResourceType
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.errors import error_code

if TYPE_CHECKING:
    from odradek.wire.protocol.requests.clients import (
        CreateDelegationTokenRequest,
        DescribeDelegationTokenRequest,
    )
    from odradek.wire.protocol.requests.cluster import (
        DescribeLogDirsRequest,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderTopic,
    )

_READ, _DELETE = AclOperation.READ, AclOperation.DELETE
_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
_GROUP = AclResourceType.GROUP

_BROKERS_ONLY: Final = whole(on_cluster(AclOperation.CLUSTER_ACTION))
_ALTERS_CLUSTER: Final = whole(on_cluster(_ALTER))
_DESCRIBES_CLUSTER: Final = whole(on_cluster(_DESCRIBE))
_NO_OFFSET: Final = -1


def describe_log_dirs(
    handle: Handle, request: DescribeLogDirsRequest, context: AnyContext, rights: Rights
) -> Answer:
    """Describe on the cluster. Versions below 3 have no error, and answer no directory."""
    error = rights.refusal(AclOperation.DESCRIBE, AclResourceType.CLUSTER)
    if error is None:
        return handle(request, context)
    return context.response(error_code=error_code(error), results=[])


def leader_epochs(
    request: OffsetForLeaderEpochRequest, topic: OffsetForLeaderTopic, rights: Rights
) -> RequestError | None:
    """OffsetForLeaderEpoch: ClusterAction on the cluster, else Describe of each topic."""
    if rights.may_instead(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
        return None
    return rights.refusal(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.topic)


def create_token(
    handle: Handle, request: CreateDelegationTokenRequest, context: AnyContext, rights: Rights
) -> Answer:
    """CreateTokens on the user that a token is for, unless it is the client itself.

    As in Kafka, a client that may have no tokens learns that first.
    """
    if context.broker.is_broker:
        check_requester(context)
    name = request.owner_principal_name
    owner = f"{request.owner_principal_type}:{name}"
    if (
        name
        and owner != context.principal
        and not rights.may(AclOperation.CREATE_TOKENS, AclResourceType.USER, owner)
    ):
        raise DelegationTokenAuthorizationFailed("Delegation Token authorization failed.")
    return handle(request, context)


def describe_tokens(
    handle: Handle,
    request: DescribeDelegationTokenRequest,
    context: RequestContext[TokenParts],
    rights: Rights,
) -> Answer:
    """Describe on a token, or DescribeTokens on its owner, for tokens of others."""

    def may_see(token: DelegationToken) -> bool:
        return rights.could(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner) or rights.could(
            AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.id
        )

    return describe_visible(request, context, may_see=may_see)


CHECKS: Final[dict[int, Check[Never]]] = {
    ApiKey.PRODUCE: records.produce,
    ApiKey.FETCH: records.fetch,
    ApiKey.LIST_OFFSETS: each("topics", on_topic(_DESCRIBE)),
    ApiKey.METADATA: topics.metadata,
    ApiKey.OFFSET_COMMIT: each("topics", on_topic_or_id(_READ, OFFSET_COMMIT_BY_ID), reads_group),
    ApiKey.OFFSET_FETCH: groups.offset_fetch,
    ApiKey.FIND_COORDINATOR: groups.find_coordinator,
    ApiKey.JOIN_GROUP: whole(reads_group),
    ApiKey.HEARTBEAT: whole(reads_group),
    ApiKey.LEAVE_GROUP: groups.leave_group,
    ApiKey.SYNC_GROUP: whole(reads_group),
    ApiKey.DESCRIBE_GROUPS: each("groups", on_element(_DESCRIBE, _GROUP)),
    ApiKey.LIST_GROUPS: groups.list_groups,
    ApiKey.SASL_HANDSHAKE: nothing,
    ApiKey.SASL_AUTHENTICATE: nothing,
    ApiKey.API_VERSIONS: nothing,
    ApiKey.CREATE_TOPICS: topics.create,
    ApiKey.DELETE_TOPICS: topics.delete,
    ApiKey.DELETE_RECORDS: each("topics", on_topic(_DELETE), low_watermark=_NO_OFFSET),
    ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
    ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: whole(writes_transaction, reads_group),
    ApiKey.END_TXN: whole(writes_transaction),
    ApiKey.WRITE_TXN_MARKERS: transactions.write_markers,
    ApiKey.TXN_OFFSET_COMMIT: each(
        "topics", on_topic_or_id(_READ, TXN_OFFSET_COMMIT_BY_ID), writes_transaction, reads_group
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: each("topics", leader_epochs),
    ApiKey.DESCRIBE_ACLS: _DESCRIBES_CLUSTER,
    ApiKey.CREATE_ACLS: _ALTERS_CLUSTER,
    ApiKey.DELETE_ACLS: _ALTERS_CLUSTER,
    ApiKey.DESCRIBE_CONFIGS: each("resources", topics.on_config_resource(AclOperation.DESCRIBE_CONFIGS)),
    ApiKey.ALTER_CONFIGS: each("resources", topics.on_config_resource(AclOperation.ALTER_CONFIGS)),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _ALTERS_CLUSTER,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: each("topics", on_topic(_ALTER)),
    ApiKey.CREATE_DELEGATION_TOKEN: create_token,
    # The handlers compare the client with the token.
    ApiKey.RENEW_DELEGATION_TOKEN: nothing,
    ApiKey.EXPIRE_DELEGATION_TOKEN: nothing,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: describe_tokens,
    ApiKey.DELETE_GROUPS: each("groups_names", on_element(_DELETE, _GROUP)),
    ApiKey.ELECT_LEADERS: _ALTERS_CLUSTER,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: each(
        "resources", topics.on_config_resource(AclOperation.ALTER_CONFIGS)
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTERS_CLUSTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBES_CLUSTER,
    ApiKey.OFFSET_DELETE: groups.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: whole(on_cluster(AclOperation.DESCRIBE_CONFIGS)),
    ApiKey.ALTER_CLIENT_QUOTAS: whole(on_cluster(AclOperation.ALTER_CONFIGS)),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBES_CLUSTER,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTERS_CLUSTER,
    ApiKey.ALTER_PARTITION: _BROKERS_ONLY,
    ApiKey.UPDATE_FEATURES: _ALTERS_CLUSTER,
    ApiKey.UNREGISTER_BROKER: _ALTERS_CLUSTER,
    ApiKey.DESCRIBE_CLUSTER: nothing,
    ApiKey.DESCRIBE_PRODUCERS: each("topics", on_topic(_READ)),
    ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe,
    ApiKey.LIST_TRANSACTIONS: transactions.list_visible,
    ApiKey.ALLOCATE_PRODUCER_IDS: _BROKERS_ONLY,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.heartbeat_of_subscription,
    ApiKey.CONSUMER_GROUP_DESCRIBE: groups.describe_consumer_groups,
    # As in Kafka: a client pushes what it is asked for.
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: nothing,
    ApiKey.PUSH_TELEMETRY: nothing,
    ApiKey.LIST_CONFIG_RESOURCES: whole(on_cluster(AclOperation.DESCRIBE_CONFIGS)),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_partitions,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams.heartbeat_of_topology,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams.describe_streams_groups,
    ApiKey.SHARE_GROUP_HEARTBEAT: share_groups.heartbeat_of_share_group,
    ApiKey.SHARE_FETCH: share_groups.fetch_shared,
    ApiKey.SHARE_ACKNOWLEDGE: share_groups.acknowledge_shared,
    ApiKey.SHARE_GROUP_DESCRIBE: share_groups.describe_share_groups,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_groups.describe_share_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: share_groups.alter_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: share_groups.delete_share_offsets,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _BROKERS_ONLY,
    ApiKey.READ_SHARE_GROUP_STATE: _BROKERS_ONLY,
    ApiKey.WRITE_SHARE_GROUP_STATE: _BROKERS_ONLY,
    ApiKey.DELETE_SHARE_GROUP_STATE: _BROKERS_ONLY,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _BROKERS_ONLY,
}

# The checks of a broker that forwards requests: the controller checks those, by the client's principal.
FORWARDING_CHECKS: Final[dict[int, Check[Never]]] = {**CHECKS, **dict.fromkeys(FORWARDED, nothing)}
