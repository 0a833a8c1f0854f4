"""`odradek broker`: one broker of a cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from odradek.cli.cluster_run import cluster_options, run
from odradek.cli.start_settings import LISTEN_DEFAULT

LINGER_SECONDS_MAX = 60


@click.command()
@cluster_options()
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
    return run(serve, listen_default=LISTEN_DEFAULT, **given)
