"""`odradek mirror`: topics of other clusters, copied into one."""

from __future__ import annotations

import click

from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS
from odradek.foundation.verb_groups import run_in


@click.command()
@click.option(
    "--config",
    metavar="FILE",
    required=True,
    help="The clusters and flows, in the syntax and with the keys of MirrorMaker 2 (mm2.properties).",
)
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="One setting; wins over the file. May be repeated.",
)
@click.option(
    "--target",
    metavar="ALIAS",
    help="The cluster to mirror into. Needed where flows to several clusters are enabled.",
)
@click.option(
    "--check", is_flag=True, help="Reach the clusters, print which topics would be mirrored, and end."
)
@click.option(
    "--admin", metavar="HOST:PORT", help="Serve /metrics, /healthz, /readyz and /mirror there over HTTP."
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default=LOG_LEVELS[1], help="How much to log.")
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=LOG_FORMATS[0],
    help="Log as text for people or as JSON lines.",
)
@run_in("odradek.cli.cluster.mirror_run")
def mirror() -> None:
    """Mirror topics of other clusters into one, until SIGTERM or Ctrl-C.

    Records are copied exactly once, with their partitions, keys, headers and timestamps. The positions are committed
    offsets of the group `odradek-mirror.NAME.SOURCE` at the target. Several processes with the same settings share the
    partitions, and take over from one another. One line, `ready …`, is printed once the mirror runs.

    \b
    Examples:
      odradek mirror --config mm2.properties --check
      odradek mirror --config mm2.properties --admin 0.0.0.0:8080
      odradek mirror --config mm2.properties --set 'topics=orders.*' --target b
    """
