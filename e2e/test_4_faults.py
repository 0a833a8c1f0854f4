"""Pods die under load: nothing that was acknowledged is lost, and no client waits longer than ten seconds."""

from __future__ import annotations

from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP
from e2e.kube import Kube, KubectlError, until
from e2e.workload import load_on


def test_a_broker_pod_is_deleted(kube: Kube, topic: str) -> None:
    """As a drain of its node does it: the broker may hand its partitions over."""
    before = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.delete("pod", "demo-broker-1", wait=False)
        replaced(kube, "broker", before)
    load.check_promises(kube, BOOTSTRAP)


def test_a_broker_pod_is_lost(kube: Kube, topic: str) -> None:
    """As a node's loss does it: nobody was told."""
    before = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.kill_pod("demo-broker-2")
        replaced(kube, "broker", before)
    load.check_promises(kube, BOOTSTRAP)


def test_the_active_controllers_pod_is_lost(kube: Kube, topic: str) -> None:
    before = pods_by_name(kube, "controller")
    active = active_controller(kube)
    assert active
    with load_on(kube, BOOTSTRAP, topic) as load:
        kube.kill_pod(active)
        until(
            lambda: active_controller(kube),
            lambda name: name not in ("", active),
            seconds_max=30,
            what="another controller is active",
        )
        replaced(kube, "controller", before)
    load.check_promises(kube, BOOTSTRAP)


def replaced(kube: Kube, component: str, before: dict[str, str]) -> None:
    """Wait until a pod that was not there before serves, and the cluster is whole."""
    until(
        lambda: pods_by_name(kube, component),
        lambda now: len(now) == len(before) and now != before,
        seconds_max=60,
        what="another pod in its place",
    )
    settled(kube)


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
