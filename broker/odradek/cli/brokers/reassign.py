"""`odradek reassign`: plan moves of partitions, execute, watch and cancel them."""

from __future__ import annotations

import click

from odradek.cli.brokers.moves import (
    throttle_option,
    wait_option,
)
from odradek.cli.shared.completers import complete_topics
from odradek.cli.shared.options import session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import VerbGroup, run_in

plan_argument = click.argument("path", metavar="FILE", type=click.Path(dir_okay=False, allow_dash=True))


@click.group(cls=VerbGroup)
def reassign() -> None:
    """Move partitions between brokers by plans, as kafka-reassign-partitions does, and with its files."""


@reassign.command()
@click.option(
    "--drain", "drained", type=WholeNumber(min=0), metavar="ID", help="Move all replicas off a broker."
)
@click.option("--spread", is_flag=True, help="Give every broker equally many replicas.")
@click.option(
    "--onto",
    multiple=True,
    type=WholeNumber(min=0),
    metavar="ID",
    help="Give replicas only to this broker; may be repeated.",
)
@click.option(
    "-r",
    "--replication-factor",
    type=WholeNumber(min=1),
    help="Replicas of each partition of the named topics.",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC…]", shell_complete=complete_topics)
@session_options
@run_in("odradek.cli.brokers.reassign_run")
def plan() -> None:
    """Show the moves of a plan; with --output json as a file to execute.

    \b
    Examples:
      odradek reassign plan --drain 3
      odradek reassign plan --onto 4 --onto 5 --output json > plan.json
      odradek reassign plan orders payments --replication-factor 3
    """


@reassign.command()
@plan_argument
@click.option("--keep-factor", is_flag=True, help="Refuse a plan that would change the number of replicas.")
@throttle_option
@wait_option
@session_options
@run_in("odradek.cli.brokers.reassign_run")
def execute() -> None:
    """Begin the moves of a plan. A move that is under way is replaced, from the replicas before it.

    \b
    Examples:
      odradek reassign execute plan.json --throttle 50000000
      odradek reassign plan --spread -o json | odradek reassign execute - --wait
    """


@reassign.command()
@plan_argument
@click.option("--keep-throttle", is_flag=True, help="Keep the throttles at the end.")
@session_options
@run_in("odradek.cli.brokers.reassign_run")
def verify() -> None:
    """Show the progress of a plan, and lift its throttles at the end. The exit code is 0 then, else 7.

    \b
    Examples:
      odradek reassign verify plan.json
    """


@reassign.command()
@click.argument("path", metavar="[FILE]", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--all", "everything", is_flag=True, help="All moves that are under way.")
@session_options
@run_in("odradek.cli.brokers.reassign_run")
def cancel() -> None:
    """Cancel moves: replicas stay where they were before. Moves that have ended are kept.

    \b
    Examples:
      odradek reassign cancel plan.json
      odradek reassign cancel --all
    """


@reassign.command("list", cls=WatchCommand)
@watch_option
@session_options
@run_in("odradek.cli.brokers.reassign_run")
def list_moves() -> None:
    """Show the moves under way.

    \b
    Examples:
      odradek reassign list
      odradek reassign list --watch
    """
