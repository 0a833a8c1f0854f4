"""`odradek topics list` and `describe`: topics, and the problems of their partitions."""

from __future__ import annotations

from collections.abc import Callable

import click

from odradek.cli.shared.completers import complete_topics
from odradek.cli.shared.options import session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.verb_groups import run_in


@click.command("list", cls=WatchCommand)
@click.option("--internal", is_flag=True, help="Show internal topics too, such as __consumer_offsets.")
@watch_option
@session_options
@run_in("odradek.cli.topics.topic_views_run")
def list_topics() -> None:
    """List the topics, with the problems of those whose partitions have any.

    \b
    Examples:
      odradek topics list
      odradek topics list --output json | jq -r '.[].name'
    """


def _filter(name: str, meaning: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """A switch that shows only partitions of one kind; its name in kafka-topics works too."""
    return click.option(
        f"--{name}", f"--{name}-partitions", f"only_{name.replace('-', '_')}", is_flag=True, help=meaning
    )


@click.command(cls=WatchCommand)
@click.argument("names", nargs=-1, metavar="[TOPIC…]", shell_complete=complete_topics)
@click.option("--offsets", is_flag=True, help="Show the first and the next offset of each partition.")
@click.option("--configs", "with_configs", is_flag=True, help="Show the settings that differ from defaults.")
@_filter("under-replicated", "Only partitions with replicas that are not in sync.")
@_filter("unavailable", "Only partitions without a leader.")
@_filter("under-min-isr", "Only partitions that refuse writes with acks=all.")
@_filter("at-min-isr", "Only partitions with exactly min.insync.replicas replicas in sync.")
@watch_option
@session_options
@run_in("odradek.cli.topics.topic_views_run")
def describe() -> None:
    """Show leaders, replicas and, if asked, offsets and settings of topics (all without names). With several switches
    for partitions, a partition is shown if one of them chooses it.

    \b
    Examples:
      odradek topics describe orders
      odradek topics describe orders --offsets --configs
      odradek topics describe --under-replicated --watch
      odradek topics describe --output json
    """
