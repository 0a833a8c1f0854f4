"""What `groups describe` shows: committed offsets, ends, and lag in records and in seconds.

Lag in seconds is how long the oldest record that is not committed has waited: now less its timestamp. It is found by
fetching the one batch at the committed offset.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.cli.disk_words import refusal_words
from odradek.client.admin.disks import refused_commits
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.admin.results import GroupDescription, GroupMember, ListedOffset
from odradek.client.client import Client
from odradek.client.consumer.oldest import timestamps_at
from odradek.client.errors import ClientError
from odradek.foundation.errors import OdradekError, UnknownTopicOrPartition
from odradek.foundation.ids import TopicPartition


async def describe_groups(client: Client, group_ids: Sequence[str]) -> list[dict[str, Any]]:
    """One object per group. Raises GroupIdNotFound for a name that is not there."""
    admin = GroupAdmin(client)
    ids = list(group_ids) or [listing.group_id for listing in await admin.list()]
    found = [await admin.describe(group_id) for group_id in ids]
    full = await refused_commits(client, found)
    return [
        await _describe(client, group)
        | {"commits_refused": refusal_words(full[group.group_id]) if group.group_id in full else None}
        for group in found
    ]


async def _describe(client: Client, group: GroupDescription) -> dict[str, Any]:
    committed = await GroupAdmin(client).offsets(group.group_id)
    owners = {key: member for member in group.members for key in member.assignment}
    keys = sorted({*committed, *owners})
    ends = await _existing_offsets(client, keys, LATEST)
    starts = await _existing_offsets(client, keys, EARLIEST)
    behind: dict[TopicPartition, int] = {}
    for key in keys:
        if key in ends and key in committed and committed[key].offset < ends[key].offset:
            behind[key] = max(committed[key].offset, starts[key].offset)
    oldest = await timestamps_at(client, behind)
    now_ms = time.time_ns() // 1_000_000
    partitions = [
        _partition(
            key,
            committed=committed[key].offset if key in committed else None,
            end=ends[key].offset if key in ends else None,
            oldest_ms=oldest.get(key),
            now_ms=now_ms,
            owner=owners.get(key),
        )
        for key in keys
    ]
    waits = [p["lag_seconds"] for p in partitions if p["lag_seconds"] is not None]
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "lag": sum(p["lag"] or 0 for p in partitions),
        "lag_seconds": max(waits, default=None),
        "members": [_member(member) for member in group.members],
        "partitions": partitions,
    }


def _partition(
    key: TopicPartition,
    *,
    committed: int | None,
    end: int | None,
    oldest_ms: int | None,
    now_ms: int,
    owner: GroupMember | None,
) -> dict[str, Any]:
    lag = None if committed is None or end is None else max(0, end - committed)
    lag_seconds = None
    if lag == 0:
        lag_seconds = 0.0
    elif oldest_ms is not None:
        lag_seconds = max(0.0, (now_ms - oldest_ms) / 1000)
    return {
        "topic": key.topic,
        "partition": key.partition,
        "committed": committed,
        "end": end,
        "lag": lag,
        "lag_seconds": lag_seconds,
        "member_id": None if owner is None else owner.member_id,
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
    }


def _member(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "assignment": [str(key) for key in member.assignment],
    }


async def _existing_offsets(
    client: Client, keys: Sequence[TopicPartition], timestamp_ms: int
) -> Mapping[TopicPartition, ListedOffset]:
    """Offsets of those partitions that are still there: a group may hold offsets of a deleted topic."""
    logs = LogAdmin(client)
    try:
        return await logs.list_offsets(dict.fromkeys(keys, timestamp_ms))
    except UnknownTopicOrPartition:
        pass
    found: dict[TopicPartition, ListedOffset] = {}
    for key in keys:
        try:
            found.update(await logs.list_offsets({key: timestamp_ms}))
        except ClientError:
            raise
        except OdradekError:
            continue
    return found
