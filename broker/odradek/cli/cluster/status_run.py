"""Runs `odradek status`: asks for the health of the cluster, and turns it into an exit code."""

from __future__ import annotations

from odradek.cli.cluster.status import PARTITIONS_SHOWN_MAX
from odradek.cli.cluster.status_view import health_document, print_health
from odradek.cli.exit_codes import ExitCode
from odradek.cli.shared.options import CommandSession
from odradek.cli.shared.output import show_document
from odradek.cli.shared.watch import look
from odradek.client.admin.health import ClusterHealth
from odradek.client.admin.health_probes import cluster_health


def status(session: CommandSession, *, show_all: bool, watch: float | None) -> int:
    def present(session: CommandSession, health: ClusterHealth) -> int:
        if not show_document(session.output, health_document(health)):
            print_health(health, partitions_max=None if show_all else PARTITIONS_SHOWN_MAX)
        return _EXIT_CODES[health.verdict]

    return look(session, cluster_health, present, every_seconds=watch)


# By the number of `health.Verdict`, which is not imported before it is needed.
_EXIT_CODES = (ExitCode.OK, ExitCode.DEGRADED, ExitCode.UNHEALTHY)
