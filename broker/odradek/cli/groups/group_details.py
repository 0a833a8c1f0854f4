"""The content of `groups describe`: committed offsets, ends, and lag in records and in seconds.

Lag in seconds is the waiting time of the oldest uncommitted record: now less its timestamp. A fetch of the one batch at
the committed offset finds it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from odradek.cli.shared.disk_words import refusal_words
from odradek.cli.shared.output import Document, plain
from odradek.client.admin.disks import find_refused_commits
from odradek.client.admin.groups import GroupAdmin
from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.client import Client
from odradek.client.consumer.oldest import timestamps_at
from odradek.client.results import CommittedOffset, GroupDescription, GroupMember
from odradek.foundation.ids import TopicPartition


async def describe_groups(
    client: Client, group_ids: Sequence[str], *, with_offsets: bool = True
) -> list[dict[str, object]]:
    """One object for each group (all without names), with its partitions and lag if asked. Raises GroupIdNotFound for
    an unknown name.
    """
    admin = GroupAdmin(client)
    ids = list(group_ids) or [listing.group_id for listing in await admin.list()]
    found = [await admin.describe(group_id) for group_id in ids]
    full = await find_refused_commits(client, found)
    described: list[dict[str, object]] = []
    for group in found:
        words = refusal_words(full[group.group_id]) if group.group_id in full else None
        offsets = await _offsets(client, group) if with_offsets else {}
        described.append(_state(group) | {"commits_refused": words} | offsets)
    return described


def _state(group: GroupDescription) -> dict[str, object]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [_member(member) for member in group.members],
    }


async def _offsets(client: Client, group: GroupDescription) -> dict[str, object]:
    committed = await GroupAdmin(client).offsets(group.group_id)
    owners = {key: member for member in group.members for key in member.assignment}
    keys = sorted({*committed, *owners})
    # A group may hold offsets of a topic that was deleted.
    logs = LogAdmin(client)
    ends = await logs.known_offsets_at(keys, LATEST)
    starts = await logs.known_offsets_at(keys, EARLIEST)
    behind = {
        key: max(committed[key].offset, starts[key])
        for key in keys
        if key in committed and key in starts and key in ends and committed[key].offset < ends[key]
    }
    oldest = await timestamps_at(client, behind)
    now_ms = time.time_ns() // 1_000_000
    partitions = [
        _partition(key, committed.get(key), ends.get(key), oldest.get(key), owners.get(key), now_ms=now_ms)
        for key in keys
    ]
    waits = [p["lag_seconds"] for p in partitions if p["lag_seconds"] is not None]
    lags = [p["lag"] for p in partitions if p["lag"] is not None]
    without_commit = [key for key in keys if key not in committed]
    return {
        # Without a committed offset it depends on each consumer's auto.offset.reset what it still has to read.
        "lag": sum(lags) if lags or not keys else None,
        "lag_seconds": max(waits, default=None),
        "partitions_without_commit": len(without_commit),
        "records_without_commit": sum(
            ends[key] - starts[key] for key in without_commit if key in ends and key in starts
        ),
        "partitions": partitions,
    }


def _partition(
    key: TopicPartition,
    committed: CommittedOffset | None,
    end: int | None,
    oldest_ms: int | None,
    owner: GroupMember | None,
    *,
    now_ms: int,
) -> Document:
    lag = None if committed is None or end is None else max(0, end - committed.offset)
    lag_seconds = None
    if lag == 0:
        lag_seconds = 0.0
    elif oldest_ms is not None:
        lag_seconds = max(0.0, (now_ms - oldest_ms) / 1000)
    return {
        "topic": key.topic,
        "partition": key.partition,
        "committed": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "end": end,
        "lag": lag,
        "lag_seconds": lag_seconds,
        "member_id": None if owner is None else owner.member_id,
        "client_id": None if owner is None else owner.client_id,
        "client_host": None if owner is None else owner.client_host,
    }


def _member(member: GroupMember) -> dict[str, object]:
    fields: dict[str, object] = plain(member)
    fields["assignment"] = [str(key) for key in member.assignment]
    fields["target"] = None if member.target is None else [str(key) for key in member.target]
    return fields
