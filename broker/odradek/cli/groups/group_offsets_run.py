"""Runs `odradek groups reset-offsets` and `delete-offsets`."""

from __future__ import annotations

from typing import Any

import click

from odradek.cli.groups import group_resets as resets
from odradek.cli.groups.group_resets import ResetPlan
from odradek.cli.groups.mirrored_offsets import translate_offsets
from odradek.cli.shared.options import CommandSession
from odradek.client.admin.groups import ZOOKEEPER, GroupAdmin
from odradek.client.client import Client


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
