"""A node's drain evicts brokers: never one too many, however long another one takes to catch up."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.conftest import declare_topic, named, pods_by_name, settled
from e2e.install import BOOTSTRAP, NAMESPACE, OPERATOR_NAMESPACE
from e2e.kube import Kube, KubectlError, Resource, condition, until
from e2e.pages import play
from e2e.workload import listed, produce

pytestmark = pytest.mark.quiet

OPERATOR = Kube(OPERATOR_NAMESPACE)
# Slow enough for what is written to last until the throttle is lifted.
CATCH_UP_BYTES_PER_SECOND = 20_000
VALUES = [f"{number:04}" + "x" * 10_000 for number in range(200)]


def evict(kube: Kube, pod: str) -> str | None:
    """Ask for an eviction, as a drain does. None when it was accepted, else what the API server said, in full."""
    about = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    try:
        # -v=8 prints the answer whole: the details name the budget.
        kube.run("create", "--raw", path, "-f", "-", "-v=8", stdin=json.dumps(about))
    except KubectlError as refused:
        assert "TooManyRequests" in str(refused), refused
        return str(refused)
    return None


def budget(kube: Kube) -> Resource | None:
    """The brokers' disruption budget, in which a broker counts once it is in sync."""
    return kube.get("poddisruptionbudget", "demo-broker")


def is_counted(budget: Resource) -> bool:
    """Whether Kubernetes has counted pods since the operator changed the budget."""
    return bool(budget.get("status", {}).get("observedGeneration") == budget["metadata"]["generation"])


def is_open(budget: Resource) -> bool:
    """Whether any one broker may be evicted."""
    return is_counted(budget) and budget["status"]["disruptionsAllowed"] == 1


def configs(kube: Kube, action: str, *arguments: str) -> None:
    kube.inside("demo-broker-0", "odradek", "configs", action, *arguments, "--bootstrap", BOOTSTRAP)


@contextmanager
def throttled(kube: Kube, topic: str, broker: int) -> Iterator[None]:
    """A broker that catches up with a topic slowly, as after hours away."""
    key = "follower.replication.throttled"
    configs(kube, "set", "topic", topic, f"{key}.replicas=*")
    configs(kube, "set", "broker", str(broker), f"{key}.rate={CATCH_UP_BYTES_PER_SECOND}")
    try:
        yield
    finally:
        configs(kube, "unset", "broker", str(broker), f"{key}.rate")
        configs(kube, "unset", "topic", topic, f"{key}.replicas")


def in_sync(kube: Kube, topic: str) -> int:
    """The replicas in sync of the partition that has the fewest."""
    return min(len(one["isrs"]) for one in listed(kube, BOOTSTRAP, topic))


def is_back(kube: Kube, pod: str, before: str) -> bool:
    """Whether another pod of this name is ready."""
    found = kube.get("pod", pod)
    if found is None or found["metadata"]["uid"] == before:
        return False
    conditions = found.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_no_second_broker_is_evicted_while_the_first_catches_up(kube: Kube) -> None:
    topic = named("drained")
    declare_topic(kube, topic, partitions=1, replicas=3, config={"min.insync.replicas": 2}, drift="Off")
    settled(kube)
    before = pods_by_name(kube, "broker")["demo-broker-1"]
    with throttled(kube, topic, 1):
        until(
            lambda: [evict(kube, "demo-broker-1")],
            lambda said: said == [None],
            seconds_max=90,
            what="it goes",
        )
        refusals = [evict(kube, "demo-broker-2")]
        produce(kube, BOOTSTRAP, topic, VALUES)
        ready_at = None
        # Asked as often as can be, in the moments before and after the new pod is ready above all.
        while ready_at is None or time.monotonic() < ready_at + 15:
            refusals.append(evict(kube, "demo-broker-2"))
            if ready_at is None and is_back(kube, "demo-broker-1", before):
                ready_at = time.monotonic()
        assert None not in refusals, f"eviction {refusals.index(None)} of {len(refusals)} was accepted"
        assert in_sync(kube, topic) == 2, "the new broker is still behind: the test has tried something"
        assert "The disruption budget demo-broker needs 3 healthy pods" in (refusals[-1] or "")
        cluster = until(
            lambda: kube.get("cluster", "demo"),
            lambda one: f"{topic}-0" in condition(one, "Evictions").get("message", ""),
            seconds_max=30,
            what="the Cluster says which partition holds evictions",
        )
        held = condition(cluster, "Evictions")
        assert held["status"] == "False"
        assert condition(cluster, "Ready")["status"] == "True", "clients are served all the time"
        print(f"\n{len(refusals)} evictions were refused: {held['message']}")
    until(lambda: in_sync(kube, topic), lambda count: count == 3, seconds_max=60, what="all are in sync")
    last = pods_by_name(kube, "broker")["demo-broker-2"]
    until(
        lambda: [evict(kube, "demo-broker-2")], lambda said: said == [None], seconds_max=90, what="it may go"
    )
    # The operator needs a moment to notice: until then the Cluster is still Ready.
    until(lambda: is_back(kube, "demo-broker-2", last), bool, seconds_max=90, what="the last one is back")
    until(
        lambda: condition(settled(kube), "Evictions"),
        lambda held: not held,
        seconds_max=60,
        what="nothing is held",
    )


def test_the_page_about_drains(kube: Kube, tmp_path: Path) -> None:
    settled(kube)
    before = pods_by_name(kube, "broker")
    play("docs/node-drains.md", tmp_path)
    settled(kube)
    after = pods_by_name(kube, "broker")
    assert [name for name in after if after[name] != before[name]] == ["demo-broker-1"]


def test_no_second_broker_is_evicted_while_the_operator_is_away(kube: Kube) -> None:
    """It may have been on the node that is drained."""
    settled(kube)
    # The operator opens it once it has seen the last test's new pod in sync; while it is away it cannot.
    until(lambda: budget(kube), is_open, seconds_max=60, what="any one broker may go")
    before = pods_by_name(kube, "broker")["demo-broker-0"]
    OPERATOR.run("scale", "deployment/odradek-operator", "--replicas=0")
    try:
        until(
            lambda: OPERATOR.items("pods", "app.kubernetes.io/name=odradek-operator"),
            lambda pods: not pods,
            seconds_max=60,
            what="the operator is away",
        )
        assert evict(kube, "demo-broker-0") is None
        until(
            lambda: is_back(kube, "demo-broker-0", before),
            bool,
            seconds_max=90,
            what="the evicted broker is back",
        )
        time.sleep(2)  # Kubernetes counts what is ready in the meantime.
        until(
            lambda: budget(kube),
            lambda seen: is_counted(seen) and seen["status"]["currentHealthy"] == 2,
            seconds_max=90,
            what="the evicted broker does not count",
        )
        refused = evict(kube, "demo-broker-1")
        assert refused is not None and "needs 2 healthy pods and has 2 currently" in refused
        assert evict(kube, "demo-broker-0") is not None, (
            "a pod that is not counted yet has a budget of its own"
        )
    finally:
        OPERATOR.run("scale", "deployment/odradek-operator", "--replicas=1")
    last = pods_by_name(kube, "broker")["demo-broker-1"]
    until(
        lambda: [evict(kube, "demo-broker-1")], lambda said: said == [None], seconds_max=90, what="it may go"
    )
    until(lambda: is_back(kube, "demo-broker-1", last), bool, seconds_max=90, what="the last one is back")
    settled(kube)
