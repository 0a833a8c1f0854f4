"""Charts, manifests and examples on a real API server: what it takes, refuses, keeps and allows.

One server for the module, and a namespace for each test.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from helm.generate.yaml_text import read_documents, write_documents
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, LEASES, MIRRORS, TOPICS
from odradek_operator.gateways.mirrors import HttpMirrorWorkers
from odradek_operator.main.strip_finalizers import strip
from odradek_operator.reconcilers.mirror.reconciler import MirrorReconciler
from odradek_operator.reconcilers.reconciler import CLEANUP_FINALIZER, Environment
from tests.charts.cases import CHART_NAMES, WITHOUT_SCHEMAS, accepted, golden
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.helm import CHARTS, CHECKOUT, HelmFailed, helm, objects
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.polling import wait_until

pytestmark = pytest.mark.integration

CASES = [case for chart in CHART_NAMES for case in accepted(chart)]
MANIFESTS = CHECKOUT / "manifests"
ACCOUNT = "system:serviceaccount:{namespace}:odradek-operator"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        yield running


@pytest.fixture
def namespace(server: ApiServer) -> str:
    """A namespace that takes restricted pods only, and warns of others."""
    name = f"test-{next(_NUMBERS)}"
    modes = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
    server.kubectl("create", "namespace", name)
    server.kubectl("label", "namespace", name, *modes)
    server.kubectl("create", "serviceaccount", "default", "--namespace", name)
    return name


_NUMBERS = itertools.count()


@pytest.fixture
def installed(server: ApiServer, namespace: str) -> Callable[..., str]:
    """Runs a helm command against the server in the namespace."""

    def run(*arguments: str) -> str:
        return helm(*arguments, "--kubeconfig", str(server.kubeconfig), "--namespace", namespace)

    return run


# An API server takes no pod whose class it has not.
_PRIORITY_CLASS: Final = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: {name}}}
value: 1
"""


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.stem}")
def test_all_that_is_rendered_is_taken_without_a_warning(
    server: ApiServer, namespace: str, case: Path
) -> None:
    found = [
        thing
        for thing in objects(golden(case).read_text())
        if thing["apiVersion"] not in WITHOUT_SCHEMAS or thing["apiVersion"] == "odradek.io/v1"
    ]
    for thing in found:
        if "namespace" in thing["metadata"]:
            thing["metadata"]["namespace"] = namespace
        if priority := thing.get("spec", {}).get("priorityClassName") if thing["kind"] == "Pod" else None:
            server.kubectl("apply", "--filename", "-", given=_PRIORITY_CLASS.format(name=priority))
    # Roles of several namespaces now stand in one.
    text = write_documents({(thing["kind"], thing["metadata"]["name"]): thing for thing in found}.values())
    said = server.kubectl(
        "create", "--dry-run=server", "--namespace", namespace, "--filename", "-", given=text
    )
    assert "arning" not in said
    assert said.count("created (server dry run)") == len(read_documents(text))


