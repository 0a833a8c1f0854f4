"""The verbs of disks: how many bytes topics take, by broker, directory, topic and partition, and to empty one."""

from __future__ import annotations

from typing import Final

import click

from odradek.cli.shared.completers import complete_brokers, complete_topics, one_of
from odradek.cli.shared.options import session_options
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in

brokers_argument = click.argument(
    "broker_ids", nargs=-1, type=WholeNumber(min=0), metavar="[ID…]", shell_complete=complete_brokers
)
COLUMNS: Final = ("broker", "directory", "topic", "partition")


def _columns(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
    """The names in a comma-separated list, in the order of COLUMNS. A partition's number comes with its topic."""
    names = {name.strip() for name in value.split(",")}
    if unknown := sorted(names - set(COLUMNS)):
        raise click.BadParameter(f"{unknown[0]!r} is not one of: {', '.join(COLUMNS)}")
    if "partition" in names:
        names.add("topic")
    return tuple(name for name in COLUMNS if name in names)


@click.command()
@brokers_argument
@click.option(
    "--by",
    callback=_columns,
    default="topic",
    show_default=True,
    metavar="COLUMN[,…]",
    shell_complete=one_of(COLUMNS),
    help="The columns to add up by: any of broker, directory, topic, partition.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Only this topic; may be repeated.",
)
@session_options
@run_in("odradek.cli.brokers.disk_run")
def disk() -> None:
    """Show how many bytes of the disks topics take, the largest first. Without IDs all brokers are shown.

    Each replica counts, so a topic of three replicas takes three times its records. Files of deleted segments do not
    count. By broker, or by directory, free and total bytes are shown as well. Tables have KiB, MiB and so on; JSON has
    bytes.

    \b
    Examples:
      odradek brokers disk
      odradek brokers disk --by directory
      odradek brokers disk 2 --by topic,partition
      odradek brokers disk --topic orders --by broker,partition
      odradek brokers disk --output json | jq '.[] | select(.bytes > 1e9) | .topic'
    """


@click.command("empty-disk")
@click.argument("broker_id", type=WholeNumber(min=0), metavar="ID", shell_complete=complete_brokers)
@click.argument("path", metavar="DIRECTORY")
@click.option(
    "--to", "onto", multiple=True, metavar="DIRECTORY", help="Only to this log directory; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Show the moves, and change nothing.")
@click.option("--wait", is_flag=True, help="Wait until it is empty. Ctrl-C ends the waiting, not the moves.")
@session_options
@run_in("odradek.cli.brokers.empty_disk_run")
def empty_disk() -> None:
    """Move all replicas of a log directory to the other ones of its broker, and make no new ones there.

    The broker serves them all the while, and the moves continue without this command. The same command shows what is
    left. `replica.alter.log.dirs.io.max.bytes.per.second` is their throttle. The largest replicas go to where most
    bytes are free. To have new replicas there again, take the directory out of the broker's `cordoned.log.dirs`.

    \b
    Examples:
      odradek brokers disk 2 --by directory
      odradek brokers empty-disk 2 /disk1 --dry-run
      odradek brokers empty-disk 2 /disk1 --to /disk3 --wait
      odradek configs set broker 2 replica.alter.log.dirs.io.max.bytes.per.second=50000000
    """
