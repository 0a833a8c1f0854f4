"""Topics, ConsumerGroups and Users of a Cluster, as far as the Cluster's reconciler deals with them."""

from __future__ import annotations

from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, TOPICS, USERS
from odradek_operator.reconcilers.cluster.run import ReconcileRun
from odradek_operator.reconcilers.reconciler import key_of


async def mark_contents_stale(run: ReconcileRun) -> None:
    """Have the Cluster's Topics, ConsumerGroups and Users reconciled: it serves now, or their partitions have moved."""
    for api in (TOPICS, CONSUMER_GROUPS, USERS):
        for body in await run.environment.kubernetes.list(api, run.key.namespace):
            if (body.get("spec") or {}).get("cluster") == run.key.name:
                run.environment.mark_stale(key_of(body))
