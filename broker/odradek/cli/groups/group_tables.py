"""The tables of `groups describe`: by partition, by member, and one line a group."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.shared.output import Document, count, in_color, print_table, state_in_color
from odradek.cli.shared.times import format_seconds
from odradek.client.admin.groups import SHARE

Described = Sequence[Document]
_NO_GROUP = "there is no group"


def print_states(groups: Described, *, is_verbose: bool) -> None:
    headers = ["GROUP", "STATE", "TYPE", "COORDINATOR", "ASSIGNOR", "MEMBERS"]
    rows = [
        [
            g["group"],
            state_in_color(g["state"]),
            g["type"],
            g["coordinator"],
            g["assignor"],
            len(g["members"]),
        ]
        for g in groups
    ]
    if is_verbose:
        headers += ["EPOCH", "ASSIGNMENT EPOCH"]
        rows = [[*row, g["epoch"], g["assignment_epoch"]] for row, g in zip(rows, groups, strict=True)]
    print_table(headers, rows, empty=_NO_GROUP)
    for group in groups:
        if group["commits_refused"]:
            click.echo(f"{group['group']}: {group['commits_refused']}")


def print_members(groups: Described, *, is_verbose: bool) -> None:
    headers = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "COUNT", "PARTITIONS"]
    if is_verbose:
        headers += ["SUBSCRIBES TO", "EPOCH", "TARGET"]
    if not groups:
        click.echo(_NO_GROUP)
    for index, group in enumerate(groups):
        _print_title(group, index)
        rows = [
            [
                m["member_id"],
                m["instance_id"],
                m["client_id"],
                m["client_host"],
                len(m["assignment"]),
                m["assignment"],
            ]
            + ([m["topics"] or m["pattern"], m["epoch"], m["target"]] if is_verbose else [])
            for m in group["members"]
        ]
        print_table(headers, rows, empty="it has no members")


def print_offsets(groups: Described, *, is_verbose: bool) -> None:
    headers = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG TIME", "CLIENT", "HOST"]
    keys = ["topic", "partition", "committed", "end", "lag", "lag_seconds", "client_id", "client_host"]
    if is_verbose:
        headers += ["LEADER EPOCH", "METADATA", "MEMBER"]
        keys += ["leader_epoch", "metadata", "member_id"]
    if not groups:
        click.echo(_NO_GROUP)
    for index, group in enumerate(groups):
        _print_title(group, index)
        if group["type"] == SHARE:
            click.echo(
                f"a share group commits no offsets; `odradek queues describe {group['group']}` shows it"
            )
            continue
        rows = [
            [_seconds(one[key]) if key == "lag_seconds" else one[key] for key in keys]
            for one in group["partitions"]
        ]
        print_table(headers, rows, empty="it has no committed offset and no assigned partition")


def _print_title(group: Document, index: int) -> None:
    if index:
        click.echo()
    is_partly_known = any(p["committed"] is not None and p["lag"] is None for p in group["partitions"])
    least = "at least " if is_partly_known else ""
    lag = "  lag unknown" if group["lag"] is None else f"  lag {least}{count(group['lag'], 'record')}"
    if group["lag_seconds"] is not None:
        lag += f", {format_seconds(group['lag_seconds'])}"
    if without := group["partitions_without_commit"]:
        lag += (
            f"; {count(without, 'partition')} with {count(group['records_without_commit'], 'record')} "
            f"{'has' if without == 1 else 'have'} no committed offset"
        )
    if group["type"] == SHARE:
        lag = ""
    state = in_color(state_in_color(group["state"]))
    click.echo(f"{group['group']}  {state}  {group['type']}  {count(len(group['members']), 'member')}{lag}")
    if group["commits_refused"]:
        click.echo(group["commits_refused"])


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else format_seconds(seconds)
