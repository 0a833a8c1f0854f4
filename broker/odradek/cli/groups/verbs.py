"""`odradek groups`: list, describe with lag, delete. `group_offsets` has the verbs that change offsets."""

from __future__ import annotations

import click

from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import complete_groups, one_of
from odradek.cli.shared.options import execute_options, session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.verb_groups import run_in

# Kafka's names (GroupState, GroupType), for classic and consumer groups; those in ZooKeeper have a type of their own.
STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty", "Assigning", "Reconciling")
TYPES = ("classic", "consumer", "share", "streams", "zookeeper")
VERBS = {
    "list": "odradek.cli.groups.verbs:list_groups",
    "describe": "odradek.cli.groups.verbs:describe",
    "reset-offsets": "odradek.cli.groups.group_offsets:reset_offsets",
    "delete-offsets": "odradek.cli.groups.group_offsets:delete_offsets",
    "delete": "odradek.cli.groups.verbs:delete",
    "check-pattern": "odradek.cli.groups.verbs:check_pattern",
}


@click.group(cls=LazyGroup, verbs=VERBS)
def groups() -> None:
    """List, describe, reset and delete consumer groups."""


@click.command("list", cls=WatchCommand)
@click.option(
    "--state",
    "states",
    multiple=True,
    metavar="STATE[,…]",
    shell_complete=one_of(STATES),
    help="Only in these states, as Stable or Empty; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE[,…]",
    shell_complete=one_of(TYPES),
    help=f"Only of these types: {', '.join(TYPES)}; may be repeated.",
)
@watch_option
@session_options
@run_in("odradek.cli.groups.verbs_run")
def list_groups() -> None:
    """List the groups: those that brokers coordinate, and those whose consumers share partitions through ZooKeeper.

    \b
    Examples:
      odradek groups list
      odradek groups list --state Stable,Empty
      odradek groups list --type consumer
    """


@click.command(cls=WatchCommand)
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="All groups, as without names.")
@click.option("--offsets", is_flag=True, help="Show the partitions; this is the default.")
@click.option("--members", is_flag=True, help="Show the members instead of the partitions.")
@click.option("--state", is_flag=True, help="Show one line for each group, without its offsets.")
@watch_option
@session_options
@run_in("odradek.cli.groups.verbs_run")
def describe() -> None:
    """Show the committed offsets and the lag of groups (all groups without names).

    Lag is the number of records that are not yet committed, and the seconds that the oldest of them has waited. Groups
    of consumers that share partitions through ZooKeeper have the type zookeeper; their members are consumer ids. A line
    below the group's name warns when commits are refused because its coordinator's disk is full. --verbose adds epochs,
    subscriptions and the members' target assignments.

    \b
    Examples:
      odradek groups describe billing
      odradek groups describe billing --members --verbose
      odradek groups describe --state
      odradek groups describe billing --watch
      odradek groups describe --output json | jq '.[].partitions[].lag_seconds'
    """


@click.command()
@click.argument("group_ids", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@click.option("--all-groups", is_flag=True, help="Every group there is, but for those in ZooKeeper.")
@click.option("--if-exists", is_flag=True, help="A group that does not exist is not an error.")
@execute_options
@session_options
@run_in("odradek.cli.groups.verbs_run")
def delete() -> None:
    """Delete groups with their committed offsets. Their consumers must be stopped first.

    \b
    Examples:
      odradek groups delete billing
      odradek groups delete billing --execute
      odradek groups delete a b --if-exists --execute
    """


@click.command("check-pattern")
@click.argument("pattern")
@session_options
@run_in("odradek.cli.groups.verbs_run")
def check_pattern() -> None:
    """Check whether brokers accept a pattern of topics (RE2, KIP-848). No broker is asked.

    \b
    Examples:
      odradek groups check-pattern 'orders-.*'
    """