@pytest.mark.thorough
@pytest.mark.parametrize("path", sorted((MANIFESTS / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_taken(server: ApiServer, namespace: str, path: Path) -> None:
    said = server.kubectl("apply", "--namespace", namespace, "--filename", str(path))
    assert "arning" not in said
    assert "created" in said


@pytest.mark.thorough
def test_the_operator_installs_without_helm_for_more_namespaces(server: ApiServer) -> None:
    for name in ("one-namespace", "all-namespaces"):
        path = str(MANIFESTS / "operator" / f"{name}.yaml")
        assert "arning" not in server.kubectl("apply", "--filename", path)
        assert server.kubectl("diff", "--filename", path) == "", "tools that compare would never come to rest"


@pytest.mark.thorough
def test_a_release_is_upgraded_and_a_bad_edit_refused_with_its_reason(installed: Callable[..., str]) -> None:
    chart = str(CHARTS / "odradek")
    installed("install", "log", chart, "--set", "topics.orders.partitions=3")
    installed("upgrade", "log", chart, "--set", "topics.orders.partitions=6,cluster.spec.brokers.replicas=5")
    with pytest.raises(HelmFailed, match="partitions never shrink"):
        installed("upgrade", "log", chart, "--set", "topics.orders.partitions=2")
    with pytest.raises(HelmFailed, match="cannot move to another ZooKeeper"):
        installed("upgrade", "log", chart, "--set", "cluster.spec.zookeeper.connect=elsewhere:2181")
    installed("upgrade", "log", chart, "--set", "topics.orders.partitions=6,cluster.spec.brokers.replicas=4")
    installed("uninstall", "log")


@pytest.mark.thorough
def test_settings_that_promise_protection_are_refused_and_not_dropped(
    server: ApiServer, namespace: str, installed: Callable[..., str]
) -> None:
    chart = str(CHARTS / "odradek")
    key = r"cluster.spec.brokers.config.ssl\.client\.auth"
    with pytest.raises(HelmFailed, match=r"ssl\.client\.auth cannot be set here; set tls and authentication"):
        installed("install", "log", chart, "--set", f"{key}=required")
    config = {"authorizer.class.name": "a.B", "super.users": "User:a", "quota.producer.default": "20"}
    spec = {"brokers": {"config": config}, "zookeeper": {"connect": "zk:2181"}}
    cluster = manifest(CLUSTERS, "log", spec, namespace=namespace)
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        # As most clients ask: what is unknown would be dropped without an error.
        server.kubectl("apply", "--validate=false", "-f", "-", given=json.dumps(cluster))
    said = str(refusal.value.stdout)
    for words in ("authorizer.class.name cannot be set", "super.users cannot be set", "clients have a quota"):
        assert words in said
    installed("install", "plain", chart, "--set", f"{key}=none")


@pytest.mark.thorough
def test_what_is_to_be_kept_outlives_the_release_and_is_taken_up_again(
    server: ApiServer, namespace: str, installed: Callable[..., str]
) -> None:
    chart, values = str(CHARTS / "odradek"), "keepTopics=true,cluster.keep=true,topics.orders.partitions=3"
    installed("install", "log", chart, "--set", values)
    ask = ["get", "clusters.odradek.io,topics.odradek.io", "--namespace", namespace, "--output", "name"]
    there = server.kubectl(*ask)
    installed("uninstall", "log")
    assert server.kubectl(*ask) == there == "cluster.odradek.io/log\ntopic.odradek.io/orders\n"
    installed("install", "log", chart, "--set", values)


@pytest.mark.thorough
def test_definitions_outlive_the_operators_release(server: ApiServer, installed: Callable[..., str]) -> None:
    chart = str(CHARTS / "odradek-operator")
    server.kubectl("delete", "--filename", str(MANIFESTS / "crds"))
    installed("install", "odradek-operator", chart)
    # Nothing here runs pods, and so no job of the uninstall either.
    uninstall = ("uninstall", "odradek-operator", "--no-hooks")
    assert "[CustomResourceDefinition] topics.odradek.io" in installed(*uninstall)
    assert "topics.odradek.io" in server.kubectl("get", "crd", "--output", "name")
    installed("install", "odradek-operator", chart)
    installed(*uninstall)


@pytest.mark.thorough
@pytest.mark.parametrize("watch", ["watch.allNamespaces=false", "watch.allNamespaces=true"])
def test_an_uninstall_lets_go_of_what_the_operator_held(
    server: ApiServer, namespace: str, installed: Callable[..., str], watch: str
) -> None:
    chart, settings = str(CHARTS / "odradek-operator"), f"crds.install=false,{watch}"
    installed("install", "odradek-operator", chart, "--set", settings)
    wanted = {"cluster": "none", "deletionPolicy": "Delete"}
    topic = manifest(TOPICS, "held", wanted, namespace=namespace, finalizers=[CLEANUP_FINALIZER])
    holder = {"holderIdentity": "a pod that is gone"}
    lease = manifest(LEASES, OperatorSettings().lease_name, holder, namespace=namespace)
    server.kubectl("create", "--filename", "-", given=write_documents([topic, lease]))
    with ThreadPoolExecutor() as threads:
        uninstalling = threads.submit(installed, "uninstall", "odradek-operator", "--timeout", "60s")
        job = _job_of(server, namespace, uninstalling)
        (container,) = job["spec"]["template"]["spec"]["containers"]
        account = job["spec"]["template"]["spec"]["serviceAccountName"]
        command, *flags = container["args"]
        assert command == "strip-finalizers"
        lease, *namespaces = [flag.partition("=")[2] for flag in flags]
        assert namespaces == ([] if watch.endswith("true") else [namespace])
        account = f"system:serviceaccount:{namespace}:{account}"
        assert asyncio.run(_strip(server, account, namespaces, lease)) == 1
        server.kubectl(
            "patch", "job", job["metadata"]["name"], "--namespace", namespace, "--subresource=status",
            "--type=merge", "--patch", json.dumps({"status": DONE}),
        )  # fmt: skip
        uninstalling.result()
    server.kubectl("delete", "topic", "held", "--namespace", namespace, "--timeout=10s")
    left = server.kubectl(
        "get", "jobs,serviceaccounts,roles,rolebindings,leases", "--namespace", namespace, "--output", "name"
    )
    assert "let-go" not in left
    assert "lease" not in left, "the Lease goes with the operator"


NOW = "2026-01-01T00:00:00Z"
DONE = {
    "startTime": NOW,
    "completionTime": NOW,
    "succeeded": 1,
    "uncountedTerminatedPods": {},
    "conditions": [
        {"type": condition, "status": "True", "lastProbeTime": NOW, "lastTransitionTime": NOW}
        for condition in ("SuccessCriteriaMet", "Complete")
    ],
}


def _job_of(server: ApiServer, namespace: str, uninstalling: Future[str]) -> dict[str, Any]:
    """The job that an uninstall waits for; its failure when it ends before."""

    def jobs() -> list[dict[str, Any]]:
        found = json.loads(server.kubectl("get", "jobs", "--namespace", namespace, "--output", "json"))
        assert found["items"] or not uninstalling.done(), f"it waits for nothing: {uninstalling.result()}"
        return list(found["items"])

    return wait_until("the uninstall waits for a job", jobs)[0]


async def _strip(server: ApiServer, account: str, namespaces: list[str], lease: str) -> int:
    """What the job does, with the rights of its account."""
    async with gateway_to(server.url, token=TOKEN, account=account) as kubernetes:
        return await strip(kubernetes, namespaces, lease=lease, say=print)


def _may(server: ApiServer, account: str, *what: str) -> bool:
    try:
        return server.kubectl("auth", "can-i", *what, f"--as={account}").strip().endswith("yes")
    except subprocess.CalledProcessError as answer:
        assert answer.output.strip().endswith("no")
        return False


@pytest.mark.thorough
def test_the_operators_account_has_rights_only_where_it_works(
    server: ApiServer, namespace: str, installed: Callable[..., str]
) -> None:
    installed("install", "odradek-operator", str(CHARTS / "odradek-operator"), "--set", "crds.install=false")
    account = ACCOUNT.format(namespace=namespace)
    here, elsewhere = ["--namespace", namespace], ["--namespace", "default"]
    for what in (
        ("create", "statefulsets.apps"),
        ("patch", "topics.odradek.io", "--subresource=status"),
        ("update", "leases.coordination.k8s.io/odradek-operator"),
        ("delete", "pods"),
    ):
        assert _may(server, account, *what, *here), what
        assert not _may(server, account, *what, *elsewhere), what
    assert _may(server, account, "list", "nodes")
    for what in (
        ("update", "leases.coordination.k8s.io/kube-controller-manager"),
        ("create", "pods"),
        ("create", "rolebindings.rbac.authorization.k8s.io"),
        ("create", "pods", "--subresource=exec"),
    ):
        assert not _may(server, account, *what, *here), what
    assert not _may(server, account, "patch", "customresourcedefinitions.apiextensions.k8s.io")
    installed("uninstall", "odradek-operator", "--no-hooks")


@pytest.mark.thorough
def test_the_operators_rights_suffice_for_a_mirror(
    server: ApiServer, namespace: str, installed: Callable[..., str]
) -> None:
    """The API server takes all that a Mirror is made of, and a second look writes nothing."""
    installed("install", "odradek-operator", str(CHARTS / "odradek-operator"), "--set", "crds.install=false")
    server.kubectl(
        "create", "secret", "generic", "theirs", "--namespace", namespace, "--from-literal=client.properties="
    )
    sources = [{"alias": "a", "bootstrap": "a:9092", "clientSecret": "theirs"}]
    wanted = {"target": {"alias": "b", "bootstrap": "b:9092"}, "sources": sources}
    mirror = manifest(MIRRORS, "copy", wanted, namespace=namespace)
    server.kubectl("create", "--filename", "-", given=yaml.safe_dump(mirror))

    async def looked(times: int) -> str:
        account = ACCOUNT.format(namespace=namespace)
        async with gateway_to(server.url, token=TOKEN, account=account) as kubernetes:
            environment = Environment(
                kubernetes=kubernetes, conditions=ConditionBook(), wake=lambda *_, **__: None
            )
            workers, settings = HttpMirrorWorkers(), OperatorSettings(broker_image="odradek:0.1.0")
            reconciler = MirrorReconciler(environment, workers=workers, settings=settings)
            for _ in range(times):
                await reconciler.reconcile(Key("Mirror", namespace, "copy"))
            await workers.close()
        kinds = "mirrors.odradek.io,deployments,configmaps,services,networkpolicies,poddisruptionbudgets"
        return server.kubectl("get", kinds, "--namespace", namespace, "--output", "json")

    def versions(found: str) -> dict[str, str]:
        items = json.loads(found)["items"]
        return {
            f"{one['kind']} {one['metadata']['name']}": one["metadata"]["resourceVersion"] for one in items
        }

    once = versions(asyncio.run(looked(2)))
    assert {"Deployment copy-mirror", "Service copy-mirrors", "Mirror copy"} <= once.keys()
    assert versions(asyncio.run(looked(2))) == once
    status = json.loads(server.kubectl("get", "mirror", "copy", "--namespace", namespace, "--output", "json"))
    assert status["status"]["conditions"][0]["reason"] == "WorkersNotReady"
    server.kubectl("scale", "mirror", "copy", "--namespace", namespace, "--replicas=3")
    installed("uninstall", "odradek-operator", "--no-hooks")
