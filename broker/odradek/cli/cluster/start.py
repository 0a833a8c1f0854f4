"""`odradek start` for click: --help, completion and usage errors. `start_options` has the table of options."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import click
from click.shell_completion import CompletionItem

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


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from odradek.cli.cluster.named.verbs import complete_named_brokers

    return complete_named_brokers(ctx, param, incomplete)


@click.command()
@click.argument("name", required=False, shell_complete=_complete_names)
@start_options()
def start(name: str | None, log_level: str | None, log_format: str | None, **given: Any) -> int:
    """Run a broker until SIGTERM or Ctrl-C; with a NAME, in the background.

    Prints one line, `ready …`, once it serves. Settings are Kafka's server.properties keys. --set wins over the options
    here, and these over the file. A log directory that cannot be made or written ends the start with exit code 1; the
    message names a remedy. A disk that fills up later does not end the broker: it refuses records until there is room,
    and serves reads.

    A NAME is for development: a broker for each project. Its records are in $XDG_STATE_HOME/odradek/brokers/NAME
    (~/.local/state without it), or in --data DIR. Its port on 127.0.0.1 is a free one. Folder, port and options are
    kept for the next start. The command ends once the broker serves. It prints the line that sets the broker's address
    for other commands. Another start of a broker that runs prints the same. `odradek running` lists such brokers, and
    `odradek stop NAME` stops one. Paths in --set and in the file have to be absolute.

    \b
    Examples:
      odradek start
      odradek start --data ./data --listen 127.0.0.1:9092 --hints
      odradek start --console
      odradek start --config server.properties --set log.retention.hours=24
      odradek start --listen INTERNAL://0.0.0.0:9092 --listen EXTERNAL://0.0.0.0:9093 \\
                    --advertise INTERNAL://broker-1:9092 --advertise EXTERNAL://example.org:9093
      odradek start --listen 127.0.0.1:0 --admin 127.0.0.1:8080 --log-format json
      odradek start orders
      odradek start orders --data ./kafka --set num.partitions=3
      eval "$(odradek start orders)"
    """
    if name is not None:
        from odradek.cli.cluster.named.background_start import start_named

        return start_named(name, StartArguments(**given), log_level=log_level, log_format=log_format)
    from odradek.cli.cluster.start_run import run

    return run(
        StartArguments(log_level=log_level or LOG_LEVELS[1], log_format=log_format or LOG_FORMATS[0], **given)
    )
