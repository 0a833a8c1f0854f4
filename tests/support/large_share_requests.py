"""The fields of requests of share consumers with as many topics as asked for; none of them exists."""

from __future__ import annotations

import uuid
from typing import Any, Final

_MEMBER: Final = {"group_id": "g", "member_id": "m", "is_renew_ack": False}
_PARTITION: Final = {"partition_index": 0, "acknowledgement_batches": []}
_ACKNOWLEDGED: Final = {"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}


def _ids(count: int) -> list[uuid.UUID]:
    return [uuid.UUID(int=number + 2) for number in range(count)]


def share_fetch_fields(count: int) -> dict[str, Any]:
    return {
        **_MEMBER,
        "share_session_epoch": 0,
        **dict.fromkeys(("max_wait", "min_bytes", "max_records", "batch_size"), 1),
        "max_bytes": 1 << 20,
        "topics": [{"topic_id": one, "partitions": [_PARTITION]} for one in _ids(count)],
        "forgotten_topics_data": [],
    }


def share_acknowledge_fields(count: int) -> dict[str, Any]:
    """The last request of a session that was never begun."""
    partition = {**_PARTITION, "acknowledgement_batches": [_ACKNOWLEDGED]}
    return {
        **_MEMBER,
        "share_session_epoch": -1,
        "topics": [{"topic_id": one, "partitions": [partition]} for one in _ids(count)],
    }
