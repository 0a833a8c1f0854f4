"""The fields of requests about share groups with as many elements as asked for; none of them exists."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from odradek.wire.protocol.api import ApiKey

_MEMBER: Final = {"group_id": "g", "member_id": "m", "is_renew_ack": False}
_PARTITION: Final = {"partition_index": 0, "acknowledgement_batches": []}
_ACKNOWLEDGED: Final = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}
_STATE: Final = {
    "partition": 0,
    "state_epoch": 1,
    "leader_epoch": 1,
    "start_offset": 0,
    "delivery_complete_count": 0,
    "state_batches": [{"first_offset": 0, "last_offset": 0, "delivery_state": 2, "delivery_count": 1}],
}


def ids(count: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=number + 2) for number in range(count)]


def _names(count: int) -> list[str]:
    return [f"n{number:07}" for number in range(count)]


def _share_fetch_fields(count: int) -> dict[str, Any]:
    return {
        **_MEMBER,
        "share_session_epoch": 0,
        **dict.fromkeys(("max_wait", "min_bytes", "max_records", "batch_size"), 1),
        "max_bytes": 1 << 20,
        "topics": [{"topic_id": one, "partitions": [_PARTITION]} for one in ids(count)],
        "forgotten_topics_data": [],
    }


def _share_acknowledge_fields(count: int) -> dict[str, Any]:
    """The last request of a session that was never begun."""
    partition = {**_PARTITION, "acknowledgement_batches": [_ACKNOWLEDGED]}
    return {
        **_MEMBER,
        "share_session_epoch": -1,
        "topics": [{"topic_id": one, "partitions": [partition]} for one in ids(count)],
    }


def _heartbeat_fields(count: int) -> dict[str, Any]:
    return {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": _names(count)}


def _describe_offsets_fields(count: int) -> dict[str, Any]:
    topics = [{"topic_name": name, "partitions": [0]} for name in _names(count)]
    return {"groups": [{"group_id": "g", "topics": topics}]}


def _alter_offsets_fields(count: int) -> dict[str, Any]:
    partition = {"partition_index": 0, "start_offset": 1}
    return {
        "group_id": "g",
        "topics": [{"topic_name": name, "partitions": [partition]} for name in _names(count)],
    }


def _states_of(*fields: str) -> Callable[[int], dict[str, Any]]:
    """The request about states whose partitions have these fields."""
    partition = {name: _STATE[name] for name in ("partition", *fields)}
    return lambda count: {
        "group_id": "g",
        "topics": [{"topic_id": one, "partitions": [partition]} for one in ids(count)],
    }


# By name: the API, the version, and the fields for a number of elements.
SHARE_ROWS: Final[dict[str, tuple[ApiKey, int, Callable[[int], dict[str, Any]]]]] = {
    "share fetch": (ApiKey.SHARE_FETCH, 2, _share_fetch_fields),
    "share acknowledge": (ApiKey.SHARE_ACKNOWLEDGE, 2, _share_acknowledge_fields),
    "share group heartbeat": (ApiKey.SHARE_GROUP_HEARTBEAT, 1, _heartbeat_fields),
    "share group describe": (
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        lambda count: {"group_ids": _names(count), "include_authorized_operations": False},
    ),
    "describe share group offsets": (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, _describe_offsets_fields),
    "alter share group offsets": (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, _alter_offsets_fields),
    "delete share group offsets": (
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        lambda count: {"group_id": "g", "topics": [{"topic_name": name} for name in _names(count)]},
    ),
    "initialize share group state": (
        ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        0,
        _states_of("state_epoch", "start_offset"),
    ),
    "read share group state": (ApiKey.READ_SHARE_GROUP_STATE, 0, _states_of("leader_epoch")),
    "write share group state": (
        ApiKey.WRITE_SHARE_GROUP_STATE,
        1,
        _states_of("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches"),
    ),
    "delete share group state": (ApiKey.DELETE_SHARE_GROUP_STATE, 0, _states_of()),
    "read share group state summary": (
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        1,
        _states_of("leader_epoch"),
    ),
}
