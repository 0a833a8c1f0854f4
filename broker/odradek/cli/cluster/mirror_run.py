"""Runs `odradek mirror`: the mirror itself, or the check of its settings."""

from __future__ import annotations

import asyncio
import logging

import click

from odradek.cli.cluster.start_run import configure_logging, host_and_port, set_entries
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.property_files import read_entries
from odradek.mirror.mirror import Mirror
from odradek.mirror.settings import MirrorSettings
from odradek.mirror.settings_file import read_mirror_settings
from odradek.server.mirror import run_mirror


def mirror(
    config: str,
    overrides: tuple[str, ...],
    target: str | None,
    check: bool,
    admin: str | None,
    log_level: str,
    log_format: str,
) -> int:
    configure_logging(log_level, log_format)
    entries = read_entries(config, what="--config")
    entries.update(set_entries(overrides, example="'a->b.topics=orders.*'"))
    settings = read_mirror_settings(entries, source=config, target=target)
    for warning in settings.warnings:
        logging.getLogger("odradek.mirror").warning("%s", warning)
    if check:
        asyncio.run(_check(settings))
        return ExitCode.OK
    return run_mirror(settings, admin=None if admin is None else host_and_port(admin))


async def _check(settings: MirrorSettings) -> None:
    """Print which topics would be mirrored. Raises what keeps a cluster from being reached, MirrorRefused for a loop.
    Nothing is written to either cluster.
    """
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
