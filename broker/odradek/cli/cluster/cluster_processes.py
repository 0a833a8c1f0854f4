"""`odradek broker` and `odradek controller`: one process of a cluster, or one machine of several brokers."""

from __future__ import annotations

import click

from odradek.cli.cluster.start import start_options
from odradek.foundation.machine_limits import PROCESSES_MAX
from odradek.foundation.option_types import AnyNumber, WholeNumber
from odradek.foundation.verb_groups import run_in

LINGER_SECONDS_MAX = 60

_zookeeper_option = click.option(
    "--zookeeper",
    metavar="CONNECT",
    help="The ensemble and the cluster's root node, as zk1:2181,zk2:2181/odradek (zookeeper.connect).",
)


@click.command()
@_zookeeper_option
@start_options(without=("hints",))
@click.option(
    "--processes",
    metavar="N",
    type=WholeNumber(1, PROCESSES_MAX),
    help="Run so many brokers, each a process with a core of its own (broker.processes). To the cluster they are one "
    "machine. Default: 1.",
)
@click.option(
    "--linger",
    metavar="SECONDS",
    type=AnyNumber(0, LINGER_SECONDS_MAX),
    default=0.0,
    help="How long the process stays after a clean stop, without listening. A pod's address goes with its process, "
    "and clients that reconnect to a missing address wait. While the process stays, they are refused at once and ask "
    f"another broker. At most {LINGER_SECONDS_MAX}. Default: 0.",
)
@run_in("odradek.cli.cluster.cluster_processes_run")
def broker() -> None:
    """Run one broker of a cluster until SIGTERM or Ctrl-C.

    It registers itself in ZooKeeper under its id, follows the active controller, and prints one line, `ready …`, once
    it serves. Any broker answers any client: requests that only the controller may decide are forwarded to it. A stop
    first moves this broker's leaderships to other brokers. Settings are read as by `odradek start`.

    A log directory that cannot be used at the start, or fails later, ends the broker with exit code 1. Other brokers
    then lead its partitions. A disk that fills up later does not end it: the broker refuses records until there is
    room, and serves reads.

    With --processes the brokers share the machine's port: clients bootstrap from it, and reach broker n at the port
    + 100 n. Broker n has the id + 10000 (n - 1) and the folder process.n in each log directory; the first one has the
    id and the directory. No two replicas of a partition are on one machine. /metrics and /readyz answer for all. A
    process that ends is started again; one that ends five times in ten minutes ends the machine.

    \b
    Examples:
      odradek broker --id 1 --zookeeper zk1:2181,zk2:2181,zk3:2181/odradek --data /var/lib/odradek
      odradek broker --id 2 --zookeeper zk1:2181 --listen 0.0.0.0:9092 --advertise broker-2:9092
      odradek broker --config server.properties --admin 0.0.0.0:8080
      odradek broker --id 1 --zookeeper zk1:2181 --listen 0.0.0.0:9092 --advertise broker-1:9092 --processes 4
    """


@click.command()
@_zookeeper_option
@start_options(
    without=("hints", "console", "data"),
    id="This controller's id (node.id). Default: 1.",
    listen="Where to listen for brokers; port 0 takes a free one. Default: 127.0.0.1:9093.",
    advertise="The address that brokers connect to, when it differs from --listen.",
)
@run_in("odradek.cli.cluster.cluster_processes_run")
def controller() -> None:
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
