"""A Cluster's manifests on a real API server: it accepts them, and a second run writes nothing.

An operator that is killed between any two writes leaves nothing that its successor does not repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odradek_operator.desired.names import MANAGED_BY, MANAGED_BY_LABEL, REPLACE_ANNOTATION
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.api_server import ApiServerGateway, Configure
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    CONSUMER_GROUPS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    TOPICS,
    USERS,
    VOLUME_CLAIMS,
    EventType,
    Forbidden,
    Json,
    Refused,
    metadata,
    owner_reference,
)
from odradek_operator.gateways.secrets import Secrets, SecretTaken
from odradek_operator.main.lease import OperatorLease
from odradek_operator.reconcilers.applying import OWNED
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, remove_finalizer
from tests.operator.support.chart_rights import OPERATOR_ACCOUNT, cluster_reconciler, grant_rights
from tests.operator.support.gateway import configured_for
from tests.operator.support.kubernetes import Killed
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.polling import eventually
from tests.support.stories import in_real_time

pytestmark = pytest.mark.integration

MANIFESTS = Path(__file__).parents[3] / "manifests"
SPEC: Json = {
    "image": "odradek:0.1.0",
    "zookeeper": {"servers": {"replicas": 3}},
    "brokers": {"replicas": 2, "config": {"num.partitions": 3}, "rackLabel": "topology.kubernetes.io/zone"},
    "listeners": [
        {"name": "nodes", "type": "NodePort", "port": 9094},
        {"name": "inside", "type": "Internal", "port": 9095},
    ],
}
GROWING_CLASS = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/none
allowVolumeExpansion: true
"""
LABEL = {MANAGED_BY_LABEL: MANAGED_BY}
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Cut(ApiServerGateway):
    """The gateway, with a kill before the write number `cut_after`."""

    def __init__(self, configure: Configure, *, headers: Mapping[str, str]) -> None:
        super().__init__(configure, headers=headers)
        self.writes = 0
        self.cut_after: int | None = None

    async def _call(self, method: str, path: str, **given: Any) -> Json:
        if method in _WRITES and not given.get("dry_run"):
            if self.cut_after is not None and self.writes >= self.cut_after:
                raise Killed
            self.writes += 1
        return await super()._call(method, path, **given)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        yield running


def gateway(server: ApiServer, *, account: str | None = None) -> Cut:
    """The gateway, as an administrator or as an account."""
    headers = {} if account is None else {"Impersonate-User": account}
    return Cut(configured_for(server.url, token=TOKEN), headers=headers)


async def make_cluster(kubernetes: ApiServerGateway, server: ApiServer, namespace: str) -> Key:
    await asyncio.to_thread(server.kubectl, "create", "namespace", namespace)
    await kubernetes.create(manifest(CLUSTERS, "events", SPEC, namespace=namespace))
    return Key("Cluster", namespace, "events")


async def made(kubernetes: ApiServerGateway, key: Key) -> set[tuple[str, str]]:
    """What there is besides the Cluster, by kind and name."""
    found: set[tuple[str, str]] = set()
    for api in OWNED:
        for body in await kubernetes.list(api, key.namespace, labels={"odradek.io/cluster": key.name}):
            found.add((api.kind, metadata(body)["name"]))
    return found


@pytest.mark.thorough
@in_real_time
async def test_a_second_run_writes_nothing_even_by_a_new_operator(server: ApiServer) -> None:
    async with gateway(server) as kubernetes:
        key = await make_cluster(kubernetes, server, "whole")
        first = cluster_reconciler(kubernetes)
        await first.reconcile(key)
        await first.reconcile(key)
        writes = kubernetes.writes
        await first.reconcile(key)
        assert kubernetes.writes == writes, "a second look by the same operator applies what is there"
        before = {
            body["metadata"]["resourceVersion"] for body in await kubernetes.list(STATEFUL_SETS, "whole")
        }
        # A new one applies all of it once, and nothing becomes newer by that.
        await cluster_reconciler(kubernetes).reconcile(key)
        after = {
            body["metadata"]["resourceVersion"] for body in await kubernetes.list(STATEFUL_SETS, "whole")
        }
        assert after == before
        body = await kubernetes.get(CLUSTERS, "whole", "events")
        assert body is not None and body["status"]["observedGeneration"] == 1
        addresses = body["status"]["listeners"]
        assert addresses[1]["brokers"][1] == "events-inside-1.whole.svc.cluster.local:9095"
        assert "finalizers" not in body["metadata"]


