"""`odradek start` for click: --help, completion and usage errors. `start_options` has the table of options."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click

from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS, START_OPTIONS, StartArguments
from odradek.cli.shared.options import Decorator, combine_decorators


def start_options(*, without: Collection[str] = (), **helps: str) -> Decorator:
    """The options of `odradek start`, but for some. `helps` replaces some help texts."""
    return combine_decorators(
        *(
            click.option(
                f"--{one.name}",
                parameter,
                is_flag=one.metavar is None,
                metavar=None if one.choices else one.metavar,
                multiple=one.repeated,
                type=click.Choice(one.choices) if one.choices else None,
                help=helps.get(parameter, one.help),
            )
            for one in START_OPTIONS
            if (parameter := one.name.replace("-", "_")) not in without
        )
    )


@click.command()
@start_options()
def start(log_level: str | None, log_format: str | None, **given: Any) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Prints one line, `ready …`, once it serves. Settings are Kafka's server.properties keys. --set wins over the options
    here, and these over the file. A log directory that cannot be made or written ends the start with exit code 1; the
    message names a remedy. A disk that fills up later does not end the broker: it refuses records until there is room,
    and serves reads.

    \b
    Examples:
      odradek start
      odradek start --data ./data --listen 127.0.0.1:9092 --hints
      odradek start --config server.properties --set log.retention.hours=24
      odradek start --listen INTERNAL://0.0.0.0:9092 --listen EXTERNAL://0.0.0.0:9093 \\
                    --advertise INTERNAL://broker-1:9092 --advertise EXTERNAL://example.org:9093
      odradek start --listen 127.0.0.1:0 --admin 127.0.0.1:8080 --log-format json
    """
    from odradek.cli.cluster.start_run import run

    return run(
        StartArguments(log_level=log_level or LOG_LEVELS[1], log_format=log_format or LOG_FORMATS[0], **given)
    )
