"""The types of the requests that handlers read: each has the fields of every version of its API.

`broker.requests.request_types` writes the modules from kio's classes. `complete` joins a type with kio's class of one
version. A decoded message is an instance of both, and has the schema's default for each field that the version lacks.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from odradek.wire.protocol.api import ApiKey

GROUPS: Final = frozenset(
    (
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
    )
)

SHARES: Final = frozenset(
    (
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
    )
)

STREAMS: Final = frozenset((ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE))

TRANSACTIONS: Final = frozenset(
    (
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    )
)

CLIENTS: Final = frozenset(
    (
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    )
)


def module_of(api_key: int) -> str:
    """The module of this package that has the API's request."""
    if api_key in GROUPS:
        return "groups"
    if api_key in CLIENTS:
        return "clients"
    if api_key in STREAMS:
        return "streams"
    if api_key in SHARES:
        return "shares"
    return "transactions" if api_key in TRANSACTIONS else "cluster"


def request_type(api_key: int) -> type:
    """The type of an API's requests. Raises KeyError for one that no handler reads."""
    module = import_module(f"odradek.wire.protocol.requests.{module_of(api_key)}")
    types: dict[int, type] = module.TYPES
    return types[api_key]


@cache
def complete(structure: type, request: type) -> type:
    """kio's class `structure` of one version, with the defaults that `request` has for the fields it lacks."""
    return type(structure.__name__, (structure, request), {"__slots__": ()})


def find_nested_type(request: type | None, field: str) -> type | None:
    """The type of the structures in a field of `request`."""
    return None if request is None else request.__dict__.get("nested", {}).get(field)
