"""A Mirror's reconciler in a world of its own: Kubernetes in memory, workers that answer what the test says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MIRRORS,
    PODS,
    SECRETS,
    USERS,
    Json,
    metadata,
)
from odradek_operator.gateways.mirrors import FlowSeen, PartitionSeen, WorkerPage
from odradek_operator.reconcilers.mirror.decide import WATCHED_SECONDS
from odradek_operator.reconcilers.mirror.reconciler import MirrorReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.nodes import Nodes
from tests.operator.support.world import OperatorWorld
from tests.support.loop import run

NAMESPACE = "default"
READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}
SPEC: Json = {
    "target": {"cluster": "main"},
    "sources": [{"alias": "shop", "bootstrap": "shop.example:9092", "topics": ["orders"]}],
}


class Workers:
    """All workers answer with `page`; None is no answer. `asked` are the addresses of each question."""

    def __init__(self) -> None:
        self.page: WorkerPage | None = running(orders=3)
        self.asked: list[tuple[str, ...]] = []

    async def fetch_pages(self, hosts: Sequence[str], port: int) -> Sequence[WorkerPage | None]:
        assert port == 9644
        self.asked.append(tuple(hosts))
        return [self.page for _ in hosts]


def running(source: str = "shop", /, **lags: int) -> WorkerPage:
    """The page of a worker that mirrors one partition of each of these topics."""
    partitions = tuple(
        PartitionSeen(topic=topic, lag=lag, lag_seconds=0.5) for topic, lag in sorted(lags.items())
    )
    return WorkerPage(flows=(FlowSeen(source=source, state="running", partitions=partitions),))


class MirrorWorld(OperatorWorld):
    """Everything around one Mirror called `copy`, into the Cluster `main`, which is ready."""

    def __init__(self, spec: Json | None = None, *, broker_image: str = "odradek:default") -> None:
        super().__init__()
        self.nodes = Nodes(self.objects)
        self.workers = Workers()
        self.settings = OperatorSettings(broker_image=broker_image)
        self.cluster("main")
        self.create(MIRRORS, "copy", spec or SPEC)
        self.restart_operator()

    def begin(self, environment: Environment) -> None:
        self.reconciler = MirrorReconciler(environment, workers=self.workers, settings=self.settings)

    def look(self, times: int = 1) -> float | None:
        """So many looks of the operator, each with one turn of Kubernetes after it; what the last one answers."""
        after = None
        for _ in range(times):
            self.now += timedelta(seconds=1)
            after = run(self.reconciler.reconcile(self.key(MIRRORS, "copy")))
            self.nodes.turn()
        return after

    def settle(self, *, looks_max: int = 10) -> None:
        """Look until the workers serve and are only watched."""
        for _ in range(looks_max):
            if self.look() == WATCHED_SECONDS:
                return
        raise AssertionError(f"not settled after {looks_max} looks: {self.status}")

    def cluster(self, name: str, *, is_ready: bool = True, has_logins: bool = False) -> None:
        """A Cluster with the ConfigMap for clients that its own reconciler makes."""
        listener = {"authentication": {"type": "scram-sha-512"}}
        spec: Json = {"zookeeper": {"servers": {}}} | ({"internalListener": listener} if has_logins else {})
        self.create(CLUSTERS, name, spec, status=READY if is_ready else {})
        self.create(CONFIG_MAPS, f"{name}-binding")
        data = {"client.properties": f"bootstrap.servers={name}-bootstrap:9092\n"}
        self.merge(CONFIG_MAPS, f"{name}-binding", {"data": data})

    def user(self, name: str, *, cluster: str = "main", version: str = "7") -> None:
        """A User that is ready, with its Secret."""
        status = {**READY, "secret": f"{name}-secret", "secretVersion": version}
        self.create(SECRETS, f"{name}-secret")
        self.create(USERS, name, {"cluster": cluster}, status=status)

    @property
    def status(self) -> Json:
        return self.status_of(MIRRORS, "copy")

    def condition(self, type: str = "Ready") -> tuple[str, str, str]:
        """Status, reason and message; empty where there is no such condition."""
        found = self.stated(MIRRORS, "copy", type)
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    @property
    def deployment(self) -> Json | None:
        return self.get(DEPLOYMENTS, "copy-mirror")

    @property
    def template(self) -> Json:
        template: Json = self.body(DEPLOYMENTS, "copy-mirror")["spec"]["template"]
        return template

    @property
    def file(self) -> str:
        """The mirror's file."""
        return str(self.body(CONFIG_MAPS, "copy-mirror")["data"]["mirror.properties"])

    def pods(self) -> set[str]:
        found = self.objects.list(PODS, NAMESPACE, {"odradek.io/mirror": "copy"})
        return {metadata(pod)["uid"] for pod in found}
