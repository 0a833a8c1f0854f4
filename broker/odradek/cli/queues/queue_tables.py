"""The tables of `odradek queues describe`: by partition, and by member."""

from __future__ import annotations

from collections.abc import Sequence

import click

from odradek.cli.shared.output import Document, count, in_color, print_table, state_in_color

_NO_QUEUE = "there is no queue"


def print_offsets(queues: Sequence[Document], *, is_verbose: bool) -> None:
    """One table for each queue, with its settings when `is_verbose`."""
    if not queues:
        click.echo(_NO_QUEUE)
    for number, queue in enumerate(queues):
        _print_title(queue, number)
        print_table(
            ["TOPIC", "PARTITION", "START", "LAG"],
            [[one["topic"], one["partition"], one["start"], one["lag"]] for one in queue["partitions"]],
            empty="it has begun no topic",
        )
        if is_verbose:
            print_table(["SETTING", "VALUE"], sorted(queue["settings"].items()), empty="no settings")


def print_members(queues: Sequence[Document], *, is_verbose: bool) -> None:
    """One table for each queue, with epochs and subscriptions when `is_verbose`."""
    if not queues:
        click.echo(_NO_QUEUE)
    keys = ["member_id", "client_id", "client_host", "assignment"]
    headers = ["MEMBER", "CLIENT", "HOST", "PARTITIONS"]
    if is_verbose:
        keys, headers = [*keys, "topics", "epoch"], [*headers, "SUBSCRIBES TO", "EPOCH"]
    for number, queue in enumerate(queues):
        _print_title(queue, number)
        rows = [[one[key] for key in keys] for one in queue["members"]]
        print_table(headers, rows, empty="it has no members")


def _print_title(queue: Document, number: int) -> None:
    if number:
        click.echo()
    state = in_color(state_in_color(queue["state"]))
    lag = "lag unknown" if queue["lag"] is None else f"lag {count(queue['lag'], 'record')}"
    click.echo(f"{queue['queue']}  {state}  {count(len(queue['members']), 'member')}  {lag}")
