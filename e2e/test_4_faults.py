"""Pods die under load: nothing that was acknowledged is lost, and no client waits longer than ten seconds."""

from __future__ import annotations

import pytest

from e2e import boot
from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, KubectlError, Resource, condition, until
from e2e.workload import listed, load_on

pytestmark = pytest.mark.quiet


def test_a_broker_pod_is_deleted(kube: Kube, topic: str) -> None:
    """As a drain of its node does it: the broker may hand its partitions over."""
    before = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.delete("pod", "demo-broker-1", wait=False)
        replaced(kube, "broker", before)
    load.check_promises(kube, BOOTSTRAP)


def test_a_broker_pod_is_lost(kube: Kube, topic: str) -> None:
    """As a node's loss does it: without a signal."""
    before = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.kill_pod("demo-broker-2")
        replaced(kube, "broker", before)
    load.check_promises(kube, BOOTSTRAP)


def test_a_brokers_process_is_killed(kube: Kube, topic: str) -> None:
    """As a crash does it: the cluster learns of it when the broker's session ends, unless it is back before."""
    if not boot.is_one_node():
        pytest.skip("containers of this cluster cannot be killed from here")
    with load_on(kube, BOOTSTRAP, topic) as load:
        crashed = container_of(kube, "demo-broker-0")
        boot.crash(crashed["containerID"])
        until(
            lambda: container_of(kube, "demo-broker-0"),
            lambda now: bool(now.get("ready")) and now["restartCount"] > crashed["restartCount"],
            seconds_max=90,
            what="the broker's container runs again",
        )
        settled(kube)
    load.check_promises(kube, BOOTSTRAP)


def test_a_brokers_volume_is_replaced_on_request(kube: Kube, topic: str) -> None:
    """As after the loss of its node: pod and volume are new, and the others give it back what it had."""
    before, volume = pods_by_name(kube, "broker"), uid_of(kube, "pvc", "data-demo-broker-1")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.run("annotate", "pod", "demo-broker-1", "odradek.io/replace=true")
        until(
            lambda: pods_by_name(kube, "broker"),
            lambda now: now.get("demo-broker-1") not in (None, before["demo-broker-1"]),
            seconds_max=120,
            what="another pod in its place",
        )
        settled(kube)
        until(
            lambda: listed(kube, BOOTSTRAP, topic),
            lambda partitions: all(len(one["isrs"]) == 3 for one in partitions),
            seconds_max=60,
            what="the new broker has all that the old one had",
        )
    after = pods_by_name(kube, "broker")
    assert [name for name in after if after[name] != before[name]] == ["demo-broker-1"]
    assert uid_of(kube, "pvc", "data-demo-broker-1") != volume
    load.check_promises(kube, BOOTSTRAP)


def test_the_active_controllers_pod_is_lost(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "controller")
    active = until(lambda: active_controller(kube), bool, seconds_max=60, what="a controller is active")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.kill_pod(active)
        until(
            lambda: active_controller(kube),
            lambda name: name not in ("", active),
            seconds_max=90,
            what="another controller is active",
        )
        replaced(kube, "controller", before)
    load.check_promises(kube, BOOTSTRAP)


def test_zookeepers_leader_is_deleted(kube: Kube, topic: str) -> None:
    """As a drain of its node does it: the others elect, and sessions continue there."""
    before = pods_by_name(kube, "zookeeper")
    leader = until(lambda: zookeeper_leader(kube), bool, seconds_max=60, what="a server leads")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.delete("pod", leader, wait=False)
        replaced(kube, "zookeeper", before)
    load.check_promises(kube, BOOTSTRAP)


def zookeeper_leader(kube: Kube) -> str:
    """The pod of the server that says of itself that it leads; empty while there is none."""
    script = "exec 3<>/dev/tcp/localhost/2181; printf srvr >&3; cat <&3"
    for name in pods_by_name(kube, "zookeeper"):
        reported = kube.inside(name, "bash", "-c", script)
        if "Mode: leader" in reported or "Mode: standalone" in reported:
            return name
    return ""


def container_of(kube: Kube, pod: str) -> Resource:
    """The status of a pod's only container; empty while it has none."""
    found = (kube.get("pod", pod) or {}).get("status", {}).get("containerStatuses") or [{}]
    status: Resource = found[0]
    return status


def uid_of(kube: Kube, kind: str, name: str) -> str:
    return str((kube.get(kind, name) or {}).get("metadata", {}).get("uid", ""))


def replaced(kube: Kube, component: str, before: dict[str, str]) -> None:
    """Wait until a pod that was not there before serves, and the cluster is whole."""
    until(
        lambda: ready_pods(kube, component),
        lambda now: len(now) == len(before) and now != before,
        seconds_max=120,
        what="another pod serves in its place",
    )
    settled(kube)


def ready_pods(kube: Kube, component: str) -> dict[str, str]:
    """The uids of the pods of a component that serve, and are not about to end."""
    return {
        one["metadata"]["name"]: one["metadata"]["uid"]
        for one in kube.pods(f"app.kubernetes.io/component={component}")
        if condition(one, "Ready").get("status") == "True"
    }


def active_controller(kube: Kube) -> str:
    """The pod of the controller that says of itself that it is the active one; empty while there is none."""
    script = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:9644/metrics').read().decode())"
    for name in pods_by_name(kube, "controller"):
        try:
            measures = kube.inside(name, "python", "-c", script)
        except KubectlError:
            continue  # its container is on its way up or down
        if "\nodradek_is_controller 1" in measures:
            return name
    return ""
