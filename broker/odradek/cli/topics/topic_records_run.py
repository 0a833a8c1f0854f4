"""Runs `odradek topics offsets` and `odradek topics trim`."""

from __future__ import annotations

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import bad, count, print_errors, show
from odradek.cli.shared.record_offsets import FoundOffset, find_offsets, parse_at
from odradek.cli.shared.times import format_moment
from odradek.cli.shared.watch import look
from odradek.cli.topics.trims import Trim, apply_trims, parse_target, plan_trims
from odradek.client.client import Client
from odradek.foundation.errors import OdradekError


def offsets(session: CommandSession, *, names: tuple[str, ...], at: str, watch: float | None) -> int:
    timestamp_ms = parse_at(at)
    return look(
        session, lambda client: find_offsets(client, names, timestamp_ms), _show_offsets, every_seconds=watch
    )


def _show_offsets(session: CommandSession, found: list[FoundOffset]) -> int:
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP", "LEADER EPOCH"),
        rows=[
            (
                one.topic,
                one.partition,
                one.offset if one.error is None else bad(type(one.error).__name__),
                None if one.timestamp_ms is None else format_moment(one.timestamp_ms),
                one.leader_epoch,
            )
            for one in found
        ],
        document=[one.document() for one in found],
        empty="there is no topic",
    )
    return _report([one.error for one in found if one.error is not None])


def _report(failures: list[OdradekError]) -> int:
    """Print the errors on stderr. Returns the exit code of the first."""
    print_errors(failures)
    return exit_code_for(failures[0]) if failures else ExitCode.OK


def trim(
    session: CommandSession,
    *,
    names: tuple[str, ...],
    to_offset: int | None,
    to_datetime: str | None,
    to_latest: bool,
    from_file: str | None,
    execute: bool,
) -> int:
    target = parse_target(
        names, to_offset=to_offset, to_datetime=to_datetime, to_latest=to_latest, from_file=from_file
    )

    async def work(client: Client) -> list[Trim]:
        planned = await plan_trims(client, names, target)
        return await apply_trims(client, planned) if execute else planned

    trims = session.run(work)
    _show_trims(session, trims, is_done=execute)
    return _report([one.error for one in trims if one.error is not None])


def _show_trims(session: CommandSession, trims: list[Trim], *, is_done: bool) -> None:
    records = "RECORDS GONE" if is_done else "RECORDS TO GO"
    new_firsts = [one.new_first if one.error is None else bad("failed") for one in trims]
    show(
        session.output,
        headers=("TOPIC", "PARTITION", "FIRST", "NEW FIRST", "END", records),
        rows=[
            (one.topic, one.partition, one.first, new_first, one.end, one.records)
            for one, new_first in zip(trims, new_firsts, strict=True)
        ],
        document={"executed": is_done, "partitions": [one.document() for one in trims]},
        empty="no partition",
    )
    if not is_done:
        total = sum(one.records for one in trims)
        remedy = f"; add --execute to delete {count(total, 'record')}" if total else ""
        click.echo(f"dry run: nothing was deleted{remedy}", err=True)
