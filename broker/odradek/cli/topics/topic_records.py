"""`odradek topics offsets` and `odradek topics trim`: show offsets, and delete old records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode, exit_code_for
from odradek.cli.shared.completers import complete_partitions
from odradek.cli.shared.options import CommandSession, execute_options, session_options
from odradek.cli.shared.output import bad, count, print_errors, show
from odradek.cli.shared.times import TIME_HELP
from odradek.cli.shared.watch import WatchCommand, look, watch_option

if TYPE_CHECKING:
    from odradek.cli.shared.record_offsets import FoundOffset
    from odradek.cli.topics.trims import Trim
    from odradek.client.client import Client
    from odradek.foundation.errors import OdradekError


@click.command(cls=WatchCommand)
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITIONS]…]", shell_complete=complete_partitions)
@click.option(
    "--at",
    default="latest",
    show_default=True,
    metavar="TIME|earliest|latest|max-timestamp",
    help="The first record at or after a time, the first kept, the end, or the record with the latest time.",
)
@watch_option
@session_options
def offsets(session: CommandSession, *, names: tuple[str, ...], at: str, watch: float | None) -> int:
    """Show the offset of each partition at a time, as kafka-get-offsets does. Without names all topics are shown.

    TIME is as for consume: 2026-03-01T12:00:00Z, 5m (ago), or milliseconds since 1970. A dash means that no
    record is that young.

    \b
    Examples:
      odradek topics offsets orders
      odradek topics offsets orders payments:0,2-3 --at earliest
      odradek topics offsets orders --at 2026-03-01T12:00:00Z --output json
      odradek topics offsets orders --at max-timestamp
    """
    from odradek.cli.shared.record_offsets import find_offsets, parse_at

    timestamp_ms = parse_at(at)
    return look(
        session, lambda client: find_offsets(client, names, timestamp_ms), _show_offsets, every_seconds=watch
    )


def _show_offsets(session: CommandSession, found: list[FoundOffset]) -> int:
    from odradek.cli.shared.times import format_moment

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


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITIONS]…]", shell_complete=complete_partitions)
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Delete the records before N.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help=f"Delete the records before the first one from a time on: {TIME_HELP}.",
)
@click.option("--to-latest", is_flag=True, help="Delete all records.")
@click.option(
    "--from-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Offsets for each partition, in the format of kafka-delete-records.",
)
@execute_options
@session_options
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
    """Delete the oldest records of partitions. They cannot be restored.

    An offset past the high watermark is refused, and then nothing is deleted anywhere; one before the first
    record deletes nothing. Disk space is freed by whole segments, a moment later.

    \b
    Examples:
      odradek topics trim orders --to-datetime 7d
      odradek topics trim orders --to-datetime 2026-03-01T00:00:00Z --execute
      odradek topics trim orders:0,2 --to-offset 1000 --execute
      odradek topics trim --from-file offsets.json --execute
    """
    from odradek.cli.topics.trims import apply_trims, parse_target, plan_trims

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
        total = count(sum(one.records for one in trims), "record")
        click.echo(f"dry run: nothing was deleted; add --execute to delete {total}", err=True)