@pytest.mark.thorough
@in_real_time
async def test_a_new_operator_finishes_after_a_kill_between_any_two_writes(server: ApiServer) -> None:
    async with gateway(server) as kubernetes:
        key = await make_cluster(kubernetes, server, "uncut")
        kubernetes.writes = 0
        await cluster_reconciler(kubernetes).reconcile(key)
        writes, wanted = kubernetes.writes, await made(kubernetes, key)
        assert writes > 25 and ("StatefulSet", "events-broker") in wanted
        for cut in range(writes):
            key = await make_cluster(kubernetes, server, f"cut-{cut}")
            kubernetes.writes, kubernetes.cut_after = 0, cut
            with suppress(Killed):
                await cluster_reconciler(kubernetes).reconcile(key)
            kubernetes.cut_after = None
            await cluster_reconciler(kubernetes).reconcile(key)
            assert await made(kubernetes, key) == wanted, f"killed after {cut} writes"
            body = await kubernetes.get(CLUSTERS, key.namespace, key.name)
            assert body is not None and body["status"]["conditions"], f"killed after {cut} writes"


@pytest.mark.thorough
@in_real_time
async def test_a_storage_class_can_be_corrected_until_claims_are_bound(server: ApiServer) -> None:
    async with gateway(server) as person:
        brokers = {"replicas": 1, "storage": {"class": "fats"}}
        await person.create(manifest(CLUSTERS, "classes", {**SPEC, "brokers": brokers}))

        async def change(part: str, storage_class: str) -> None:
            body = await person.get(CLUSTERS, "default", "classes")
            assert body is not None
            owner = body["spec"]["brokers"] if part == "broker" else body["spec"]["zookeeper"]["servers"]
            owner.setdefault("storage", {})["class"] = storage_class
            await person.replace(body)

        await change("broker", "fast")
        body = await person.get(CLUSTERS, "default", "classes")
        assert body is not None
        await person.set_status(CLUSTERS, body, {"boundVolumes": ["zookeeper"]})
        await change("broker", "faster")
        with pytest.raises(Refused, match="volumes keep the one they were made with"):
            await change("zookeeper", "fast")
        body = await person.get(CLUSTERS, "default", "classes")
        assert body is not None
        await person.set_status(CLUSTERS, body, {"boundVolumes": ["broker", "zookeeper"]})
        with pytest.raises(Refused, match=r"spec\.brokers\.storage\.class cannot be changed"):
            await change("broker", "fast")
        await person.delete(CLUSTERS, "default", "classes")


@pytest.mark.thorough
@in_real_time
async def test_the_path_in_zookeeper_is_fixed_once_brokers_have_served(server: ApiServer) -> None:
    async with gateway(server) as person:

        async def change(path: str | None) -> None:
            body = await person.get(CLUSTERS, "default", "paths")
            assert body is not None
            body["spec"]["zookeeper"] = {"servers": {}} | ({} if path is None else {"path": path})
            await person.replace(body)

        await person.create(manifest(CLUSTERS, "paths", SPEC))
        await change("/former/paths")
        body = await person.get(CLUSTERS, "default", "paths")
        assert body is not None
        await person.set_status(CLUSTERS, body, {"clusterId": "old-1"})
        for path in ("/other/paths", None):
            with pytest.raises(Refused, match=r"spec\.zookeeper\.path cannot be changed"):
                await change(path)
        await person.delete(CLUSTERS, "default", "paths")
        twice = {**SPEC, "zookeeper": {"connect": "zk:2181/a", "path": "/b"}}
        with pytest.raises(Refused, match="has a path already"):
            await person.create(manifest(CLUSTERS, "paths", twice))


