"""`odradek reassign`: plan moves of partitions, execute, watch and cancel them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.brokers.moves import (
    MOVES_HEADERS,
    begin,
    move_documents,
    move_rows,
    read_plan,
    say_begun,
    show_plan,
    throttle_option,
    wait_option,
)
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.completers import complete_topics
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.output import count, say, show, show_documents
from odradek.cli.shared.watch import WatchCommand, look, watch_option
from odradek.foundation.verb_groups import VerbGroup

if TYPE_CHECKING:
    from odradek.client.admin.plans import Plan
    from odradek.client.admin.reassignments import OngoingReassignment
    from odradek.client.client import Client
    from odradek.foundation.ids import TopicPartition

plan_argument = click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))


@click.group(cls=VerbGroup)
def reassign() -> None:
    """Move partitions between brokers by plans, as kafka-reassign-partitions does, and with its files."""


@reassign.command()
@click.option(
    "--drain", "drained", type=click.IntRange(min=0), metavar="ID", help="Move all replicas off a broker."
)
@click.option("--spread", is_flag=True, help="Give every broker equally many replicas.")
@click.option(
    "--onto",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="ID",
    help="Give replicas only to this broker; may be repeated.",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition of the named topics.",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC…]", shell_complete=complete_topics)
@session_options
def plan(
    session: CommandSession,
    *,
    drained: int | None,
    spread: bool,
    onto: tuple[int, ...],
    replication_factor: int | None,
    topics: tuple[str, ...],
) -> None:
    """Show the moves of a plan; with --output json as a file to execute.

    \b
    Examples:
      odradek reassign plan --drain 3
      odradek reassign plan --onto 4 --onto 5 --output json > plan.json
      odradek reassign plan orders payments --replication-factor 3
    """
    kinds = [drained is not None, spread or bool(onto), replication_factor is not None]
    if sum(kinds) != 1:
        raise click.UsageError("give one of --drain, --spread or --onto, and --replication-factor")
    if (replication_factor is not None) != bool(topics):
        raise click.UsageError("topics are named with --replication-factor, and only with it")

    async def work(client: Client) -> tuple[Plan, Plan]:
        from odradek.client.admin.brokers import BrokerAdmin

        admin = BrokerAdmin(client)
        before = await admin.reassignments.assignment()
        if drained is not None:
            return await admin.plan_drain(drained), before
        if replication_factor is not None:
            return await admin.plan_factor(topics, factor=replication_factor), before
        return await admin.plan_spread(onto or None), before

    show_plan(session, *session.run(work))


@reassign.command()
@plan_argument
@click.option("--keep-factor", is_flag=True, help="Refuse a plan that would change the number of replicas.")
@throttle_option
@wait_option
@session_options
def execute(
    session: CommandSession, *, path: str, keep_factor: bool, throttle: int | None, wait: bool
) -> None:
    """Begin the moves of a plan. A move that is under way is replaced, from the replicas before it.

    \b
    Examples:
      odradek reassign execute plan.json --throttle 50000000
      odradek reassign plan --spread -o json | odradek reassign execute - --wait
    """
    from odradek.client.admin.brokers import BrokerAdmin

    wanted = read_plan(path)
    session.run(
        lambda client: begin(
            BrokerAdmin(client), wanted, throttle=throttle, wait=wait, may_change_factor=not keep_factor
        )
    )
    say_begun(session, wanted, waited=wait)


@reassign.command()
@plan_argument
@click.option("--keep-throttle", is_flag=True, help="Keep the throttles at the end.")
@session_options
def verify(session: CommandSession, *, path: str, keep_throttle: bool) -> int:
    """Show the progress of a plan, and lift its throttles at the end. The exit code is 0 then, else 7.

    \b
    Examples:
      odradek reassign verify plan.json
    """
    wanted = read_plan(path)

    async def work(client: Client) -> list[dict[str, object]]:
        from odradek.client.admin.brokers import BrokerAdmin

        admin = BrokerAdmin(client)
        moving = await admin.reassignments.under_way(wanted)
        found = await admin.reassignments.assignment({where.topic for where in wanted})
        rows = [
            {
                "topic": where.topic,
                "partition": where.partition,
                "replicas": list(moving[where].replicas if where in moving else found.get(where, ())),
                "result": _result(where, replicas, moving, found),
            }
            for where, replicas in sorted(wanted.items())
        ]
        if not moving and not keep_throttle:
            await admin.lift_throttles(wanted)
        return rows

    rows = session.run(work)
    show_documents(
        session.output,
        ("topic", "partition", "replicas", "result"),
        rows,
        empty="the plan names no partition",
    )
    return ExitCode.OK if all(row["result"] == "done" for row in rows) else ExitCode.REFUSED


def _result(
    where: TopicPartition,
    replicas: tuple[int, ...],
    moving: dict[TopicPartition, OngoingReassignment],
    found: dict[TopicPartition, tuple[int, ...]],
) -> str:
    if where in moving:
        return "moving" if set(moving[where].target) == set(replicas) else "moving elsewhere"
    if where not in found:
        return "no such partition"
    return "done" if found[where] == replicas else "not as planned"


@reassign.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--all", "everything", is_flag=True, help="All moves that are under way.")
@session_options
def cancel(session: CommandSession, *, path: str | None, everything: bool) -> None:
    """Cancel moves: replicas stay where they were before. Moves that have ended are kept.

    \b
    Examples:
      odradek reassign cancel plan.json
      odradek reassign cancel --all
    """
    if (path is None) == (not everything):
        raise click.UsageError("give the file of a plan, or --all")
    wanted = None if path is None else read_plan(path)

    async def work(client: Client) -> int:
        from odradek.client.admin.brokers import BrokerAdmin, raise_refusals

        admin = BrokerAdmin(client)
        moving = await admin.reassignments.under_way(wanted)
        raise_refusals(await admin.reassignments.cancel(moving))
        if moving:
            await admin.lift_throttles(moving)
        return len(moving)

    taken_back = session.run(work)
    document = {"result": "cancelled", "moves": taken_back}
    say(session.output, f"cancelled  {count(taken_back, 'move')}", document)


@reassign.command("list", cls=WatchCommand)
@watch_option
@session_options
def list_moves(session: CommandSession, *, watch: float | None) -> int:
    """Show the moves under way.

    \b
    Examples:
      odradek reassign list
      odradek reassign list --watch
    """
    from odradek.client.admin.reassignments import ReassignmentAdmin

    return look(
        session, lambda client: ReassignmentAdmin(client).under_way(), _show_moves, every_seconds=watch
    )


def _show_moves(session: CommandSession, moving: dict[TopicPartition, OngoingReassignment]) -> None:
    show(
        session.output,
        headers=MOVES_HEADERS,
        rows=move_rows(moving),
        document=move_documents(moving),
        empty="no partition is moving",
    )
