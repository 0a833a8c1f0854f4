"""A Cluster's reconciler in a world of its own: Kubernetes and brokers in memory, and time that the test moves.

Nothing of a reconciler runs on between two looks, so each has an event loop of its own, and tests are plain functions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, PODS, VOLUME_CLAIMS, Api, Json, metadata
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.operator.support.nodes import Nodes, make_cluster
from tests.support.loop import run

BROKER_PODS = {"events-broker-0", "events-broker-1", "events-broker-2"}
_KEY = Key("Cluster", "default", "events")


class ClusterWorld:
    """Everything around one Cluster called `events`."""

    def __init__(self, spec: Json | None = None) -> None:
        self.kubernetes = MemoryKubernetes()
        self.objects = self.kubernetes.objects
        self.nodes = Nodes(self.objects)
        self.brokers = Brokers(self.objects)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.conditions = ConditionBook()
        self.woken: list[Key] = []
        make_cluster(self.objects, spec)
        self.restart_operator()

    def restart_operator(self) -> None:
        """A new process: what the old one remembered is gone."""
        environment = Environment(
            kubernetes=self.kubernetes,
            conditions=self.conditions,
            wake=self.woken.append,
            now=lambda: self.now,
        )
        settings = OperatorSettings(broker_image="odradek:default", zookeeper_image="zookeeper:3.9")
        self.reconciler = ClusterReconciler(environment, admin=self.brokers, settings=settings)

    def reconcile(self) -> float | None:
        """One look of the operator."""
        return run(self.reconciler.reconcile(_KEY))

    def look(self) -> float | None:
        """One look of the operator, and one turn of Kubernetes."""
        self.now += timedelta(seconds=1)
        after = self.reconcile()
        self.nodes.turn()
        return after

    def settle(self, *, looks_max: int = 60) -> int:
        """Look until there is nothing left to do; how many looks it took."""
        for looks in range(looks_max):
            if self.look() is None:
                return looks
        raise AssertionError(f"not settled after {looks_max} looks: {self.status}")

    def settle_through_kills(self, writes: int) -> None:
        """The operator is killed after so many writes, and started again, and settles."""
        with self.kubernetes.killed_after(writes):
            self.settle()
        self.restart_operator()
        self.settle()

    @property
    def cluster(self) -> Json:
        found = self.objects.get(CLUSTERS, "default", "events")
        assert found is not None
        return found

    @property
    def status(self) -> Json:
        return dict(self.cluster.get("status") or {})

    def condition(self, type: str) -> Json:
        """A condition of the status; empty when it is not there."""
        return next((one for one in self.status.get("conditions", ()) if one["type"] == type), {})

    def change(self, **changes: Any) -> None:
        """Change the Cluster as a user does; names with two underscores go deeper."""
        patch: Json = {}
        for path, value in changes.items():
            inner = patch
            *parents, last = path.split("__")
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[last] = value
        self.objects.merge(CLUSTERS, "default", "events", patch)

    def get(self, api: Api, name: str) -> Json | None:
        return self.objects.get(api, "default", name)

    def pods(self, component: str = "broker") -> dict[str, str]:
        """Uids of pods by name."""
        found = self.objects.list(PODS, "default", {"app.kubernetes.io/component": component})
        return {metadata(pod)["name"]: metadata(pod)["uid"] for pod in found}

    def replaced(self, before: dict[str, str]) -> set[str]:
        """The brokers' pods that are not those of `before` any more."""
        return {name for name, uid in self.pods().items() if before.get(name) != uid}

    def claim(self, broker: int) -> Json:
        """A broker's volume claim, which is there."""
        found = self.get(VOLUME_CLAIMS, f"data-events-broker-{broker}")
        assert found is not None
        return found

    def delete(self, api: Api, name: str) -> None:
        """Delete something as a user does."""
        self.objects.delete(api, "default", name, uid=None, orphan=False)

    def annotate_pod(self, name: str, annotation: str, value: str) -> None:
        self.objects.merge(PODS, "default", name, {"metadata": {"annotations": {annotation: value}}})
