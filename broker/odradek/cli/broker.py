"""`odradek broker`: one broker of a cluster."""

from __future__ import annotations

from typing import Any

import click

from odradek.cli.cluster_run import cluster_options, run
from odradek.cli.start_settings import LISTEN_DEFAULT


@click.command()
@cluster_options()
def broker(**given: Any) -> int:
    """Run one broker of a cluster until SIGTERM or Ctrl-C.

    It registers itself in ZooKeeper under its id, follows the active controller, and prints one line, `ready …`, once
    it serves. Any broker answers any client: what only the controller may decide is forwarded. A stop first moves what
    this broker leads to others. Settings are read as by `odradek start`.

    \b
    Examples:
      odradek broker --id 1 --zookeeper zk1:2181,zk2:2181,zk3:2181/odradek --data /var/lib/odradek
      odradek broker --id 2 --zookeeper zk1:2181 --listen 0.0.0.0:9092 --advertise broker-2:9092
      odradek broker --config server.properties --admin 0.0.0.0:8080
    """
    from odradek.server.cluster_start import run_broker

    return run(run_broker, listen_default=LISTEN_DEFAULT, **given)
