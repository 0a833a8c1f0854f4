"""`odradek transactions`: list and describe transactional ids, find transactions that hang, abort one."""

from __future__ import annotations

import click

from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import complete_partitions, one_of
from odradek.cli.shared.options import execute_options, session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

# Kafka's names (TransactionState).
STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
VERBS = {
    "list": "odradek.cli.groups.transactions:list_transactions",
    "describe": "odradek.cli.groups.transactions:describe",
    "describe-producers": "odradek.cli.groups.transactions:describe_producers",
    "find-hanging": "odradek.cli.groups.transactions:find_hanging",
    "abort": "odradek.cli.groups.transactions:abort",
}
# The longest timeout that brokers allow by default (transaction.max.timeout.ms).
HANGING_AFTER = "15m"


@click.group(cls=LazyGroup, verbs=VERBS)
def transactions() -> None:
    """List and describe transactions, find and abort those that hang."""


@click.command("list", cls=WatchCommand)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE",
    type=click.Choice(STATES, case_sensitive=False),
    shell_complete=one_of(STATES),
    help="Only in this state, as Ongoing; may be repeated.",
)
@click.option(
    "--producer-id",
    "producer_ids",
    multiple=True,
    type=WholeNumber(),
    help="Only of this producer id; may be repeated.",
)
@click.option("--longer-than", metavar="DURATION", help="Only begun longer ago than this, as 5m.")
@click.option("--pattern", metavar="RE2", help="Only ids that match the whole pattern.")
@watch_option
@session_options
@run_in("odradek.cli.groups.transactions_run")
def list_transactions() -> None:
    """List the transactional ids of all brokers.

    \b
    Examples:
      odradek transactions list
      odradek transactions list --state Ongoing --longer-than 5m
    """


@click.command(cls=WatchCommand)
@click.argument("transactional_ids", nargs=-1, required=True, metavar="ID…")
@watch_option
@session_options
@run_in("odradek.cli.groups.transactions_run")
def describe() -> None:
    """Show the state of transactional ids, and the partitions of an open transaction.

    \b
    Examples:
      odradek transactions describe billing-0
    """


@click.command("describe-producers")
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC[:PARTITIONS]…", shell_complete=complete_partitions
)
@session_options
@run_in("odradek.cli.groups.transactions_run")
def describe_producers() -> None:
    """Show the producers whose state the leaders of partitions have, and their open transactions.

    \b
    Examples:
      odradek transactions describe-producers orders
      odradek transactions describe-producers orders:0,2
    """


@click.command("find-hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC[:PARTITIONS]…]", shell_complete=complete_partitions)
@click.option(
    "--longer-than",
    metavar="DURATION",
    default=HANGING_AFTER,
    show_default=True,
    help="Only without a record for this long; at least the longest transaction timeout of your producers.",
)
@session_options
@run_in("odradek.cli.groups.transactions_run")
def find_hanging() -> None:
    """Find transactions that are open in a partition although their coordinator has none (all topics without names).

    Readers of committed records wait for such a transaction for ever. `odradek transactions abort` ends it.

    \b
    Examples:
      odradek transactions find-hanging
      odradek transactions find-hanging orders --longer-than 1h
    """


@click.command()
@click.argument("partition", metavar="TOPIC:PARTITION", shell_complete=complete_partitions)
@click.option(
    "--start-offset",
    type=WholeNumber(),
    required=True,
    metavar="OFFSET",
    help="Its first offset, from find-hanging.",
)
@execute_options
@session_options
@run_in("odradek.cli.groups.transactions_run")
def abort() -> None:
    """Abort a transaction that hangs in one partition, past its coordinator.

    Without --execute it only shows the transaction. Use it only on what find-hanging shows: a producer whose
    transaction is still alive would commit half of it.

    \b
    Examples:
      odradek transactions abort orders:2 --start-offset 4711
      odradek transactions abort orders:2 --start-offset 4711 --execute
    """
