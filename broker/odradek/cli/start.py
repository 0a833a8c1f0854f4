"""`odradek start` for click: --help, completion and usage errors. `start_options` has the table of options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from odradek.cli.start_options import LOG_FORMATS, LOG_LEVELS, START_OPTIONS, StartArguments


def _with_options(function: Callable[..., object]) -> Callable[..., object]:
    for option in reversed(START_OPTIONS):
        flag = f"--{option.name}"
        parameter = option.name.replace("-", "_")
        if option.metavar is None:
            function = click.option(flag, parameter, is_flag=True, help=option.help)(function)
        elif option.choices:
            function = click.option(flag, parameter, type=click.Choice(option.choices), help=option.help)(
                function
            )
        else:
            function = click.option(
                flag, parameter, metavar=option.metavar, multiple=option.repeated, help=option.help
            )(function)
    return function


@click.command()
@_with_options
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
    from odradek.cli.start_run import run

    return run(
        StartArguments(log_level=log_level or LOG_LEVELS[1], log_format=log_format or LOG_FORMATS[0], **given)
    )
