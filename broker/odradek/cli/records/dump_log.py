"""`odradek dump-log`: prints the files of a partition, and verifies them."""

from __future__ import annotations

import click

from odradek.cli.shared.output import FORMATS
from odradek.foundation.verb_groups import run_in


@click.command("dump-log")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…", type=click.Path())
@click.option("--records", "with_records", is_flag=True, help="Print every record, not only batches.")
@click.option("--verify-only", is_flag=True, help="Print only a line for each file and its damage.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default=None, help="json: one object a line.")
@click.option("-v", "--verbose", is_flag=True, help="Show the trace of an error.")
@click.pass_context
@run_in("odradek.cli.records.dump_log_run")
def dump_log() -> None:
    """Print the batches in log files and verify them: CRCs, offsets, indexes, snapshots.

    Takes .log, .index, .timeindex, .txnindex and .snapshot files or directories that hold them. Exits with 8 when
    something is damaged. No broker is needed, and a running one is not disturbed.

    \b
    Examples:
      odradek dump-log ./data/orders-0
      odradek dump-log ./data/orders-0/00000000000000000000.log --records
      odradek dump-log ./data --verify-only
      odradek dump-log ./data --output json | jq 'select(.kind == "damage")'
    """