@pytest.mark.thorough
@in_real_time
async def test_of_a_cluster_that_the_api_server_refuses_nothing_is_made(server: ApiServer) -> None:
    async with gateway(server) as kubernetes:
        await asyncio.to_thread(server.kubectl, "create", "namespace", "refused")
        brokers = {"replicas": 2, "pod": {"sidecars": [{"name": "log"}]}}
        await kubernetes.create(
            manifest(CLUSTERS, "events", {**SPEC, "brokers": brokers}, namespace="refused")
        )
        key = Key("Cluster", "refused", "events")
        operator = cluster_reconciler(kubernetes)
        with pytest.raises(Refused, match="image: Required value"):
            await operator.reconcile(key)
        assert await made(kubernetes, key) == set()
        body = await kubernetes.get(CLUSTERS, "refused", "events")
        assert body is not None
        assert [one["reason"] for one in body["status"]["conditions"]] == ["Refused"]
        body["spec"]["brokers"] = {"replicas": 2}
        await kubernetes.replace(body)
        await operator.reconcile(key)
        names = {name for kind, name in await made(kubernetes, key) if kind == "StatefulSet"}
        assert names == {"events-broker", "events-zookeeper"}
        # A change is tried with the claims that are there: a StatefulSet with others is made again.
        body = await kubernetes.get(CLUSTERS, "refused", "events")
        assert body is not None
        body["spec"]["brokers"] = {"replicas": 2, "storage": {"size": "20Gi"}, "pod": {"labels": {"a": "b"}}}
        await kubernetes.replace(body)
        await operator.reconcile(key)
        old = await kubernetes.get(STATEFUL_SETS, "refused", "events-broker")
        assert old is None or metadata(old)["deletionTimestamp"]


@pytest.mark.thorough
@in_real_time
async def test_whether_a_secret_is_there_is_known_without_reading_it(server: ApiServer) -> None:
    grant_rights(server, "list statefulsets.apps", "patch secrets", "list nodes")
    async with gateway(server) as person, gateway(server, account=OPERATOR_ACCOUNT) as kubernetes:
        secrets = Secrets(kubernetes)
        assert not await secrets.exists("odradek", "certificate")
        about = {"name": "certificate", "namespace": "odradek"}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": {"tls.key": "x"}}
        made = await person.create(secret)
        assert await secrets.exists("odradek", "certificate"), "whatever a policy says"
        # Where no policy refuses it, the answer has nothing of what is in it.
        found = await person.merge(SECRETS, "odradek", "certificate", {}, only_metadata=True)
        assert "data" not in found and metadata(found)["uid"] == metadata(made)["uid"]
        assert metadata(found)["resourceVersion"] == metadata(made)["resourceVersion"], "nothing was written"
        await person.delete(SECRETS, "odradek", "certificate")


@pytest.mark.thorough
@in_real_time
async def test_the_charts_rights_suffice_for_all_that_the_operator_does(server: ApiServer) -> None:
    grant_rights(server, "list statefulsets.apps", "patch secrets", "list nodes")
    server.kubectl("create", "--filename", "-", given=GROWING_CLASS)
    async with gateway(server) as person, gateway(server, account=OPERATOR_ACCOUNT) as kubernetes:
        key = Key("Cluster", "odradek", "events")
        await person.create(manifest(CLUSTERS, "events", SPEC, namespace="odradek"))
        operator = cluster_reconciler(kubernetes)
        await operator.reconcile(key)
        # No controller creates pods and claims here: the test does.
        await person.create(_pod("events-broker-1"))
        claim = await person.create(_claim("data-events-broker-1"))
        await person.set_status(VOLUME_CLAIMS, claim, {"phase": "Bound"})
        await operator.reconcile(key)
        body = await person.get(CLUSTERS, "odradek", "events")
        assert body is not None
        body["spec"] |= {"listeners": [], "network": {"enabled": False}}
        body["spec"]["brokers"]["storage"] = {"size": "20Gi"}
        await person.replace(body)
        await operator.reconcile(key)
        await operator.reconcile(key)
        (grown,) = await person.list(VOLUME_CLAIMS, "odradek")
        assert grown["spec"]["resources"]["requests"]["storage"] == "20Gi"
        fields = {"involvedObject.kind": "Cluster", "involvedObject.name": "events", "type": "Normal"}
        assert await kubernetes.list(EVENTS, "odradek", fields=fields)
        assert not await kubernetes.list(EVENTS, "odradek", fields=fields | {"type": "Warning"})
        await kubernetes.set_annotations(PODS, "odradek", "events-broker-1", {"a": "b"})
        assert await kubernetes.delete(PODS, "odradek", "events-broker-1", force=True)
        assert await kubernetes.delete(VOLUME_CLAIMS, "odradek", "data-events-broker-1")
        assert await kubernetes.get(NODES, None, "no-such-node") is None
        for api in (TOPICS, CONSUMER_GROUPS, USERS):
            await person.create(manifest(api, "orders", {"cluster": "events"}, namespace="odradek"))
            (read,) = await kubernetes.list(api, "odradek")
            read = await kubernetes.set_finalizers(api, read, [CLEANUP_FINALIZER])
            await remove_finalizer(kubernetes, api, read)
            await kubernetes.set_status(api, read, {"conditions": []})
            assert await kubernetes.get(api, "odradek", "orders") is not None
        for api in (STATEFUL_SETS, DEPLOYMENTS):
            await kubernetes.get(api, "odradek", "consumers")
        # Events are a courtesy, whose failure is only logged: so they are looked at.
        for _ in range(2):
            await kubernetes.record_event(body, EventType.NORMAL, "Tried", "whether it may")
        events = await person.list(EVENTS, "odradek")
        assert [event["count"] for event in events if event["reason"] == "Tried"] == [2]
        assert any(event["reason"] == "VolumeGrows" for event in events)
        with pytest.raises(Forbidden):
            await kubernetes.get(SECRETS, "odradek", "theirs")
        with pytest.raises(Forbidden):
            await kubernetes.list(SECRETS, "odradek")
        with pytest.raises(Forbidden):
            await kubernetes.list(CLUSTERS, "default")
        lease = OperatorLease(kubernetes, namespace="odradek", name="odradek-operator", identity="one")
        await lease.acquire()
        await lease.release()


