"""One Kubernetes and one installation for the whole suite, in the order of its files; what failed shows the cluster.

`make e2e` runs it; it is outside of pytest's testpaths, because it takes minutes. A single test can be asked for:
`make e2e E2E_ARGS='-k word'`; what it needs installed is installed for it. ODRADEK_E2E_KEEP=1 leaves the cluster up.

Tests that are marked `quiet` have bounds on the time that a client waits (`tests.support.quiet`).
"""

from __future__ import annotations

import os
import re
import signal
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from e2e import boot, evidence
from e2e.install import (
    NAMESPACE,
    OPERATOR_NAMESPACE,
)
from e2e.kube import Kube, Resource, is_ready, until
from e2e.pages import play
from e2e.workload import CLIENT_POD

pytest_plugins = ["tests.support.quiet"]

READY_SECONDS_MAX = 300.0
RUN = uuid.uuid4().hex[:4]


def pytest_configure() -> None:
    """Let Ctrl-C end the suite, cluster included, also where a script started it in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """By file and as written: pages first, then an installation from beginning to end; quiet tests come last."""
    items.sort(key=lambda item: item.path.name)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A failure carries pods, events and logs as they were in that moment."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed and os.environ.get("KUBECONFIG"):
        report.sections.append(("the cluster", evidence.collected([NAMESPACE, OPERATOR_NAMESPACE])))


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[None]:
    """A cluster that kubectl and helm reach."""
    try:
        with boot.kubernetes():
            yield
    except boot.NoClusterError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


def is_installed(kube: Kube) -> bool:
    if "clusters.odradek.io" not in kube.run("get", "crd", "-o", "name"):
        return False
    there = kube.get("cluster", "demo")
    return there is not None and is_ready(there)


def client_pod() -> Resource:
    container = {
        "name": CLIENT_POD,
        "image": boot.image("clients"),
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": CLIENT_POD, "namespace": NAMESPACE},
        "spec": {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 0},
    }


@pytest.fixture(scope="session")
def kube(kubernetes: None, tmp_path_factory: pytest.TempPathFactory) -> Kube:
    """The namespace with a cluster of three brokers, installed by the README's blocks, and a topic `orders`.

    A pod of stock clients is in it. A cluster that an earlier run left (ODRADEK_E2E_KEEP) is used as it is.
    """
    kube = Kube(NAMESPACE)
    if is_installed(kube):
        return kube
    began = time.monotonic()
    play("README.md", tmp_path_factory.mktemp("readme"))
    print(f"\nthe README's blocks took {time.monotonic() - began:.1f} s")
    kube.apply(client_pod())
    kube.ready("cluster", "demo", READY_SECONDS_MAX)
    declare_topic(kube, "orders", partitions=6, replicas=3)
    kube.run("wait", "--for=condition=Ready", f"pod/{CLIENT_POD}", "--timeout=120s")
    return kube


@pytest.fixture
def topic(kube: Kube, request: pytest.FixtureRequest) -> str:
    """A topic of its own for a test: three partitions on three brokers, with the test's name."""
    name = named(re.sub(r"[^a-z0-9]+", "-", str(request.node.name).removeprefix("test_"))[:50].strip("-"))
    declare_topic(kube, name, partitions=3, replicas=3)
    return name


def named(what: str) -> str:
    """A name that no earlier run has used: on a cluster that was kept, topics of that run are still there."""
    return f"{what}-{RUN}"


def declare_topic(kube: Kube, name: str, **spec: Any) -> Resource:
    """Apply a Topic and wait until it is there as declared."""
    declared = {"cluster": "demo", **spec}
    kube.apply({"apiVersion": "odradek.io/v1", "kind": "Topic", "metadata": {"name": name}, "spec": declared})
    return kube.ready("topic", name, READY_SECONDS_MAX)


def pods_by_name(kube: Kube, component: str) -> dict[str, str]:
    """The uids of the pods of a component: a pod with another uid is another pod."""
    return uids(kube.pods(f"app.kubernetes.io/component={component}"))


def uids(resources: list[Resource]) -> dict[str, str]:
    """The uid of each resource by its name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in resources}


def settled(kube: Kube, seconds_max: float = READY_SECONDS_MAX) -> Resource:
    """The Cluster once all of its pods are as declared and serve."""

    def whole(cluster: Resource) -> bool:
        status = cluster.get("status", {})
        if status.get("observedGeneration") != cluster["metadata"]["generation"] or "movement" in status:
            return False
        parts = [status.get(part, {}) for part in ("brokers", "controllers", "zookeeper")]
        return all(one.get("wanted") == one.get("ready") == one.get("current") for one in parts)

    until(
        lambda: kube.get("cluster", "demo"), whole, seconds_max=seconds_max, what="all pods are as declared"
    )
    return kube.ready("cluster", "demo", seconds_max)
