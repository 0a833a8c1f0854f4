"""What the verbs that move partitions share: plans as files in Kafka's format, as tables, and their way to the end.

The format is that of kafka-reassign-partitions, so that plans can be handed to and fro:
{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}, …]}
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.options import Session
from odradek.cli.output import format_bytes, show

if TYPE_CHECKING:
    from odradek.client.admin.brokers import BrokerAdmin
    from odradek.client.admin.plans import Plan
    from odradek.foundation.ids import TopicPartition

_LOOK_SECONDS = 1.0


def throttle_option(function: Any) -> Any:
    """`--throttle`."""
    return click.option(
        "--throttle",
        type=click.IntRange(min=1),
        metavar="BYTES",
        help="Bytes per second that each broker may feed and fetch for the moves; replicas in sync are not slowed.",
    )(function)


def wait_option(function: Any) -> Any:
    """`--wait`."""
    return click.option(
        "--wait",
        is_flag=True,
        help="Wait for the end, and lift the throttle then. Ctrl-C ends the waiting, not the moves.",
    )(function)


def read_plan(path: str) -> Plan:
    """The plan in a file. Raises FileNotFoundError, and ValueError with what is wrong."""
    from odradek.foundation.ids import TopicPartition

    with click.open_file(path) as file:
        text = file.read()
    try:
        rows = json.loads(text)["partitions"]
        plan = {
            TopicPartition(str(row["topic"]), int(row["partition"])): tuple(map(int, row["replicas"]))
            for row in rows
        }
    except (ValueError, KeyError, TypeError) as failure:
        words = f"no {failure}" if isinstance(failure, KeyError) else str(failure)
        raise ValueError(
            f'{path} is no plan ({words}); it looks like {{"version": 1, "partitions": [{{"topic": "t", '
            f'"partition": 0, "replicas": [1, 2]}}]}}, as `odradek reassign plan --output json` writes it'
        ) from failure
    if len(plan) < len(rows):
        raise ValueError(f"{path} names a partition twice")
    if not plan:
        raise ValueError(f"{path} has no partitions in it")
    return plan


def plan_document(plan: Mapping[TopicPartition, Collection[int]]) -> dict[str, Any]:
    """A plan as JSON has it."""
    return {
        "version": 1,
        "partitions": [
            {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
            for where, replicas in sorted(plan.items())
        ],
    }


def show_plan(session: Session, plan: Plan, before: Mapping[TopicPartition, tuple[int, ...]]) -> None:
    """For people what changes from what to what; for programs the plan itself."""
    if not plan and not session.is_json:
        click.echo("nothing has to move")
        return
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "REPLICAS", "WILL BE"),
        rows=[
            (where.topic, where.partition, list(before.get(where, ())), list(replicas))
            for where, replicas in sorted(plan.items())
        ],
        document=plan_document(plan),
    )


async def begin(
    brokers: BrokerAdmin, plan: Plan, *, throttle: int | None, wait: bool, may_change_factor: bool = True
) -> None:
    """Execute a plan, and with `wait` come back when it has ended."""
    await brokers.execute(plan, bytes_per_second=throttle, may_change_factor=may_change_factor)
    if wait:
        await until_ended(brokers, plan, lifts_throttle=throttle is not None)


async def until_ended(brokers: BrokerAdmin, plan: Plan, *, lifts_throttle: bool) -> None:
    """Wait until nothing of `plan` moves any more; what is left is told on stderr whenever it changes."""
    told: tuple[int, int] | None = None
    while left := await brokers.reassignments.under_way(plan):
        now = len(left), await brokers.bytes_left(left)
        if now != told:
            told = now
            click.echo(f"{now[0]} partitions are moving, {format_bytes(now[1])} left", err=True)
        await asyncio.sleep(_LOOK_SECONDS)
    if lifts_throttle:
        await lift_throttles(brokers, plan)


async def lift_throttles(brokers: BrokerAdmin, plan: Mapping[TopicPartition, Any]) -> None:
    """Of a plan's topics, and of all live brokers unless something else is moving."""
    others = await brokers.reassignments.under_way()
    live = [] if others else [one.id for one in await brokers.list()]
    await brokers.reassignments.unthrottle(topics={where.topic for where in plan}, brokers=live)


def say_begun(session: Session, plan: Plan, *, waited: bool) -> None:
    """That moves began, or ended."""
    verb = "moved" if waited else "moving"
    if session.is_json:
        show(session.output, headers=(), rows=(), document={**plan_document(plan), "result": verb})
    elif not plan:
        click.echo("nothing has to move")
    else:
        hint = "" if waited else "; `odradek reassign list` shows how far they are"
        click.echo(f"{verb}  {len(plan)} partitions{hint}")
