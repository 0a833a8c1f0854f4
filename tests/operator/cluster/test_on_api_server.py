"""A Cluster's manifests on a real API server: it takes them, the second time nothing is written, and an operator that
is killed between any two writes leaves nothing that its successor does not put right.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, STATEFUL_SETS, Json, metadata
from odradek_operator.gateways.kubernetes_http import Access, KubernetesHttp
from odradek_operator.reconcilers.cluster.applying import OWNED
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Outside
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.kubernetes import Killed
from tests.operator.support.objects import Objects
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server

pytestmark = pytest.mark.integration

CRDS = Path(__file__).parents[3] / "manifests" / "crds"
SPEC: Json = {
    "image": "odradek:1",
    "zookeeper": {"servers": {"replicas": 3}},
    "brokers": {"replicas": 2, "config": {"num.partitions": 3}, "rackLabel": "topology.kubernetes.io/zone"},
    "listeners": [
        {"name": "nodes", "type": "NodePort", "port": 9094},
        {"name": "inside", "type": "Internal", "port": 9095},
    ],
}
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Cut(KubernetesHttp):
    """The gateway, with a kill before the write number `cut_after`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.writes = 0
        self.cut_after: int | None = None

    async def _call(self, method: str, path: str, **given: Any) -> Json:
        if method in _WRITES:
            if self.cut_after is not None and self.writes >= self.cut_after:
                raise Killed
            self.writes += 1
        return await super()._call(method, path, **given)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.kubectl("apply", "--server-side", "-f", str(CRDS))
        until = time.monotonic() + 30
        while True:
            try:
                running.kubectl("get", "clusters.odradek.io")
                break
            except subprocess.CalledProcessError:
                # A definition takes a moment to be served.
                assert time.monotonic() < until, "the definition of Cluster is not served"
                time.sleep(0.1)
        yield running


def gateway(server: ApiServer) -> Cut:
    unverified = ssl._create_unverified_context()  # its certificate is its own
    return Cut(Access(server.url, unverified, lambda: {"Authorization": f"Bearer {TOKEN}"}))


def reconciler(kubernetes: KubernetesHttp) -> ClusterReconciler:
    outside = Outside(
        kubernetes=kubernetes,
        conditions=ConditionBook(),
        wake=lambda *_, **__: None,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    return ClusterReconciler(outside, admin=Brokers(Objects()), settings=OperatorSettings())


async def make_cluster(kubernetes: KubernetesHttp, server: ApiServer, namespace: str) -> Key:
    await asyncio.to_thread(server.kubectl, "create", "namespace", namespace)
    about = {"name": "events", "namespace": namespace}
    await kubernetes.create(
        {"apiVersion": "odradek.io/v1", "kind": "Cluster", "metadata": about, "spec": SPEC}
    )
    return Key("Cluster", namespace, "events")


async def made(kubernetes: KubernetesHttp, key: Key) -> set[tuple[str, str]]:
    """What there is besides the Cluster, by kind and name."""
    found: set[tuple[str, str]] = set()
    for api in OWNED:
        for body in await kubernetes.list(api, key.namespace, labels={"odradek.io/cluster": key.name}):
            found.add((api.kind, metadata(body)["name"]))
    return found


def test_all_is_taken_and_a_second_look_writes_nothing_even_by_a_new_operator(server: ApiServer) -> None:
    async def scenario() -> None:
        async with gateway(server) as kubernetes:
            key = await make_cluster(kubernetes, server, "whole")
            first = reconciler(kubernetes)
            await first.reconcile(key)
            await first.reconcile(key)
            writes = kubernetes.writes
            await first.reconcile(key)
            assert kubernetes.writes == writes, "a second look by the same operator applies what is there"
            before = {
                body["metadata"]["resourceVersion"] for body in await kubernetes.list(STATEFUL_SETS, "whole")
            }
            # A new one applies all of it once, and nothing becomes newer by that.
            await reconciler(kubernetes).reconcile(key)
            after = {
                body["metadata"]["resourceVersion"] for body in await kubernetes.list(STATEFUL_SETS, "whole")
            }
            assert after == before
            body = await kubernetes.get(CLUSTERS, "whole", "events")
            assert body is not None and body["status"]["observedGeneration"] == 1
            addresses = body["status"]["listeners"]
            assert addresses[1]["brokers"][1] == "events-inside-1.whole.svc.cluster.local:9095"
            assert "finalizers" not in body["metadata"]

    asyncio.run(scenario())


def test_an_operator_killed_between_any_two_writes_is_followed_by_one_that_finishes(
    server: ApiServer,
) -> None:
    async def scenario() -> None:
        async with gateway(server) as kubernetes:
            key = await make_cluster(kubernetes, server, "uncut")
            kubernetes.writes = 0
            await reconciler(kubernetes).reconcile(key)
            writes, wanted = kubernetes.writes, await made(kubernetes, key)
            assert writes > 25 and ("StatefulSet", "events-broker") in wanted
            for cut in range(writes):
                key = await make_cluster(kubernetes, server, f"cut-{cut}")
                kubernetes.writes, kubernetes.cut_after = 0, cut
                with suppress(Killed):
                    await reconciler(kubernetes).reconcile(key)
                kubernetes.cut_after = None
                await reconciler(kubernetes).reconcile(key)
                assert await made(kubernetes, key) == wanted, f"killed after {cut} writes"
                body = await kubernetes.get(CLUSTERS, key.namespace, key.name)
                assert body is not None and body["status"]["conditions"], f"killed after {cut} writes"

    asyncio.run(scenario())


def test_what_is_no_longer_wanted_goes_and_what_others_made_stays(server: ApiServer) -> None:
    async def scenario() -> None:
        async with gateway(server) as kubernetes:
            key = await make_cluster(kubernetes, server, "pruned")
            await reconciler(kubernetes).reconcile(key)
            theirs = {"name": "theirs", "namespace": "pruned", "labels": {"odradek.io/cluster": "events"}}
            await kubernetes.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": theirs, "data": {}})
            body = await kubernetes.get(CLUSTERS, "pruned", "events")
            assert body is not None
            body["spec"]["listeners"] = []
            body["spec"]["network"] = {"enabled": False}
            await kubernetes.replace(body)
            await reconciler(kubernetes).reconcile(key)
            left = await made(kubernetes, key)
            assert not any(name.startswith(("events-nodes-", "events-inside-")) for _, name in left)
            assert not any(kind == "NetworkPolicy" for kind, _ in left)
            assert ("ConfigMap", "theirs") in left and ("Service", "events-bootstrap") in left

    asyncio.run(scenario())
