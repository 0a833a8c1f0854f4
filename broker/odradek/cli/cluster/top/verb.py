"""`odradek top`: a cluster at a terminal, live."""

from __future__ import annotations

import click

from odradek.cli.shared.admin_option import admin_option
from odradek.cli.shared.options import session_options
from odradek.cli.shared.watch import SECONDS_DEFAULT, SECONDS_MAX
from odradek.foundation.option_types import AnyNumber
from odradek.foundation.verb_groups import run_in


@click.command()
@click.option(
    "--every",
    "every_seconds",
    type=AnyNumber(min=0.2, max=SECONDS_MAX),
    default=SECONDS_DEFAULT,
    show_default=True,
    metavar="SECONDS",
    help="The time between two looks.",
)
@click.option("--once", is_flag=True, help="Print plain tables and end.")
@admin_option("The --admin port of a broker, for bytes in and out; may be given for each broker.")
@session_options
@run_in("odradek.cli.cluster.top.verb_run")
def top() -> None:
    """Show a cluster at this terminal, live: brokers, partitions with a problem, topics and groups with their rates,
    queues, and what is wrong. It changes nothing, and works with Apache Kafka, too.

    Rates come from two looks at the ends of logs and at committed offsets. Bytes are those by which logs grow on disk.
    With --admin they are what brokers count, in and out.

    Keys: q ends it. Tab and the arrows to the sides choose a list. s or a number chooses the column that sorts, r turns
    the order around. / filters, Enter shows all about a row, and ? shows all keys.

    Without a terminal, with --once and with --output json it looks twice, prints the second look, and ends. The screen
    needs a package: pip install 'odradek[top]'.

    \b
    Examples:
      odradek top
      odradek top --every 5 --admin kafka-1:8080 --admin kafka-2:8080
      odradek top --once
      odradek top --output json | jq '.groups[] | select(.lag > 1000)'
    """
