"""The common part of `odradek broker` and `odradek controller`: options, settings, the registry's address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import click

from odradek.cli.start_options import LOG_FORMATS, LOG_LEVELS, START_OPTIONS, StartArguments
from odradek.cli.start_run import configure_logging, host_and_port
from odradek.cli.start_settings import entries_of
from odradek.foundation.errors import SettingError
from odradek.foundation.settings import Settings

CONNECT_KEY = "zookeeper.connect"

_WITH_LIST = ("config", "set", "data", "listen", "advertise", "admin", "id", "log-level", "log-format")


Decorator = Callable[[Callable[..., object]], Callable[..., object]]


class Run(Protocol):
    """`server.cluster_start.run_broker` or `run_controller`."""

    def __call__(self, settings: Settings, *, registry: str, admin: tuple[str, int] | None = None) -> int: ...


def cluster_options(*, without: tuple[str, ...] = (), **helps: str) -> Decorator:
    """The options of `odradek start` that a process of a cluster has too, and --zookeeper. `helps` replaces some help
    texts.
    """

    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        for option in reversed(START_OPTIONS):
            if option.name not in _WITH_LIST or option.name in without:
                continue
            function = click.option(
                f"--{option.name}",
                option.name.replace("-", "_"),
                metavar=option.metavar if not option.choices else None,
                multiple=option.repeated,
                type=click.Choice(option.choices) if option.choices else None,
                help=helps.get(option.name.replace("-", "_"), option.help),
            )(function)
        return click.option(
            "--zookeeper",
            metavar="CONNECT",
            help="The ensemble and the cluster's root node, as zk1:2181,zk2:2181/odradek "
            "(zookeeper.connect).",
        )(function)

    return decorate


def run(serve: Run, *, zookeeper: str | None, listen_default: str, **given: Any) -> int:
    """Read the settings and serve until a signal. Raises SettingError for wrong settings."""
    configure_logging(given.pop("log_level") or LOG_LEVELS[1], given.pop("log_format") or LOG_FORMATS[0])
    arguments = StartArguments(
        **{"data": None, **given}, hints=False, log_level=LOG_LEVELS[1], log_format=LOG_FORMATS[0]
    )
    entries = entries_of(arguments, listen_default=listen_default)
    if zookeeper is not None:
        entries[CONNECT_KEY] = zookeeper
    registry = entries.get(CONNECT_KEY, "")
    if not registry:
        raise SettingError(
            "a cluster needs ZooKeeper: give --zookeeper HOST:PORT, or zookeeper.connect in the file; "
            "`odradek cluster` starts one for development, `odradek start` needs none"
        )
    settings = Settings(entries)
    logger = logging.getLogger("odradek.start")
    for warning in settings.warnings:
        logger.warning("%s", warning)
    unused = [key for key in settings.unused if not key.startswith("zookeeper.")]
    if unused:
        logger.info("settings without effect here: %s", ", ".join(unused))
    admin = None if arguments.admin is None else host_and_port(arguments.admin)
    return serve(settings, registry=registry, admin=admin)
