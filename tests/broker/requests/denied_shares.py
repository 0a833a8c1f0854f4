"""Requests about share groups and their states, with the rights that they need."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from odradek.security.authorization.acls import AclOperation
from odradek.wire.protocol.api import ApiKey
from tests.support.rights import (
    CLUSTER,
    DELETE,
    DESCRIBE,
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    READ,
    TOPIC,
    Row,
    acl,
)

_STATE: Final = {
    "partition": 0,
    "state_epoch": 1,
    "leader_epoch": 1,
    "start_offset": 0,
    "delivery_complete_count": 0,
    "state_batches": [],
}


def _of_states(api: ApiKey, version: int, *fields: str) -> Row:
    """What brokers alone may ask."""
    partition = {name: _STATE[name] for name in ("partition", *fields)}
    topics = [{"topic_id": UUID(int=5), "partitions": [partition]}]
    rights = [acl(AclOperation.CLUSTER_ACTION, CLUSTER)]
    return api, version, {"group_id": "g", "topics": topics}, {NO_CLUSTER}, rights


ROWS: list[Row] = [
    (
        ApiKey.SHARE_GROUP_HEARTBEAT,
        1,
        {"group_id": "g", "member_id": "m", "member_epoch": 0, "subscribed_topic_names": ["seen"]},
        {NO_GROUP},
        [acl(READ, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.SHARE_GROUP_DESCRIBE,
        1,
        {"group_ids": ["g"], "include_authorized_operations": False},
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g")],
    ),
    (
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        1,
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "seen", "partitions": [0]}]}]},
        {NO_GROUP},
        [acl(DESCRIBE, GROUP, "g"), acl(DESCRIBE, TOPIC, "seen")],
    ),
    (
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        {
            "group_id": "g",
            "topics": [{"topic_name": "seen", "partitions": [{"partition_index": 0, "start_offset": 0}]}],
        },
        {NO_GROUP},
        [acl(READ, GROUP, "g"), acl(READ, TOPIC, "seen")],
    ),
    (
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        0,
        {"group_id": "g", "topics": [{"topic_name": "seen"}]},
        {NO_GROUP},
        [acl(DELETE, GROUP, "g"), acl(READ, TOPIC, "seen")],
    ),
    _of_states(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, "state_epoch", "start_offset"),
    _of_states(ApiKey.READ_SHARE_GROUP_STATE, 0, "leader_epoch"),
    _of_states(
        ApiKey.WRITE_SHARE_GROUP_STATE,
        1,
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
        "state_batches",
    ),
    _of_states(ApiKey.DELETE_SHARE_GROUP_STATE, 0),
    _of_states(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, 1, "leader_epoch"),
]
