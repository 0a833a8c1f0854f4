"""`odradek configs`: list, describe, set, unset for topics, brokers, groups and subscriptions of clients' metrics."""

from __future__ import annotations

import click

from odradek.cli.shared.completers import (
    complete_config_assignments,
    complete_config_keys,
    complete_config_names,
)
from odradek.cli.shared.options import session_options
from odradek.foundation.verb_groups import VerbGroup, run_in

KINDS = ("topic", "broker", "group", "client-metrics")


@click.group(cls=VerbGroup)
def configs() -> None:
    """Describe and change the settings of topics, brokers and groups.

    For `broker` the name is the broker's id, or `default` for the common default of all brokers. For `client-metrics`
    it is that of a subscription: brokers with client.telemetry.enable ask clients for its metrics.
    """


@configs.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@session_options
@run_in("odradek.cli.topics.configs_run")
def list_configs() -> None:
    """Show the names that can be described: of groups and subscriptions those that have settings.

    \b
    Examples:
      odradek configs list client-metrics
    """


@configs.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument("keys", nargs=-1, metavar="[KEY…]", shell_complete=complete_config_keys)
@click.option("--all", "show_all", is_flag=True, help="Show defaults too; implied by keys.")
@click.option("--docs", "with_docs", is_flag=True, help="Show what each setting means.")
@session_options
@run_in("odradek.cli.topics.configs_run")
def describe() -> None:
    """Show settings and where their values come from (only those that were set, unless asked).

    \b
    Examples:
      odradek configs describe topic orders
      odradek configs describe topic orders retention.ms segment.bytes
      odradek configs describe broker 1 --all --docs
    """


@configs.command("set")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument(
    "assignments", nargs=-1, required=True, metavar="KEY=VALUE…", shell_complete=complete_config_assignments
)
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
@run_in("odradek.cli.topics.configs_run")
def set_configs() -> None:
    """Set settings, all or none of them.

    \b
    Examples:
      odradek configs set topic orders retention.ms=3600000 cleanup.policy=compact,delete
      odradek configs set broker default log.retention.ms=86400000
      odradek configs set group billing consumer.session.timeout.ms=60000
      odradek configs set client-metrics all metrics=org.apache.kafka.producer interval.ms=60000
    """


@configs.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", shell_complete=complete_config_names)
@click.argument("keys", nargs=-1, required=True, metavar="KEY…", shell_complete=complete_config_keys)
@click.option("--validate-only", is_flag=True, help="Check, but change nothing.")
@session_options
@run_in("odradek.cli.topics.configs_run")
def unset() -> None:
    """Remove settings, so that their defaults apply again.

    \b
    Examples:
      odradek configs unset topic orders retention.ms
    """
