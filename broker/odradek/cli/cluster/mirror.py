"""`odradek mirror`: topics of other clusters, copied into one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import click

from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS
from odradek.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from odradek.mirror.settings import MirrorSettings


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
def mirror(
    config: str,
    overrides: tuple[str, ...],
    target: str | None,
    check: bool,
    admin: str | None,
    log_level: str,
    log_format: str,
) -> int:
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
    from odradek.cli.cluster.start_run import configure_logging, host_and_port, set_entries
    from odradek.cli.shared.property_files import read_entries
    from odradek.mirror.settings_file import read_mirror_settings

    configure_logging(log_level, log_format)
    entries = read_entries(config, what="--config")
    entries.update(set_entries(overrides, example="'a->b.topics=orders.*'"))
    settings = read_mirror_settings(entries, source=config, target=target)
    for warning in settings.warnings:
        logging.getLogger("odradek.mirror").warning("%s", warning)
    if check:
        asyncio.run(_check(settings))
        return ExitCode.OK
    from odradek.server.mirror import run_mirror

    return run_mirror(settings, admin=None if admin is None else host_and_port(admin))


async def _check(settings: MirrorSettings) -> None:
    """Print which topics would be mirrored. Raises what keeps a cluster from being reached, MirrorRefused for a loop.
    Nothing is written to either cluster.
    """
    from odradek.mirror.mirror import Mirror

    flows = {flow.label: flow for flow in settings.flows}
    for label, topics in (await Mirror(settings).plan()).items():
        guarantee = "exactly once" if flows[label].is_exactly_once else "at least once"
        partitions = sum(topic.partitions for topic in topics)
        click.echo(
            f"{label}: {len(topics)} topics with {partitions} partitions, {guarantee}, positions in group "
            f"{settings.group_id(flows[label])}"
        )
        for topic in topics:
            click.echo(f"  {topic.source} -> {topic.target} ({topic.partitions} partitions)")
