"""`odradek status`: the health of the cluster, with an exit code for scripts."""

from __future__ import annotations

import click

from odradek.cli.shared.options import session_options
from odradek.cli.shared.watch import WatchCommand, watch_option
from odradek.foundation.verb_groups import run_in

PARTITIONS_SHOWN_MAX = 20


@click.command(cls=WatchCommand)
@click.option("--all", "show_all", is_flag=True, help=f"More than {PARTITIONS_SHOWN_MAX} partitions too.")
@watch_option
@session_options
@run_in("odradek.cli.cluster.status_run")
def status() -> None:
    """Show the health of the cluster: controller, brokers, disks, partitions, moves and groups. The exit code is 0 for
    a healthy cluster. 9 means degraded: everything is served, but a broker or replicas are missing, or a disk is nearly
    full. 10 means unhealthy: partitions have no leader or refuse writes with acks=all, a disk is full, or there is no
    controller. Moves, and leaders that are not the preferred ones, do not make a cluster unhealthy. A missing broker is
    known by its replicas; Apache Kafka 4.1 also remembers a broker without any.

    \b
    Examples:
      odradek status
      odradek status --watch 5
      odradek status --output json | jq -r '.findings[].message'
    """