@pytest.mark.thorough
@in_real_time
async def test_of_secrets_the_operator_reads_and_changes_only_its_own(server: ApiServer) -> None:
    grant_rights(server, "list statefulsets.apps", "patch secrets", "list nodes")
    async with gateway(server) as person, gateway(server, account=OPERATOR_ACCOUNT) as kubernetes:
        about = {"name": "theirs", "namespace": "odradek"}
        theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": about, "stringData": {"key": "theirs"}}
        await person.create(theirs)
        secrets = Secrets(kubernetes)

        async def is_refused() -> bool:
            with suppress(SecretTaken):
                await secrets.read("odradek", "theirs")
                return False
            return True

        await eventually("the API server takes the policy up", is_refused)
        for refused in (
            kubernetes.get(SECRETS, "odradek", "theirs"),
            kubernetes.list(SECRETS, "odradek"),
            kubernetes.delete(SECRETS, "odradek", "theirs"),
            kubernetes.merge(SECRETS, "odradek", "theirs", {"metadata": {"labels": LABEL}}),
            kubernetes.apply({**theirs, "metadata": {**about, "labels": LABEL}}),
            kubernetes.create({**theirs, "metadata": {"name": "another", "namespace": "odradek"}}),
            kubernetes.create({**theirs, "metadata": {"name": "x", "namespace": "default", "labels": LABEL}}),
        ):
            with pytest.raises(Forbidden) as refusal:
                await refused
            assert "dGhlaXJz" not in str(refusal.value), "its content is not shown"
        found = await person.get(SECRETS, "odradek", "theirs")
        assert found is not None and found["data"] == {"key": "dGhlaXJz"}
        # An authority or a password that its owner labels is read, and not changed.
        for name in ("authority", "password"):
            label = f"odradek.io/{name}"
            await person.create({**theirs, "metadata": {**about, "name": name, "labels": {label: "true"}}})
            read = await secrets.read("odradek", name)
            assert read is not None and read["data"] == {"key": "dGhlaXJz"}
            for altered in (
                {"data": {"key": "b3Vycw=="}},
                {"metadata": {"labels": LABEL}},
                {"metadata": {"ownerReferences": [owner_reference(read) | {"controller": False}]}},
            ):
                with pytest.raises(Forbidden):
                    await kubernetes.merge(SECRETS, "odradek", name, altered)
        key = Key("Cluster", "odradek", "secured")
        spec = SPEC | {
            "internalListener": {"authentication": {"type": "scram-sha-512"}},
            "listeners": [SPEC["listeners"][1] | {"tls": True, "authentication": {"type": "tls"}}],
            "authorization": {},
        }
        await person.create(manifest(CLUSTERS, "secured", spec, namespace="odradek"))
        await cluster_reconciler(kubernetes).reconcile(key)
        made = await person.list(SECRETS, "odradek", labels=LABEL)
        names = {metadata(one)["name"] for one in made}
        assert names == {"secured-cluster-ca", "secured-clients-ca", "secured-broker-tls"}
        await cluster_reconciler(kubernetes).reconcile(key)
        assert await person.list(SECRETS, "odradek", labels=LABEL) == made, "read, and left as they are"
        body = await person.get(CLUSTERS, "odradek", "secured")
        assert body is not None
        for change in (
            {"internalListener": None},
            {"internalListener": {"authentication": None}},
            {"listeners": [{"name": "open", "type": "Internal", "port": 9096}]},
        ):
            with pytest.raises(Refused, match="internalListener"):
                await person.merge(CLUSTERS, "odradek", "secured", {"spec": change})
        await person.delete(CLUSTERS, "odradek", "secured")


