"""`odradek topics`: verbs that create, change and delete topics. `topic_views` has those that show them."""

from __future__ import annotations

import click

from odradek.cli.lazy import LazyGroup
from odradek.cli.shared.completers import (
    complete_partition_numbers,
    complete_topic_assignments,
    complete_topic_keys,
    complete_topics,
)
from odradek.cli.shared.options import (
    Decorator,
    execute_options,
    session_options,
)
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

VERBS = {
    "list": "odradek.cli.topics.topic_views:list_topics",
    "create": "odradek.cli.topics.verbs:create",
    "describe": "odradek.cli.topics.topic_views:describe",
    "alter": "odradek.cli.topics.verbs:alter",
    "delete": "odradek.cli.topics.verbs:delete",
    "offsets": "odradek.cli.topics.topic_records:offsets",
    "trim": "odradek.cli.topics.topic_records:trim",
    "elect-leaders": "odradek.cli.topics.verbs:elect_leaders",
}


def _config_option(help: str) -> Decorator:
    return click.option(
        "-c",
        "--config",
        "configs",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=complete_topic_assignments,
        help=help,
    )


@click.group(cls=LazyGroup, verbs=VERBS)
def topics() -> None:
    """List, create, describe, alter, trim and delete topics."""


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option("-p", "--partitions", type=WholeNumber(min=1), help="Default: the broker's num.partitions.")
@click.option("-r", "--replication-factor", type=WholeNumber(min=1), help="Default: the broker's.")
@_config_option("May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists already is not an error.")
@click.option("--validate-only", is_flag=True, help="Check, but create nothing.")
@session_options
@run_in("odradek.cli.topics.verbs_run")
def create() -> None:
    """Create topics.

    \b
    Examples:
      odradek topics create orders --partitions 6
      odradek topics create sessions --config cleanup.policy=compact --config segment.ms=3600000
      odradek topics create orders --if-not-exists
    """


@click.command()
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@click.option("-p", "--partitions", type=WholeNumber(min=1), help="The new total number of partitions.")
@click.option(
    "-r",
    "--replication-factor",
    type=WholeNumber(min=1),
    help="The new number of replicas of each partition.",
)
@_config_option("Set; may be repeated.")
@click.option(
    "--unset",
    multiple=True,
    metavar="KEY",
    shell_complete=complete_topic_keys,
    help="Back to the default; may be repeated.",
)
@session_options
@run_in("odradek.cli.topics.alter_run")
def alter() -> None:
    """Give a topic more partitions, more or fewer replicas, or other settings. More partitions change the partition of
    a key: records of one key may then be in two partitions. New replicas count when they are in sync; `odradek reassign
    list` shows those that are not.

    \b
    Examples:
      odradek topics alter orders --partitions 12
      odradek topics alter orders --replication-factor 3
      odradek topics alter orders --config retention.ms=3600000 --unset segment.bytes
    """


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is not an error.")
@execute_options
@session_options
@run_in("odradek.cli.topics.verbs_run")
def delete() -> None:
    """Delete topics with all their records.

    \b
    Examples:
      odradek topics delete orders
      odradek topics delete orders --execute
      odradek topics delete old-1 old-2 --if-exists --execute
    """


@click.command("elect-leaders")
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=complete_topics)
@click.option(
    "--partition",
    "partitions",
    metavar="N[,N-M…]",
    shell_complete=complete_partition_numbers,
    help="Only these partitions of one topic.",
)
@click.option(
    "--unclean",
    is_flag=True,
    help="For a partition without a leader, elect any live replica: acknowledged records that it lacks are LOST. "
    "Only shows these partitions without --execute.",
)
@click.option("--execute", is_flag=True, help="Do it: for --unclean, since it may lose records.")
@session_options
@run_in("odradek.cli.topics.alter_run")
def elect_leaders() -> None:
    """Elect the preferred leaders again, or with --unclean leaders of partitions that have none. Without names all
    topics are meant.

    \b
    Examples:
      odradek topics elect-leaders
      odradek topics elect-leaders orders --partition 0-3
      odradek topics elect-leaders orders --unclean --execute
    """
