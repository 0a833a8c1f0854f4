"""`odradek status`: the health of the cluster, with an exit code for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession, session_options
from odradek.cli.shared.watch import WatchCommand, look, watch_option

if TYPE_CHECKING:
    from odradek.client.admin.health import ClusterHealth

PARTITIONS_SHOWN_MAX = 20


@click.command(cls=WatchCommand)
@click.option("--all", "show_all", is_flag=True, help=f"More than {PARTITIONS_SHOWN_MAX} partitions too.")
@watch_option
@session_options
def status(session: CommandSession, *, show_all: bool, watch: float | None) -> int:
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
    from odradek.client.admin.health_probes import cluster_health

    def present(session: CommandSession, health: ClusterHealth) -> int:
        from odradek.cli.cluster.status_view import health_document, print_health
        from odradek.cli.shared.output import show_document

        if not show_document(session.output, health_document(health)):
            print_health(health, partitions_max=None if show_all else PARTITIONS_SHOWN_MAX)
        return _EXIT_CODES[health.verdict]

    return look(session, cluster_health, present, every_seconds=watch)


# By the number of `health.Verdict`, which is not imported before it is needed.
_EXIT_CODES = (ExitCode.OK, ExitCode.DEGRADED, ExitCode.UNHEALTHY)