def _pod(name: str) -> Json:
    labels = {"odradek.io/cluster": "events", "app.kubernetes.io/component": "broker", **LABEL}
    spec = {"containers": [{"name": "broker", "image": "odradek:0.1.0"}]}
    marked = {"labels": labels, "annotations": {REPLACE_ANNOTATION: "true"}}
    return manifest(PODS, name, spec, namespace="odradek", **marked)


def _claim(name: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "volumeName": "v",
        "resources": {"requests": {"storage": "10Gi"}},
    }
    labels = {"odradek.io/cluster": "events"}
    return manifest(VOLUME_CLAIMS, name, spec, namespace="odradek", labels=labels)


@pytest.mark.thorough
@in_real_time
async def test_what_is_no_longer_wanted_goes_and_what_others_made_stays(server: ApiServer) -> None:
    async with gateway(server) as kubernetes:
        key = await make_cluster(kubernetes, server, "pruned")
        await cluster_reconciler(kubernetes).reconcile(key)
        labels = {"odradek.io/cluster": "events"}
        await kubernetes.create(manifest(CONFIG_MAPS, "theirs", namespace="pruned", labels=labels))
        body = await kubernetes.get(CLUSTERS, "pruned", "events")
        assert body is not None
        body["spec"]["listeners"] = []
        body["spec"]["network"] = {"enabled": False}
        await kubernetes.replace(body)
        await cluster_reconciler(kubernetes).reconcile(key)
        left = await made(kubernetes, key)
        assert not any(name.startswith(("events-nodes-", "events-inside-")) for _, name in left)
        assert not any(kind == "NetworkPolicy" for kind, _ in left)
        assert ("ConfigMap", "theirs") in left and ("Service", "events-bootstrap") in left


@pytest.mark.thorough
@in_real_time
async def test_pods_are_spread_strictly_where_there_are_nodes_enough(server: ApiServer) -> None:
    """Nodes that others made are read with the chart's rights, and Kubernetes takes the constraints."""
    grant_rights(server, "list statefulsets.apps", "patch secrets", "list nodes")
    zone = "topology.kubernetes.io/zone"
    cluster = partial(manifest, CLUSTERS, "spread", namespace="odradek")
    async with gateway(server) as person, gateway(server, account=OPERATOR_ACCOUNT) as kubernetes:
        for number in range(2):
            about = {"name": f"spread-{number}", "labels": {zone: f"zone-{number}"}}
            node = await person.create({"apiVersion": "v1", "kind": "Node", "metadata": about})
            # As the node controller does when it knows of a node.
            node["spec"] = {**node.get("spec", {}), "taints": []}
            node = await person.replace(node)
            is_ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "ready"}
            await person.set_status(NODES, node, {"conditions": [is_ready]})
        with pytest.raises(Refused, match="Unsupported value"):
            await person.create(cluster({**SPEC, "spread": {"nodes": "Sometimes"}}))
        # Its two brokers have a node each; three ZooKeeper servers have not.
        await person.create(cluster({**SPEC, "spread": {"zones": "Preferred"}}))
        await cluster_reconciler(kubernetes).reconcile(Key("Cluster", "odradek", "spread"))
        found: dict[str, list[tuple[str, str, str]]] = {}
        for part in ("broker", "zookeeper"):
            body = await person.get(STATEFUL_SETS, "odradek", f"spread-{part}")
            assert body is not None
            constraints = body["spec"]["template"]["spec"]["topologySpreadConstraints"]
            found[part] = [
                (one["topologyKey"], one["whenUnsatisfiable"], one["nodeTaintsPolicy"]) for one in constraints
            ]
        loose = (zone, "ScheduleAnyway", "Honor")
        assert found["broker"] == [("kubernetes.io/hostname", "DoNotSchedule", "Honor"), loose]
        assert found["zookeeper"] == [("kubernetes.io/hostname", "ScheduleAnyway", "Honor"), loose]
        await person.delete(CLUSTERS, "odradek", "spread")
        for number in range(2):
            await person.delete(NODES, None, f"spread-{number}")
