"""Committed offsets of groups: how an answer is read, and those of many groups in one request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from odradek.client.client import Client
from odradek.client.errors import raise_for
from odradek.client.partition_rows import list_answer_rows
from odradek.client.results import CommittedOffset
from odradek.foundation.client_limits import GROUPS_PER_OFFSET_FETCH_MAX, OFFSET_FETCHES_AT_ONCE_MAX
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey

if TYPE_CHECKING:
    from odradek.wire.protocol.responses.groups import OffsetFetchResponseGroup, OffsetFetchResponsePartitions

CommittedOffsets = dict[TopicPartition, CommittedOffset]

# Before 8 a request has one group.
_SEVERAL_GROUPS_VERSIONS: Final = (8, 9)


def read_offsets(group: OffsetFetchResponseGroup, group_id: str) -> CommittedOffsets:
    """The offsets of one group in an answer; partitions without a commit are absent. Raises what the answer says."""
    raise_for(group.error_code, about=f"group {group_id!r}", group=group_id)
    rows: dict[TopicPartition, OffsetFetchResponsePartitions] = dict(list_answer_rows(group.topics))
    for key, row in rows.items():
        raise_for(row.error_code, about=f"partition {key}", topic=key.topic)
    return {
        key: CommittedOffset(
            row.committed_offset, getattr(row, "committed_leader_epoch", -1), row.metadata or ""
        )
        for key, row in rows.items()
        if row.committed_offset >= 0
    }


async def fetch_offsets_of_groups(
    client: Client, group_ids: Mapping[int, Sequence[str]]
) -> dict[str, CommittedOffsets]:
    """All committed offsets of groups, by group. `group_ids` has them by the broker that coordinates them.

    A hundred groups are asked for in one request. Those that are missing in the result have to be asked for alone.
    Their broker has an error for them, does not answer, or is before Kafka 3.0.
    """
    turns = asyncio.Semaphore(OFFSET_FETCHES_AT_ONCE_MAX)
    answers = await asyncio.gather(
        *(
            _fetch(client, broker_id, listed[start : start + GROUPS_PER_OFFSET_FETCH_MAX], turns)
            for broker_id, listed in group_ids.items()
            for start in range(0, len(listed), GROUPS_PER_OFFSET_FETCH_MAX)
        )
    )
    return {group_id: offsets for answer in answers for group_id, offsets in answer.items()}


async def _fetch(
    client: Client, broker_id: int, group_ids: Sequence[str], turns: asyncio.Semaphore
) -> dict[str, CommittedOffsets]:
    groups = [{"group_id": one, "member_id": None, "member_epoch": -1, "topics": None} for one in group_ids]
    found: dict[str, CommittedOffsets] = {}
    async with turns:
        try:
            connection = await client.broker(broker_id)
            response = await connection.request(
                ApiKey.OFFSET_FETCH, versions=_SEVERAL_GROUPS_VERSIONS, groups=groups, require_stable=False
            )
        except OdradekError:
            return found
    for group in response.groups:
        with contextlib.suppress(OdradekError):
            found[group.group_id] = read_offsets(group, group.group_id)
    return found
