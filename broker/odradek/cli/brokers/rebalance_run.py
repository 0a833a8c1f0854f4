"""Runs `odradek brokers rebalance`: measures the load, plans, moves, and elects preferred leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import click

from odradek.cli.brokers.moves import begin, wait_until_ended
from odradek.cli.brokers.rebalance import PERCENT
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import (
    Document,
    count,
    format_bytes,
    plain,
    print_error,
    print_table,
    say,
    show_document,
)
from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancePlan, BalanceTolerance, BrokerTotals, ClusterLoad
from odradek.client.admin.brokers import BrokerAdmin
from odradek.client.admin.machine_balance import plan_within_machines
from odradek.client.client import Client
from odradek.foundation.errors import ElectionNotNeeded
from odradek.foundation.ids import TopicPartition


def rebalance(
    session: CommandSession,
    *,
    broker_ids: tuple[int, ...],
    is_planned: bool,
    stop: bool,
    throttle: int | None,
    batch: int,
    tolerance: float,
    sample_seconds: float,
    within_machines: bool,
    wait: bool,
) -> None:
    if is_planned and stop:
        raise click.UsageError("--plan and --stop contradict each other")
    if stop:
        if broker_ids:
            raise click.UsageError("--stop takes no broker: it cancels all moves of a rebalance")
        _stop(session)
        return

    async def work(client: Client) -> tuple[ClusterLoad, BalancePlan, int]:
        admin = BrokerAdmin(client)
        load = await admin.measure_load(broker_ids or None, sample_seconds=sample_seconds)
        for broker, reason in load.silent.items():
            print_error(f"broker {broker} takes no part: {reason}")
        allowed = BalanceTolerance(share=tolerance / PERCENT)
        plan_load = plan_within_machines if within_machines else plan_balance
        plan = await asyncio.to_thread(plan_load, load, allowed)
        resumed = 0 if is_planned else await _run(admin, plan, throttle=throttle, batch=batch)
        return load, plan, resumed

    load, plan, resumed = session.run(work)
    if is_planned:
        _show(session, load, plan, batches=len(list(plan.batches(moves_max=batch))))
    elif not show_document(session.output, _document(load, plan) | {"result": "moved", "resumed": resumed}):
        arrived = f"moved  {count(resumed, 'partition')} under way" if resumed else "nothing has to move"
        click.echo(arrived if plan.is_empty else _summary(plan, "moved"))


def _stop(session: CommandSession) -> None:
    stopped = session.run(lambda client: BrokerAdmin(client).stop_balance())
    say(
        session.output,
        f"stopped  {count(len(stopped), 'move')} cancelled",
        {"result": "stopped", "moves": len(stopped)},
    )


async def _run(admin: BrokerAdmin, plan: BalancePlan, *, throttle: int | None, batch: int) -> int:
    """Run a plan after the moves that are under way. Returns how many those were."""
    resumed = await admin.find_balancing()
    try:
        if resumed:
            before = {where: one.target for where, one in resumed.items()}
            click.echo(f"resuming: {count(len(before), 'partition')} under way", err=True)
            if throttle is not None:
                await admin.reassignments.throttle(before, bytes_per_second=throttle)
            await wait_until_ended(admin, before)
        batches = list(plan.batches(moves_max=batch))
        for number, moves in enumerate(batches, start=1):
            size_bytes = sum(plan.bytes_of[where] for where in moves)
            step = f"batch {number} of {len(batches)}: {count(len(moves), 'partition')}"
            click.echo(f"{step}, {format_bytes(size_bytes)}", err=True)
            await begin(admin, moves, throttle=throttle, wait=True)
            await _elect(admin, moves)
        await _elect(admin, plan.elections)
    except asyncio.CancelledError:
        await _say_stopped(admin)
        raise
    return len(resumed)


async def _elect(admin: BrokerAdmin, partitions: Collection[TopicPartition]) -> None:
    """Let preferred leaders lead. One that cannot yet is elected by the cluster later."""
    if not partitions:
        return
    outcome = await admin.reassignments.elect_leaders(partitions)
    failed = [one for one in outcome.values() if one is not None and not isinstance(one, ElectionNotNeeded)]
    if failed:
        print_error(f"{count(len(failed), 'leader')} will change later: {failed[0]}")


async def _say_stopped(admin: BrokerAdmin) -> None:
    left = await admin.find_balancing()
    if not left:
        await admin.lift_throttles()
    moving = f"{count(len(left), 'partition')} under way will arrive" if left else "nothing is moving"
    click.echo(f"stopped: {moving}. `odradek brokers rebalance` resumes, and --stop cancels.", err=True)


def _summary(plan: BalancePlan, verb: str) -> str:
    replicas, leaders = count(plan.replica_moves, "replica"), count(plan.leader_moves, "leader")
    return f"{verb}  {replicas} ({format_bytes(plan.bytes_to_move)}) and {leaders}"


def _show(session: CommandSession, load: ClusterLoad, plan: BalancePlan, *, batches: int) -> None:
    """Print brokers before and after, then the moves in their order."""
    if show_document(session.output, _document(load, plan)):
        return
    headers = ["ID", *(word for name in _columns(load) for word in (name, "WILL BE"))]
    rows = [
        [
            broker,
            *(
                cell
                for pair in zip(_cells(load, one), _cells(load, plan.after[broker]), strict=True)
                for cell in pair
            ),
        ]
        for broker, one in plan.before.items()
    ]
    print_table(headers, rows, empty="no broker takes part")
    if plan.is_empty:
        click.echo("\nnothing has to move")
    else:
        click.echo()
        print_table(
            ("TOPIC", "PARTITION", "REPLICAS", "WILL BE"),
            [
                (where.topic, where.partition, list(load.partitions[where].replicas), list(replicas))
                for where, replicas in plan.moves.items()
            ],
            empty="no replica has to move",
        )
        tail = "" if not batches else " in 1 batch" if batches == 1 else f" in {batches} batches"
        click.echo(f"\n{_summary(plan, 'would move')}{tail}")
    if plan.unmet:
        click.echo(f"still uneven then: {', '.join(goal.words for goal in plan.unmet)}")
    if plan.without_room:
        noun = "broker" if len(plan.without_room) == 1 else "brokers"
        click.echo(
            f"too little free space for more: {noun} {', '.join(map(str, plan.without_room))}. "
            "Larger volumes or a shorter retention make room"
        )
    if plan.is_unfinished:
        click.echo("the plan has reached its bound: the next one continues")


def _columns(load: ClusterLoad) -> tuple[str, ...]:
    return ("REPLICAS", "LEADERS", "SIZE", *(("IN", "OUT") if load.has_rates else ()))


def _cells(load: ClusterLoad, one: BrokerTotals) -> list[object]:
    cells: list[object] = [one.replicas, one.leaders, format_bytes(one.size_bytes)]
    if load.has_rates:
        cells += [f"{format_bytes(rate)}/s" for rate in (one.bytes_in_per_second, one.bytes_out_per_second)]
    return cells


def _document(load: ClusterLoad, plan: BalancePlan) -> Document:
    """The plan for programs, with the fields of a file for `odradek reassign execute`."""

    def totals(one: BrokerTotals) -> Document:
        found: Document = plain(one)
        if not load.has_rates:
            found |= dict.fromkeys(("bytes_in_per_second", "bytes_out_per_second"))
        return found

    return {
        "version": 1,
        "partitions": [
            {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
            for where, replicas in plan.moves.items()
        ],
        "elections": [{"topic": where.topic, "partition": where.partition} for where in plan.elections],
        "replica_moves": plan.replica_moves,
        "leader_moves": plan.leader_moves,
        "bytes_to_move": plan.bytes_to_move,
        "brokers": [
            {"id": broker, "before": totals(one), "after": totals(plan.after[broker])}
            for broker, one in plan.before.items()
        ],
        "unmet": [goal.name.lower() for goal in plan.unmet],
        "without_room": list(plan.without_room),
        "is_unfinished": plan.is_unfinished,
    }
