"""What passes over a cluster's contents share: each cluster is asked once, and none is held up by another."""

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
    """Why a cluster cannot be asked, and what to do about it."""

    reachability: Reachability
    problem: str


async def for_each_cluster(
    works: Mapping[str, Sequence[Work]], on_cluster: Callable[[str, Sequence[Work]], Awaitable[None]]
) -> None:
    """See to all clusters together. One that hangs or fails does not hold the others up, and is raised at the end."""
    ends = await asyncio.gather(
        *(on_cluster(cluster, some) for cluster, some in works.items()), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """The Clusters of a namespace and their brokers; `kind` is who asks, for the words."""

    environment: Environment
    namespace: str
    kind: str
    brokers: BrokerClients
    bootstrap: Bootstrap

    async def ask(
        self, cluster: str, work: Callable[[Client, Json], Awaitable[None]]
    ) -> ClusterAbsence | None:
        """Do this with the cluster's brokers and the Cluster's body; why that could not be done.

        Brokers that refuse it altogether are an absence like any other, so that it stands in each resource's status.
        """
        body = await self.environment.kubernetes.get(CLUSTERS, self.namespace, cluster)
        if body is None or is_deleted(body):
            return ClusterAbsence(
                Reachability.GONE,
                f"there is no Cluster {cluster} in the namespace {self.namespace}; make it, or delete this {self.kind}",
            )
        bootstrap = self.bootstrap(body)
        try:
            async with self.brokers.client(bootstrap) as client:
                await work(client, body)
        except OdradekError as failure:
            what = "does not answer" if is_unreachable(failure) else "refuses what the operator asks"
            problem = f"the Cluster {cluster} {what} at {bootstrap}: {failure}; it is tried again"
            return ClusterAbsence(Reachability.UNREACHABLE, problem)
        return None
