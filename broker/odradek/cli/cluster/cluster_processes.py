"""`odradek broker` and `odradek controller`: one process of a cluster."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Protocol

import click

from odradek.cli.cluster.start import start_options
from odradek.cli.cluster.start_options import LOG_FORMATS, LOG_LEVELS, StartArguments
from odradek.cli.cluster.start_run import LISTEN_DEFAULT, configure_logging, entries_of, host_and_port
from odradek.foundation.errors import SettingError
from odradek.foundation.settings.broker_settings import Settings

CONNECT_KEY = "zookeeper.connect"
CONTROLLER_LISTEN_DEFAULT = "127.0.0.1:9093"
LINGER_SECONDS_MAX = 60

_zookeeper_option = click.option(
    "--zookeeper",
    metavar="CONNECT",
    help="The ensemble and the cluster's root node, as zk1:2181,zk2:2181/odradek (zookeeper.connect).",
)


class Run(Protocol):
    """`server.cluster_start.run_broker` or `run_controller`."""

    def __call__(self, settings: Settings, *, registry: str, admin: tuple[str, int] | None = None) -> int: ...


@click.command()
@_zookeeper_option
@start_options(without=("hints",))
@click.option(
    "--linger",
    metavar="SECONDS",
    type=click.FloatRange(0, LINGER_SECONDS_MAX),
    default=0.0,
    help="How long the process stays after a clean stop, without listening. A pod's address goes with its process, "
    "and clients that reconnect to a missing address wait. While the process stays, they are refused at once and ask "
    f"another broker. At most {LINGER_SECONDS_MAX}. Default: 0.",
)
def broker(linger: float, **given: Any) -> int:
    """Run one broker of a cluster until SIGTERM or Ctrl-C.

    It registers itself in ZooKeeper under its id, follows the active controller, and prints one line, `ready …`, once
    it serves. Any broker answers any client: requests that only the controller may decide are forwarded to it. A stop
    first moves this broker's leaderships to other brokers. Settings are read as by `odradek start`.

    A log directory that cannot be used at the start, or fails later, ends the broker with exit code 1. Other brokers
    then lead its partitions. A disk that fills up later does not end it: the broker refuses records until there is
    room, and serves reads.

    \b
    Examples:
      odradek broker --id 1 --zookeeper zk1:2181,zk2:2181,zk3:2181/odradek --data /var/lib/odradek
      odradek broker --id 2 --zookeeper zk1:2181 --listen 0.0.0.0:9092 --advertise broker-2:9092
      odradek broker --config server.properties --admin 0.0.0.0:8080
    """
    from odradek.server.cluster_start import run_broker

    serve = partial(run_broker, linger_seconds=linger)
    return _run(serve, listen_default=LISTEN_DEFAULT, **given)


@click.command()
@_zookeeper_option
@start_options(
    without=("hints", "console", "data"),
    id="This controller's id (node.id). Default: 1.",
    listen="Where to listen for brokers; port 0 takes a free one. Default: 127.0.0.1:9093.",
    advertise="The address that brokers connect to, when it differs from --listen.",
)
def controller(**given: Any) -> int:
    """Run one controller of a cluster until SIGTERM or Ctrl-C.

    Several may run: one is active, the others stand by. The active one creates topics, elects the partitions' leaders
    and stores both in ZooKeeper. A controller has no log and needs no directory. Only brokers connect to it. It uses
    its own defaults of topics: give it the settings that the brokers have.

    \b
    Examples:
      odradek controller --id 101 --zookeeper zk1:2181,zk2:2181,zk3:2181/odradek --listen 0.0.0.0:9093 \\
                         --advertise controller-1:9093
      odradek controller --config controller.properties --admin 0.0.0.0:8080
    """
    from odradek.server.cluster_start import run_controller

    return _run(run_controller, listen_default=CONTROLLER_LISTEN_DEFAULT, **given)


def _run(serve: Run, *, zookeeper: str | None, listen_default: str, **given: Any) -> int:
    """Read the settings and serve until a signal. Raises SettingError for wrong settings."""
    configure_logging(given.pop("log_level") or LOG_LEVELS[1], given.pop("log_format") or LOG_FORMATS[0])
    arguments = StartArguments(**given)
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
