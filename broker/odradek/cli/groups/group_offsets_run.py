"""Runs `odradek groups reset-offsets` and `delete-offsets`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from odradek.cli.groups import group_resets as resets
from odradek.cli.groups.group_resets import ResetPlan
from odradek.cli.groups.saved_offsets import SavedOffset
from odradek.cli.shared.options import CommandSession
from odradek.client.admin.groups import ZOOKEEPER, GroupAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.foundation.errors import GroupIdNotFound, InvalidRequest, UnknownTopicOrPartition
from odradek.mirror.formats import Checkpoint, parse_checkpoint
from odradek.mirror.naming import ReplicationPolicy
from odradek.mirror.topic_tail import tail


def reset_offsets(
    session: CommandSession,
    *,
    group_ids: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    from_file: str | None,
    from_mirror: str | None,
    save: str | None,
    execute: bool,
    **targets: Any,
) -> None:
    if from_file is not None and from_mirror is not None:
        raise click.UsageError("--from-file and --from-mirror contradict each other")
    if from_file is None:
        if from_mirror is None and bool(topics) == all_topics:
            raise click.UsageError("give --topic (may be repeated), or --all-topics")
        if bool(group_ids) == all_groups:
            raise click.UsageError("give a GROUP (several are allowed), or --all-groups")
    elif all_groups and group_ids:
        raise click.UsageError("--all-groups and the name of a group contradict each other")
    if all_topics and topics:
        raise click.UsageError("--all-topics and --topic contradict each other")
    reset = resets.parse_reset(**targets, is_given=from_file is not None or from_mirror is not None)
    saved = {} if from_file is None else resets.read_saved(from_file, group_ids)

    async def work(client: Client) -> list[ResetPlan]:
        plans: list[ResetPlan] = []
        if from_mirror is not None:
            saved.update(await translate_offsets(client, from_mirror, group_ids))
        for group_id, offsets in saved.items():
            plans += await resets.plan_from_saved(client, group_id, topics, offsets)
        if reset is not None:
            ids = group_ids or [
                group.group_id
                for group in await GroupAdmin(client).list()
                if group.type != ZOOKEEPER and not resets.is_mirror_group(group.group_id)
            ]
            for group_id in ids:
                plans += await resets.plan_resets(client, group_id, topics, reset)
        if plans:
            await resets.carry_out(client, plans, save_path=save, execute=execute)
        return plans

    resets.print_resets(session, session.run(work), is_done=execute)


def delete_offsets(
    session: CommandSession, *, group_id: str, topics: tuple[str, ...], save: str | None, execute: bool
) -> None:
    if not topics:
        raise click.UsageError("give --topic (may be repeated)")

    async def work(client: Client) -> list[ResetPlan]:
        plans = await resets.plan_deletions(client, group_id, topics)
        await resets.carry_out(client, plans, save_path=save, execute=execute)
        return plans

    resets.print_resets(session, session.run(work), is_done=execute)


_SUFFIX: Final = "internal"
_ALL: Final = 2**63 - 1


async def translate_offsets(
    client: Client, source: str, group_ids: Sequence[str]
) -> dict[str, list[SavedOffset]]:
    """The translated offsets by group: of the groups named, or of all. `source` is an alias, or the topic's name.

    Raises UnknownTopicOrPartition where nothing is mirrored from there, GroupIdNotFound for a group without offsets.
    """
    topic = source if source.endswith(_SUFFIX) else ReplicationPolicy().checkpoints_topic(source)
    newest = await _newest(client, topic)
    there = {one.name for one in await TopicAdmin(client).list()}
    by_group: dict[str, list[SavedOffset]] = {}
    for one in newest:
        if one.partition.topic not in there:
            continue  # deleted since
        by_group.setdefault(one.group_id, []).append(
            SavedOffset(one.group_id, *one.partition, one.target_offset, metadata=one.metadata)
        )
    missing = [group_id for group_id in group_ids if group_id not in by_group]
    if missing:
        known = ", ".join(sorted(by_group)) or "no group"
        raise GroupIdNotFound(
            f"topic {topic!r} has no offsets of group {missing[0]!r}, but of {known}; a mirror writes them "
            "once the group has committed, and looks every emit.checkpoints.interval.seconds"
        )
    return {group_id: by_group[group_id] for group_id in (group_ids or sorted(by_group))}


async def _newest(client: Client, topic: str) -> list[Checkpoint]:
    found: dict[tuple[object, ...], Checkpoint] = {}
    try:
        async for records in tail(client, topic, offsets_max=_ALL):
            for record in records:
                try:
                    one = parse_checkpoint(record.key or b"", record.value or b"")
                except InvalidRequest:
                    continue
                found[one.group_id, one.partition] = one
    except UnknownTopicOrPartition as failure:
        there = [
            one.name for one in await TopicAdmin(client).list() if one.name.endswith(f"checkpoints.{_SUFFIX}")
        ]
        raise UnknownTopicOrPartition(
            f"there is no topic {topic!r}: no mirror writes checkpoints of that cluster here; "
            f"topics of checkpoints are: {', '.join(there) or 'none'}"
        ) from failure
    return [found[key] for key in sorted(found, key=str)]
