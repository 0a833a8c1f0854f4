"""A Mirror's reconciler in a world of its own: Kubernetes in memory, workers that answer what the test says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    MIRRORS,
    PODS,
    USERS,
    Api,
    Json,
    metadata,
)
from odradek_operator.gateways.mirrors import FlowSeen, PartitionSeen, WorkerPage
from odradek_operator.reconcilers.mirror.decide import WATCHED_SECONDS
from odradek_operator.reconcilers.mirror.reconciler import MirrorReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.operator.support.nodes import Nodes
from tests.support.loop import run

NAMESPACE = "default"
KEY = Key("Mirror", NAMESPACE, "copy")
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

    async def pages(self, hosts: Sequence[str], port: int) -> Sequence[WorkerPage | None]:
        assert port == 9644
        self.asked.append(tuple(hosts))
        return [self.page for _ in hosts]


def running(source: str = "shop", /, **lags: int) -> WorkerPage:
    """The page of a worker that mirrors one partition of each of these topics."""
    partitions = tuple(
        PartitionSeen(topic=topic, lag=lag, lag_seconds=0.5) for topic, lag in sorted(lags.items())
    )
    return WorkerPage(flows=(FlowSeen(source=source, state="running", partitions=partitions),))


class MirrorWorld:
    """Everything around one Mirror called `copy`, into the Cluster `main`, which is ready."""

    def __init__(self, spec: Json | None = None, *, broker_image: str = "odradek:default") -> None:
        self.kubernetes = MemoryKubernetes()
        self.objects = self.kubernetes.objects
        self.nodes = Nodes(self.objects)
        self.workers = Workers()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.settings = OperatorSettings(broker_image=broker_image)
        self.cluster("main")
        self.create(MIRRORS, "copy", spec or SPEC)
        self.restart_operator()

    def restart_operator(self) -> None:
        """A new process: what the old one remembered is gone."""
        environment = Environment(
            kubernetes=self.kubernetes,
            conditions=ConditionBook(),
            wake=lambda *_, **__: None,
            now=lambda: self.now,
        )
        self.reconciler = MirrorReconciler(environment, workers=self.workers, settings=self.settings)

    def look(self) -> float | None:
        """One look of the operator, and one turn of Kubernetes."""
        self.now += timedelta(seconds=1)
        after = run(self.reconciler.reconcile(KEY))
        self.nodes.turn()
        return after

    def settle(self, *, looks_max: int = 10) -> None:
        """Look until the workers serve and are only watched."""
        for _ in range(looks_max):
            if self.look() == WATCHED_SECONDS:
                return
        raise AssertionError(f"not settled after {looks_max} looks: {self.status}")

    def create(self, api: Api, name: str, spec: Json, status: Json | None = None) -> None:
        about = {"name": name, "namespace": NAMESPACE}
        self.objects.create(
            {"apiVersion": api.group_version, "kind": api.kind, "metadata": about, "spec": spec}
        )
        if status is not None:
            self.objects.set_status(api, NAMESPACE, name, status, uid=None)

    def cluster(self, name: str, *, is_ready: bool = True, has_logins: bool = False) -> None:
        """A Cluster with the ConfigMap for clients that its own reconciler makes."""
        listener = {"authentication": {"type": "scram-sha-512"}}
        spec: Json = {"zookeeper": {"servers": {}}} | ({"internalListener": listener} if has_logins else {})
        self.create(CLUSTERS, name, spec, READY if is_ready else {})
        data = {"client.properties": f"bootstrap.servers={name}-bootstrap:9092\n"}
        about = {"name": f"{name}-binding", "namespace": NAMESPACE}
        self.objects.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})

    def user(self, name: str, *, cluster: str = "main", version: str = "7") -> None:
        """A User that is ready, with its Secret."""
        status = {**READY, "secret": f"{name}-secret", "secretVersion": version}
        self.create(USERS, name, {"cluster": cluster}, status)

    def change(self, api: Api, name: str, patch: Json) -> None:
        self.objects.merge(api, NAMESPACE, name, patch)

    @property
    def status(self) -> Json:
        found = self.objects.get(MIRRORS, NAMESPACE, "copy")
        assert found is not None
        return dict(found.get("status") or {})

    def condition(self, type: str = "Ready") -> tuple[str, str, str]:
        """Status, reason and message; empty where there is no such condition."""
        stated: list[Json] = self.status.get("conditions", [])
        found: Json = next((one for one in stated if one["type"] == type), {})
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    @property
    def deployment(self) -> Json | None:
        return self.objects.get(DEPLOYMENTS, NAMESPACE, "copy-mirror")

    @property
    def template(self) -> Json:
        assert self.deployment is not None
        template: Json = self.deployment["spec"]["template"]
        return template

    @property
    def file(self) -> str:
        """The mirror's file."""
        found = self.objects.get(CONFIG_MAPS, NAMESPACE, "copy-mirror")
        assert found is not None
        return str(found["data"]["mirror.properties"])

    def pods(self) -> set[str]:
        found = self.objects.list(PODS, NAMESPACE, {"odradek.io/mirror": "copy"})
        return {metadata(pod)["uid"] for pod in found}
