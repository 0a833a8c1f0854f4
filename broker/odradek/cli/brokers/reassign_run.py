"""Runs `odradek reassign`: plans, begins, follows and cancels moves of replicas."""

from __future__ import annotations

import click

from odradek.cli.brokers.moves import (
    MOVES_HEADERS,
    begin,
    move_documents,
    move_rows,
    read_plan,
    say_begun,
    show_plan,
)
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, say, show, show_documents
from odradek.cli.shared.watch import look
from odradek.client.admin.brokers import BrokerAdmin, raise_refusals
from odradek.client.admin.plans import Plan
from odradek.client.admin.reassignments import OngoingReassignment, ReassignmentAdmin
from odradek.client.client import Client
from odradek.foundation.ids import TopicPartition


def plan(
    session: CommandSession,
    *,
    drained: int | None,
    spread: bool,
    onto: tuple[int, ...],
    replication_factor: int | None,
    topics: tuple[str, ...],
) -> None:
    kinds = [drained is not None, spread or bool(onto), replication_factor is not None]
    if sum(kinds) != 1:
        raise click.UsageError("give one of --drain, --spread or --onto, and --replication-factor")
    if (replication_factor is not None) != bool(topics):
        raise click.UsageError("topics are named with --replication-factor, and only with it")

    async def work(client: Client) -> tuple[Plan, Plan]:
        admin = BrokerAdmin(client)
        before = await admin.reassignments.assignment()
        if drained is not None:
            return await admin.plan_drain(drained), before
        if replication_factor is not None:
            return await admin.plan_factor(topics, factor=replication_factor), before
        return await admin.plan_spread(onto or None), before

    show_plan(session, *session.run(work))


def execute(
    session: CommandSession, *, path: str, keep_factor: bool, throttle: int | None, wait: bool
) -> None:
    wanted = read_plan(path)
    session.run(
        lambda client: begin(
            BrokerAdmin(client), wanted, throttle=throttle, wait=wait, may_change_factor=not keep_factor
        )
    )
    say_begun(session, wanted, waited=wait)


def verify(session: CommandSession, *, path: str, keep_throttle: bool) -> int:
    wanted = read_plan(path)

    async def work(client: Client) -> list[dict[str, object]]:
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


def cancel(session: CommandSession, *, path: str | None, everything: bool) -> None:
    if (path is None) == (not everything):
        raise click.UsageError("give the file of a plan, or --all")
    wanted = None if path is None else read_plan(path)

    async def work(client: Client) -> int:
        admin = BrokerAdmin(client)
        moving = await admin.reassignments.under_way(wanted)
        raise_refusals(await admin.reassignments.cancel(moving))
        if moving:
            await admin.lift_throttles(moving)
        return len(moving)

    taken_back = session.run(work)
    document = {"result": "cancelled", "moves": taken_back}
    say(session.output, f"cancelled  {count(taken_back, 'move')}", document)


def list_moves(session: CommandSession, *, watch: float | None) -> int:
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
