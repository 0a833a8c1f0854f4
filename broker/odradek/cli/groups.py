"""`odradek groups`: list, describe with lag, reset offsets, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.options import Session, session_options
from odradek.cli.output import count, say, show
from odradek.cli.times import format_seconds

if TYPE_CHECKING:
    from odradek.client.admin.results import GroupListing
    from odradek.client.client import Client


@click.group()
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


@groups.command("list")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only in this state; may be repeated."
)
@session_options
def list_groups(session: Session, *, states: tuple[str, ...]) -> None:
    """List the groups.

    \b
    Examples:
      odradek groups list
      odradek groups list --state Stable --state Empty
    """

    async def work(client: Client) -> list[GroupListing]:
        from odradek.client.admin.groups import GroupAdmin

        return await GroupAdmin(client).list()

    wanted = {state.lower() for state in states}
    found = [group for group in session.run(work) if not wanted or group.state.lower() in wanted]
    show(
        session.output,
        headers=("GROUP", "STATE", "TYPE", "PROTOCOL"),
        rows=[(group.group_id, group.state, group.type, group.protocol_type) for group in found],
        document=found,
    )


@groups.command()
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]")
@click.option("--members", is_flag=True, help="Show the members instead of the partitions.")
@session_options
def describe(session: Session, *, group_ids: tuple[str, ...], members: bool) -> None:
    """Show a group's place in each partition and how far it is behind (all groups without names).

    Lag is counted in records that are not yet committed, and in seconds that the oldest of them has
    waited. A line below the group's name says when its commits are refused because the disk of its
    coordinator is full.

    \b
    Examples:
      odradek groups describe billing
      odradek groups describe billing --members
      odradek groups describe --output json | jq '.[].partitions[].lag_seconds'
    """

    async def work(client: Client) -> list[dict[str, Any]]:
        from odradek.cli.group_details import describe_groups

        return await describe_groups(client, group_ids)

    described = session.run(work)
    if session.is_json:
        say(session.output, "", described)
        return
    for index, group in enumerate(described):
        if index:
            click.echo()
        _print_group(group, members=members)


def _print_group(group: dict[str, Any], *, members: bool) -> None:
    click.echo(
        f"{group['group']}  {group['state']}  {group['type']}  {count(len(group['members']), 'member')}"
        f"  lag {count(group['lag'], 'record')}"
        + ("" if group["lag_seconds"] is None else f", {format_seconds(group['lag_seconds'])}")
    )
    if group["commits_refused"]:
        click.echo(group["commits_refused"])
    if members:
        show(
            "table",
            headers=("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"),
            rows=[
                (m["member_id"], m["instance_id"], m["client_id"], m["client_host"], m["assignment"])
                for m in group["members"]
            ],
            document=None,
        )
        return
    show(
        "table",
        headers=("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG TIME", "CLIENT", "HOST"),
        rows=[
            (
                p["topic"],
                p["partition"],
                p["committed"],
                p["end"],
                p["lag"],
                None if p["lag_seconds"] is None else format_seconds(p["lag_seconds"]),
                p["client_id"],
                p["client_host"],
            )
            for p in group["partitions"]
        ],
        document=None,
    )


@groups.command("reset-offsets")
@click.argument("group_id", metavar="GROUP")
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="TOPIC[:PARTITIONS]", help="As orders or orders:0,2."
)
@click.option("--all-topics", is_flag=True, help="Every topic that the group has committed offsets for.")
@click.option("--to-earliest", is_flag=True, help="The first record kept.")
@click.option("--to-latest", is_flag=True, help="The end.")
@click.option("--to-current", is_flag=True, help="Where it is; commits missing offsets at the end.")
@click.option(
    "--to-offset", type=click.IntRange(min=0), metavar="N", help="This offset, or the nearest there is."
)
@click.option("--to-datetime", metavar="TIME", help="The first record at or after a time (ISO 8601).")
@click.option("--by-duration", metavar="DURATION", help="So long ago: 1h30m or PT1H30M.")
@click.option("--shift-by", type=int, metavar="N", help="N records on, or back with a negative N.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done. This is the default.")
@click.option("--execute", is_flag=True, help="Do it.")
@session_options
def reset_offsets(
    session: Session,
    *,
    group_id: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    to_datetime: str | None,
    by_duration: str | None,
    shift_by: int | None,
    dry_run: bool,
    execute: bool,
) -> None:
    """Move a group's committed offsets. Its consumers must be stopped first.

    \b
    Examples:
      odradek groups reset-offsets billing --topic orders --to-earliest
      odradek groups reset-offsets billing --topic orders --to-earliest --execute
      odradek groups reset-offsets billing --topic orders:0,1 --shift-by -100 --execute
      odradek groups reset-offsets billing --all-topics --by-duration 1h --execute
    """
    from odradek.cli.group_resets import ResetPlan, parse_reset, plan_resets, print_resets

    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute contradict each other")
    if bool(topics) == all_topics:
        raise click.UsageError("give --topic (may be repeated), or --all-topics")
    reset = parse_reset(
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        to_datetime=to_datetime,
        by_duration=by_duration,
        shift_by=shift_by,
    )

    async def work(client: Client) -> list[ResetPlan]:
        from odradek.cli.group_resets import apply_resets

        plans = await plan_resets(client, group_id, topics, reset)
        if execute:
            await apply_resets(client, group_id, plans)
        return plans

    print_resets(session, session.run(work), is_done=execute)


@groups.command()
@click.argument("group_ids", nargs=-1, required=True, metavar="GROUP…")
@click.option("--if-exists", is_flag=True, help="A group that is not there is no error.")
@session_options
def delete(session: Session, *, group_ids: tuple[str, ...], if_exists: bool) -> int:
    """Delete groups with their committed offsets. Their consumers must be stopped first.

    \b
    Examples:
      odradek groups delete billing
      odradek groups delete a b --if-exists
    """

    async def work(client: Client) -> dict[str, Exception | None]:
        from odradek.client.admin.groups import GroupAdmin
        from odradek.foundation.errors import GroupIdNotFound, OdradekError

        outcome: dict[str, Exception | None] = {}
        for group_id in group_ids:
            try:
                await GroupAdmin(client).delete(group_id)
                outcome[group_id] = None
            except GroupIdNotFound as failure:
                outcome[group_id] = None if if_exists else failure
            except OdradekError as failure:
                outcome[group_id] = failure
        return outcome

    exit_code: int = ExitCode.OK
    documents: list[dict[str, Any]] = []
    for group_id, failure in session.run(work).items():
        if failure is None:
            documents.append({"group": group_id, "result": "deleted"})
            if not session.is_json:
                click.echo(f"deleted  {group_id}")
            continue
        exit_code = exit_code or exit_code_for(failure)
        documents.append(
            {"group": group_id, "result": "failed", "error": type(failure).__name__, "message": str(failure)}
        )
        click.echo(f"odradek: {failure}", err=True)
    if session.is_json:
        say(session.output, "", documents)
    return exit_code
