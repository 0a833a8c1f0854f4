"""`odradek topics offsets` and `odradek topics trim`: show offsets, and delete old records."""

from __future__ import annotations

import click

from odradek.cli.shared.completers import complete_partitions
from odradek.cli.shared.options import execute_options, session_options
from odradek.cli.shared.times import TIME_HELP
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in


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
@run_in("odradek.cli.topics.topic_records_run")
def offsets() -> None:
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


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITIONS]…]", shell_complete=complete_partitions)
@click.option("--to-offset", type=WholeNumber(min=0), metavar="N", help="Delete the records before N.")
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
@run_in("odradek.cli.topics.topic_records_run")
def trim() -> None:
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
