"""Helm's uninstall leaves topics and volumes, hangs nowhere, and what is installed again takes all of it up."""

from __future__ import annotations

import pytest

from e2e.conftest import READY_SECONDS_MAX, declare_topic, named, settled, uids
from e2e.install import (
    BOOTSTRAP,
    NAMESPACE,
    OPERATOR_NAMESPACE,
    OPERATOR_RELEASE,
    RELEASE,
    install_cluster,
    uninstall,
    upgrade_operator,
)
from e2e.kube import Kube, until
from e2e.workload import everything, load_on, produce

pytestmark = pytest.mark.quiet


def test_an_upgrade_of_the_operator_touches_no_pod(kube: Kube) -> None:
    settled(kube)
    before = uids(kube.pods("odradek.io/cluster=demo"))
    with load_on(kube, BOOTSTRAP, "orders") as load:
        upgrade_operator("--set", "settings.resyncSeconds=120")
        kube.ready("cluster", "demo", 60)
    assert uids(kube.pods("odradek.io/cluster=demo")) == before
    load.check_promises(kube, BOOTSTRAP)


def test_what_is_installed_again_has_all_data(kube: Kube) -> None:
    values = [f"kept-{number}" for number in range(300)]
    declare_topic(kube, named("kept"), partitions=3, replicas=3)
    produce(kube, BOOTSTRAP, named("kept"), values)
    held = sorted(everything(kube, BOOTSTRAP, named("kept")))
    identity = (kube.get("topic", named("kept")) or {})["status"]["topicId"]
    volumes = {one["metadata"]["name"] for one in kube.items("pvc", "odradek.io/cluster=demo")}

    uninstall(RELEASE, NAMESPACE)
    until(
        lambda: kube.items("pods", "odradek.io/cluster=demo"),
        lambda pods: not pods,
        seconds_max=120,
        what="the pods are gone",
    )
    assert kube.get("topic", named("kept")) is not None, "a Topic that Helm did not make stays"
    assert {one["metadata"]["name"] for one in kube.items("pvc", "odradek.io/cluster=demo")} == volumes

    install_cluster()
    kube.ready("cluster", "demo", READY_SECONDS_MAX)
    again = kube.ready("topic", named("kept"), READY_SECONDS_MAX)
    assert again["status"]["topicId"] == identity
    assert sorted(everything(kube, BOOTSTRAP, named("kept"))) == held
    with load_on(kube, BOOTSTRAP, named("kept")) as load:
        pass
    load.check_promises(kube, BOOTSTRAP)


def test_nothing_hangs_when_the_operator_goes_first(kube: Kube) -> None:
    declare_topic(kube, "orphan", partitions=1, replicas=1, deletionPolicy="Delete")
    assert "finalizers" not in (kube.get("topic", "orphan") or {})["metadata"]
    uninstall(OPERATOR_RELEASE, OPERATOR_NAMESPACE)
    kube.delete("topic", "orphan")
    uninstall(RELEASE, NAMESPACE)
    assert kube.get("cluster", "demo") is None
    assert "odradek.io" in kube.run("get", "crd", "-o", "name"), (
        "definitions stay, and with them what others declared"
    )
