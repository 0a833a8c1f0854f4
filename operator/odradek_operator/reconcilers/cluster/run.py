"""One reconcile of a Cluster: what its steps are given, and the few calls that all of them make.

A step is a function of a run and of what earlier steps found. It returns what it found, and changes nothing here but
`objects`, which follows what is applied and deleted. No step relies on an earlier run of the same process: a run that
was interrupted is repeated by the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from odradek_operator.desired.names import BROKER, CONTROLLER, DECLARED_LABEL, ZOOKEEPER, Context
from odradek_operator.foundation import versions
from odradek_operator.foundation.authority_keys import AuthorityKeys
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.zookeeper_login import ZookeeperLogin
from odradek_operator.gateways.cluster_admin import ClusterAdmin
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    CONSUMER_GROUPS,
    TOPICS,
    USERS,
    VOLUME_CLAIMS,
    Api,
    Json,
    metadata,
)
from odradek_operator.reconcilers.applying import Applier
from odradek_operator.reconcilers.cluster import facts
from odradek_operator.reconcilers.cluster.scaling import broker_count
from odradek_operator.reconcilers.cluster.settings.missing_references import MissingReferences
from odradek_operator.reconcilers.cluster.settings.ways_in import WaysIn
from odradek_operator.reconcilers.cluster.storage import volume_claims
from odradek_operator.reconcilers.reconciler import Environment, key_of
from odradek_operator.resources.cluster_status import ClusterStatus


class ClientPropertiesSource(Protocol):
    """The properties by which the operator connects: they hold its own certificates."""

    def client_properties(
        self, key: Key, bootstrap: str, authority: AuthorityKeys, *, now: datetime
    ) -> Mapping[str, str]:
        """Kafka's client properties by which the operator connects to a Cluster's brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileRun:
    """The facts that a run starts from. `before` is the earlier status, `context` what manifests are made from.

    `objects` are the Cluster's objects by kind and name. `servers_wanted` is how many ZooKeeper servers the Cluster
    asks for; `refused_image` says why its image is not run, where another one continues instead. `at_risk` are the
    volumes that do not outlive their pods, by pod. `missing` is what pods refer to and is not there. `zookeeper_login`
    is there while pods log in to ZooKeeper. `ways_in` is which kinds of Ingress and TLSRoute may be made.
    """

    key: Key
    body: Json
    before: ClusterStatus
    context: Context
    environment: Environment
    admin: ClusterAdmin
    applier: Applier
    objects: dict[tuple[str, str], Json]
    scale: broker_count.Scale
    certificates: ClientPropertiesSource
    servers_wanted: int | None = None
    refused_image: versions.RefusedImage | None = None
    at_risk: Mapping[str, facts.VolumeAtRisk] = field(default_factory=dict)
    missing: MissingReferences = field(default_factory=MissingReferences)
    zookeeper_login: ZookeeperLogin | None = None
    ways_in: WaysIn = field(default_factory=WaysIn)

    def with_context(self, **changes: Any) -> ReconcileRun:
        """The same run, with these fields of the context replaced."""
        return replace(self, context=replace(self.context, **changes))

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def broker_set(self) -> Json | None:
        """The StatefulSet of the brokers from number 0 on, as it is."""
        return self.objects.get(("StatefulSet", self.context.object_name(BROKER)))

    def broker_sets(self) -> list[Json]:
        """The StatefulSets of brokers as they are, those of pools included."""
        names = (BROKER, *(pool.suffix for pool in self.context.pools))
        found = (self.objects.get(("StatefulSet", self.context.object_name(name))) for name in names)
        return [body for body in found if body is not None]

    def brokers(self) -> facts.SetState:
        """The state of the brokers' StatefulSets, as of one."""
        return facts.join_states([facts.set_state(body) for body in self.broker_sets()])

    def controllers(self) -> facts.SetState:
        """The state of the controllers' Deployment."""
        return facts.set_state(self.objects.get(("Deployment", self.context.object_name(CONTROLLER))))

    def zookeeper(self) -> facts.SetState | None:
        """The state of the ZooKeeper servers' StatefulSet; None where the Cluster runs no ZooKeeper."""
        if self.context.spec.zookeeper.servers is None:
            return None
        return facts.set_state(self.objects.get(("StatefulSet", self.context.object_name(ZOOKEEPER))))

    def broker_pods(self) -> tuple[facts.BrokerPod, ...]:
        pods = [body for (kind, _), body in self.objects.items() if kind == "Pod" and facts.is_broker(body)]
        return facts.broker_pods(pods, self.broker_sets(), self.at_risk)

    def server_pods(self) -> tuple[facts.ServerPod, ...]:
        stateful_set = self.objects.get(("StatefulSet", self.context.object_name(ZOOKEEPER)))
        return facts.server_pods(self.objects, stateful_set, self.at_risk)

    def controller_pods(self) -> dict[str, Json]:
        """The controllers' pods by name."""
        return {
            name: body
            for (kind, name), body in self.objects.items()
            if kind == "Pod" and facts.component_of(body) == CONTROLLER
        }

    def claims(self, stateful_set: str) -> list[Json]:
        """The volume claims of a StatefulSet."""
        found = [body for (kind, _), body in self.objects.items() if kind == VOLUME_CLAIMS.kind]
        return volume_claims.claims_of(found, stateful_set)

    def records(self) -> list[Json]:
        """The ConfigMaps that record what goes with its resource."""
        return [
            body
            for (kind, _), body in self.objects.items()
            if kind == CONFIG_MAPS.kind and DECLARED_LABEL in (metadata(body).get("labels") or {})
        ]

    # --- what steps do ------------------------------------------------------------------------------------------------

    async def apply(self, manifest: Json) -> None:
        """Apply a manifest. Raises ObjectsOfOthers, KubernetesError."""
        await self.applier.apply(self.key, manifest, self.objects)

    async def apply_all(self, manifests: Sequence[Json]) -> None:
        """Apply manifests. Raises ObjectsOfOthers, KubernetesError."""
        await self.applier.apply_all(self.key, manifests, self.objects)

    async def delete(
        self, api: Api, name: str, *, uid: str | None = None, orphan: bool = False, force: bool = False
    ) -> None:
        """Delete an object of the Cluster's namespace, if it is there. Raises KubernetesError."""
        namespace = self.key.namespace
        await self.environment.kubernetes.delete(api, namespace, name, uid=uid, orphan=orphan, force=force)

    async def report_event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Put an event on the Cluster, and a line into the log."""
        await self.environment.report_event(self.body, reason, message, warning=warning)


async def mark_contents_stale(environment: Environment, key: Key) -> None:
    """Have a Cluster's Topics, ConsumerGroups and Users reconciled: it serves now, or is gone, or partitions moved."""
    for api in (TOPICS, CONSUMER_GROUPS, USERS):
        for body in await environment.kubernetes.list(api, key.namespace):
            if (body.get("spec") or {}).get("cluster") == key.name:
                environment.mark_stale(key_of(body))
