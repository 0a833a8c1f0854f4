"""A Cluster's reconciler in a world of its own: Kubernetes and brokers in memory, and time that the test moves.

Nothing of a reconciler runs on between two looks, so each has an event loop of its own, and tests are plain functions.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, PODS, VOLUME_CLAIMS, Json, metadata
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.nodes import Nodes
from tests.operator.support.world import OperatorWorld
from tests.support.loop import run

BROKER_PODS = {"events-broker-0", "events-broker-1", "events-broker-2"}


class ClusterWorld(OperatorWorld):
    """Everything around one Cluster called `events`: three brokers and a ZooKeeper unless the spec says otherwise."""

    def __init__(self, spec: Json | None = None) -> None:
        super().__init__()
        self.nodes = Nodes(self.objects)
        self.brokers = Brokers(self.objects)
        wanted = {"zookeeper": {"servers": {"replicas": 1}}, "image": "odradek:0.1.0", **(spec or {})}
        self.create(CLUSTERS, "events", wanted)
        self.restart_operator()

    def begin(self, environment: Environment) -> None:
        settings = OperatorSettings(broker_image="odradek:default", zookeeper_image="zookeeper:3.9")
        self.reconciler = ClusterReconciler(environment, admin=self.brokers, settings=settings)

    def reconcile(self) -> float | None:
        """One look of the operator."""
        return run(self.reconciler.reconcile(self.key(CLUSTERS, "events")))

    def look(self, times: int = 1) -> float | None:
        """So many looks of the operator, each with one turn of Kubernetes after it; what the last one answers."""
        after = None
        for _ in range(times):
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
    def status(self) -> Json:
        return self.status_of(CLUSTERS, "events")

    def condition(self, type: str) -> Json:
        """A condition of the status; empty when it is not there."""
        return self.stated(CLUSTERS, "events", type)

    def change(self, **changes: Any) -> None:
        """Change the Cluster as a user does; names with two underscores go deeper."""
        patch: Json = {}
        for path, value in changes.items():
            inner = patch
            *parents, last = path.split("__")
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[last] = value
        self.merge(CLUSTERS, "events", patch)

    def pods(self, component: str = "broker") -> dict[str, str]:
        """Uids of pods by name."""
        found = self.objects.list(PODS, "default", {"app.kubernetes.io/component": component})
        return {metadata(pod)["name"]: metadata(pod)["uid"] for pod in found}

    def replaced(self, before: dict[str, str]) -> set[str]:
        """The brokers' pods that are not those of `before` any more."""
        return {name for name, uid in self.pods().items() if before.get(name) != uid}

    def claim(self, broker: int) -> Json:
        """A broker's volume claim, which is there."""
        return self.body(VOLUME_CLAIMS, f"data-events-broker-{broker}")

    def annotate_pod(self, name: str, annotation: str, value: str) -> None:
        self.merge(PODS, name, {"metadata": {"annotations": {annotation: value}}})
