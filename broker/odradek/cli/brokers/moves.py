"""The common part of verbs that move partitions: plans as files and as tables, and the wait for their end. The format
of a file is that of kafka-reassign-partitions, so that each tool reads the other's plans: {"version": 1, "partitions":
[{"topic": "t", "partition": 0, "replicas": [1, 2]}, …]}
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import click

from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import count, format_bytes, show, show_document
from odradek.foundation.ids import TopicPartition
from odradek.foundation.option_types import WholeNumber

if TYPE_CHECKING:
    from odradek.client.admin.brokers import BrokerAdmin
    from odradek.client.admin.plans import Plan
    from odradek.client.admin.reassignments import OngoingReassignment

_LOOK_SECONDS = 1.0
_VERSION = 1


throttle_option = click.option(
    "--throttle",
    type=WholeNumber(min=1),
    metavar="BYTES",
    help="Bytes per second that each broker may send and fetch for the moves; replicas in sync are not throttled.",
)
wait_option = click.option(
    "--wait",
    is_flag=True,
    help="Wait for the end, then lift the throttle. Ctrl-C ends the waiting, not the moves.",
)


def read_plan(path: str) -> Plan:
    """The plan in a file. Raises FileNotFoundError, and ValueError with the mistake."""
    try:
        with click.open_file(path) as file:
            rows = _rows_of(json.loads(file.read()))
    except ValueError as failure:
        raise ValueError(
            f"{path} is not a plan ({failure}); `odradek reassign plan --output json` writes one, such as "
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        ) from failure
    plan = dict(rows)
    if len(plan) < len(rows):
        raise ValueError(f"{path} names a partition twice")
    if not plan:
        raise ValueError(f"{path} has no partitions")
    return plan


def _rows_of(document: object) -> list[tuple[TopicPartition, tuple[int, ...]]]:
    """Each partition with its replicas, as the document names them. Raises ValueError."""
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ValueError("it has no list of partitions")
    if document.get("version", _VERSION) != _VERSION:
        raise ValueError(f"its version is {document['version']}, and {_VERSION} is what is known")
    rows = []
    for row in document["partitions"]:
        match row:
            case {"topic": str(topic), "partition": int(number), "replicas": list(replicas)} if all(
                type(one) is int for one in replicas
            ):
                rows.append((TopicPartition(topic, number), tuple(replicas)))
            case _:
                raise ValueError(f"{json.dumps(row)[:200]} names no topic, partition and list of brokers")
    return rows


def plan_document(plan: Mapping[TopicPartition, Collection[int]]) -> dict[str, object]:
    return {
        "version": _VERSION,
        "partitions": [
            {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
            for where, replicas in sorted(plan.items())
        ],
    }


def show_plan(session: CommandSession, plan: Plan, before: Plan) -> None:
    """Print the old and new replicas of each partition for people, and the plan itself for programs."""
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "REPLICAS", "WILL BE"),
        rows=[
            (where.topic, where.partition, list(before.get(where, ())), list(replicas))
            for where, replicas in sorted(plan.items())
        ],
        document=plan_document(plan),
        empty="nothing has to move",
    )


MOVES_HEADERS = ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING")


def move_rows(moving: Mapping[TopicPartition, OngoingReassignment]) -> list[tuple[object, ...]]:
    """The moves under way as rows under `MOVES_HEADERS`."""
    return [(*where, one.replicas, one.adding, one.removing) for where, one in sorted(moving.items())]


def move_documents(moving: Mapping[TopicPartition, OngoingReassignment]) -> list[dict[str, object]]:
    """The moves under way, for programs."""
    return [
        {"topic": where.topic, "partition": where.partition, "move": one}
        for where, one in sorted(moving.items())
    ]


async def begin(
    brokers: BrokerAdmin, plan: Plan, *, throttle: int | None, wait: bool, may_change_factor: bool = True
) -> None:
    """Execute a plan, and with `wait` return when it has ended."""
    await brokers.execute(plan, bytes_per_second=throttle, may_change_factor=may_change_factor)
    if wait:
        await wait_until_ended(brokers, plan)


async def wait_until_ended(brokers: BrokerAdmin, plan: Plan) -> None:
    """Wait until no partition of `plan` moves any more, and lift the throttle. Each change of the remaining count is
    printed on stderr.
    """
    shown: tuple[int, int] | None = None
    while left := await brokers.reassignments.under_way(plan):
        now = len(left), await brokers.bytes_left(left)
        if now != shown:
            shown = now
            click.echo(f"still moving: {count(now[0], 'partition')}, {format_bytes(now[1])} left", err=True)
        await asyncio.sleep(_LOOK_SECONDS)
    await brokers.lift_throttles(plan)


def show_moves(session: CommandSession, plan: Plan, before: Plan, *, is_planned: bool, waited: bool) -> None:
    """Print a plan, or that its moves began or ended."""
    if is_planned:
        show_plan(session, plan, before)
    else:
        say_begun(session, plan, waited=waited)


def say_begun(session: CommandSession, plan: Plan, *, waited: bool) -> None:
    """Print that moves began, or ended."""
    verb = "moved" if waited else "moving"
    if session.is_json:
        show_document(session.output, {**plan_document(plan), "result": verb})
    elif not plan:
        click.echo("nothing has to move")
    else:
        hint = "" if waited else "; `odradek reassign list` shows their progress"
        click.echo(f"{verb}  {count(len(plan), 'partition')}{hint}")
