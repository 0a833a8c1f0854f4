"""Three brokers become four and three again, and their volumes grow, with every record where it was promised."""

from __future__ import annotations

import pytest

from e2e import boot
from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube, until
from e2e.workload import listed, load_on

SCALE_SECONDS_MAX = 240.0


def brokers_of(kube: Kube, topic: str) -> set[int]:
    """The brokers that keep a replica of a topic, as clients are told."""
    return {replica["id"] for one in listed(kube, BOOTSTRAP, topic) for replica in one["replicas"]}


def test_a_fourth_broker_is_filled_and_emptied_again(kube: Kube) -> None:
    with load_on(kube, BOOTSTRAP, "orders") as load:
        upgrade_cluster("--set", "cluster.spec.brokers.replicas=4")
        settled(kube, SCALE_SECONDS_MAX)
        assert len(pods_by_name(kube, "broker")) == 4
        assert 3 in brokers_of(kube, "orders"), "the new broker was to keep a part of the topic"
        upgrade_cluster("--set", "cluster.spec.brokers.replicas=3")
        settled(kube, SCALE_SECONDS_MAX)
    assert set(pods_by_name(kube, "broker")) == {"demo-broker-0", "demo-broker-1", "demo-broker-2"}
    assert brokers_of(kube, "orders") == {0, 1, 2}
    load.check_promises(kube, BOOTSTRAP)


def test_volumes_grow_and_no_pod_is_touched(kube: Kube) -> None:
    """What Kubernetes is asked for. The one-node cluster's volumes are folders, so nothing behind the claims grows."""
    classes = kube.items("storageclass")
    if boot.is_one_node():
        for one in classes:
            kube.patch("storageclass", one["metadata"]["name"], {"allowVolumeExpansion": True})
    elif not all(one.get("allowVolumeExpansion") for one in classes):
        pytest.skip("volumes of this cluster may not grow")
    before = pods_by_name(kube, "broker")
    upgrade_cluster("--set", "cluster.spec.brokers.storage.size=12Gi")
    until(
        lambda: sizes(kube),
        lambda found: found["demo-broker"] == {"12Gi"},
        seconds_max=60,
        what="the StatefulSet has the new size",
    )
    settled(kube)
    assert sizes(kube) == {"demo-broker": {"12Gi"}, "claims": {"12Gi"}}
    assert pods_by_name(kube, "broker") == before


def sizes(kube: Kube) -> dict[str, set[str]]:
    """What the brokers' claims ask for, and what the StatefulSet will ask for in new ones."""
    made = kube.get("statefulset", "demo-broker") or {}
    claims = {pod: kube.get("pvc", f"data-{pod}") for pod in pods_by_name(kube, "broker")}
    templates = made.get("spec", {}).get("volumeClaimTemplates", [])
    return {
        "demo-broker": {one["spec"]["resources"]["requests"]["storage"] for one in templates},
        "claims": {one["spec"]["resources"]["requests"]["storage"] for one in claims.values() if one},
    }
