"""Access of batches to the brokers of their Clusters: each is connected once, and none delays another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from odradek.client.client import Client
from odradek.foundation.errors import OdradekError
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CLUSTERS, Json
from odradek_operator.reconcilers.addresses import Bootstrap
from odradek_operator.reconcilers.broker_failures import is_unreachable
from odradek_operator.reconcilers.decisions import Reachability
from odradek_operator.reconcilers.reconciler import Environment, is_deleted

Work = TypeVar("Work")


@dataclass(frozen=True, slots=True)
class ClusterAbsence:
    """Why a cluster cannot be reached, and what to do about it."""

    reachability: Reachability
    problem: str


async def for_each_cluster(
    works: Mapping[str, Sequence[Work]], on_cluster: Callable[[str, Sequence[Work]], Awaitable[None]]
) -> None:
    """Work on all clusters together. A failure of one does not stop the others, and is raised at the end."""
    ends = await asyncio.gather(
        *(on_cluster(cluster, some) for cluster, some in works.items()), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The Clusters of a namespace and their brokers; `kind` is the kind of the resources, for messages."""

    environment: Environment
    namespace: str
    kind: str
    brokers: BrokerClients
    bootstrap: Bootstrap

    async def ask(
        self, cluster: str, work: Callable[[Client, Json], Awaitable[None]]
    ) -> ClusterAbsence | None:
        """Call `work` with a client of the brokers and the Cluster's body; the answer is why that was not possible.

        An error of the whole cluster is an absence too, so that the status of each resource shows it.
        """
        body = await self.environment.kubernetes.get(CLUSTERS, self.namespace, cluster)
        if body is None or is_deleted(body):
            return ClusterAbsence(
                Reachability.GONE,
                f"there is no Cluster {cluster} in the namespace {self.namespace}; make it, or delete this {self.kind}",
            )
        bootstrap = self.bootstrap(body)
        try:
            is_secured = (body.get("spec") or {}).get("internalListener") is not None
            async with self.brokers.client(bootstrap, is_secured=is_secured) as client:
                await work(client, body)
        except OdradekError as failure:
            what = "does not answer" if is_unreachable(failure) else "refuses what the operator asks"
            problem = f"the Cluster {cluster} {what} at {bootstrap}: {failure}; it is tried again"
            return ClusterAbsence(Reachability.UNREACHABLE, problem)
        return None
