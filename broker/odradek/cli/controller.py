"""`odradek controller`: one controller of a cluster."""

from __future__ import annotations

from typing import Any

import click

from odradek.cli.cluster_run import cluster_options, run

LISTEN_DEFAULT = "127.0.0.1:9093"


@click.command()
@cluster_options(
    without=("data",),
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

    return run(run_controller, listen_default=LISTEN_DEFAULT, **given)
