"""The right that a denied request lacks, in words: principal, operation, resource, and the line that would grant it.

Kafka's answers say only that topic, group, transactional id or cluster were denied. The operation follows from the
API, by the table below: the rows of the broker's `rights.table`, by the resource of the error. A connection notes each
answer for the task that reads it, so that the error made of it knows the API and the principal.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, NamedTuple

from odradek.foundation.errors import OdradekError
from odradek.foundation.security_errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
)
from odradek.foundation.transaction_errors import TransactionalIdAuthorizationFailed
from odradek.wire.protocol.api import ApiKey


class _Resource(NamedTuple):
    kind: str
    """The key of its name; with dashes the option of `odradek acls add` that names it."""
    operations: dict[ApiKey, str]
    """The operation that an API needs on it, in the words of `odradek acls add`."""


def _rows(**operations: str) -> dict[ApiKey, str]:
    """By API, from names of APIs by operation."""
    return {
        ApiKey[name]: operation.replace("_", "-")
        for operation, names in operations.items()
        for name in names.split()
    }


_TOPIC: Final = _Resource(
    "topic",
    _rows(
        read="FETCH OFFSET_COMMIT TXN_OFFSET_COMMIT OFFSET_DELETE DESCRIBE_PRODUCERS SHARE_FETCH "
        "SHARE_ACKNOWLEDGE ALTER_SHARE_GROUP_OFFSETS DELETE_SHARE_GROUP_OFFSETS",
        write="PRODUCE ADD_PARTITIONS_TO_TXN",
        create="CREATE_TOPICS",
        delete="DELETE_TOPICS DELETE_RECORDS",
        alter="CREATE_PARTITIONS",
        describe="METADATA LIST_OFFSETS OFFSET_FETCH OFFSET_FOR_LEADER_EPOCH CONSUMER_GROUP_HEARTBEAT "
        "CONSUMER_GROUP_DESCRIBE DESCRIBE_TOPIC_PARTITIONS STREAMS_GROUP_DESCRIBE STREAMS_GROUP_HEARTBEAT "
        "SHARE_GROUP_DESCRIBE SHARE_GROUP_HEARTBEAT DESCRIBE_SHARE_GROUP_OFFSETS",
        describe_configs="DESCRIBE_CONFIGS",
        alter_configs="ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS",
    ),
)
_GROUP: Final = _Resource(
    "group",
    _rows(
        read="JOIN_GROUP SYNC_GROUP HEARTBEAT LEAVE_GROUP OFFSET_COMMIT TXN_OFFSET_COMMIT ADD_OFFSETS_TO_TXN "
        "CONSUMER_GROUP_HEARTBEAT STREAMS_GROUP_HEARTBEAT SHARE_GROUP_HEARTBEAT SHARE_FETCH SHARE_ACKNOWLEDGE "
        "ALTER_SHARE_GROUP_OFFSETS",
        delete="DELETE_GROUPS OFFSET_DELETE DELETE_SHARE_GROUP_OFFSETS",
        describe="FIND_COORDINATOR DESCRIBE_GROUPS CONSUMER_GROUP_DESCRIBE STREAMS_GROUP_DESCRIBE OFFSET_FETCH "
        "SHARE_GROUP_DESCRIBE DESCRIBE_SHARE_GROUP_OFFSETS",
        describe_configs="DESCRIBE_CONFIGS",
        alter_configs="ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS",
    ),
)
_TRANSACTIONAL_ID: Final = _Resource(
    "transactional_id",
    _rows(
        write="INIT_PRODUCER_ID ADD_PARTITIONS_TO_TXN ADD_OFFSETS_TO_TXN END_TXN TXN_OFFSET_COMMIT PRODUCE",
        describe="FIND_COORDINATOR DESCRIBE_TRANSACTIONS",
    ),
)
_CLUSTER: Final = _Resource(
    "cluster",
    _rows(
        idempotent_write="INIT_PRODUCER_ID PRODUCE",
        create="CREATE_TOPICS",
        cluster_action="WRITE_TXN_MARKERS",
        alter="CREATE_ACLS DELETE_ACLS ELECT_LEADERS ALTER_PARTITION_REASSIGNMENTS ALTER_REPLICA_LOG_DIRS "
        "ALTER_USER_SCRAM_CREDENTIALS UPDATE_FEATURES UNREGISTER_BROKER",
        describe="DESCRIBE_ACLS DESCRIBE_LOG_DIRS LIST_PARTITION_REASSIGNMENTS DESCRIBE_USER_SCRAM_CREDENTIALS",
        describe_configs="DESCRIBE_CONFIGS DESCRIBE_CLIENT_QUOTAS LIST_CONFIG_RESOURCES",
        alter_configs="ALTER_CONFIGS INCREMENTAL_ALTER_CONFIGS ALTER_CLIENT_QUOTAS",
    ),
)
RESOURCES: Final[dict[type[OdradekError], _Resource]] = {
    TopicAuthorizationFailed: _TOPIC,
    GroupAuthorizationFailed: _GROUP,
    TransactionalIdAuthorizationFailed: _TRANSACTIONAL_ID,
    ClusterAuthorizationFailed: _CLUSTER,
}


class _Answer(NamedTuple):
    api: ApiKey
    principal: str | None
    """As TYPE:NAME; None where only the broker knows it, as for a token or a certificate."""


_last_answer: Final[ContextVar[_Answer | None]] = ContextVar("the last answer of this task", default=None)


def note_answer(api: ApiKey, principal: str | None) -> None:
    """Note whose request was answered; the errors that this task makes from now on are about it."""
    _last_answer.set(_Answer(api, principal))


def describe_denial(
    kind: type[OdradekError], names: Mapping[str, str], *, api: ApiKey | None = None
) -> str | None:
    """The missing right and the line that grants it; None for another error, or one whose right is not known.

    `names` has the name of each resource that the answer may be about, by the `_Resource.kind`. `api` is the request's
    where it is not that of the task's last answer.
    """
    resource, answer = RESOURCES.get(kind), _last_answer.get()
    if resource is None or answer is None:
        return None
    operation = resource.operations.get(answer.api if api is None else api)
    name = names.get(resource.kind)
    if operation is None or (not name and resource is not _CLUSTER):
        return None
    option = f"--{resource.kind.replace('_', '-')}" + (f" {shlex.quote(name)}" if name else "")
    where = f"{resource.kind.replace('_', ' ')} {name!r}" if name else "the cluster"
    who = answer.principal or "the principal of this connection"
    principal = shlex.quote(answer.principal or "User:NAME")
    return (
        f"{who} lacks the right {operation} on {where}; "
        f"`odradek acls add --allow-principal {principal} --operation {operation} {option}` grants it"
    )
