"""Three brokers become four and three again, and their volumes grow, with every record where it was promised."""

from __future__ import annotations

import pytest

from e2e import boot
from e2e.conftest import declare_topic, named, pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube, Resource, until
from e2e.workload import listed, load_on

pytestmark = pytest.mark.quiet

SCALE_SECONDS_MAX = 240.0


def brokers_of(kube: Kube, topic: str) -> set[int]:
    """The brokers that keep a replica of a topic, as clients see them."""
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


def test_brokers_are_levelled_on_request(kube: Kube) -> None:
    target = "cluster.odradek.io/demo"
    for annotation, state in (("plan-balance", "Planned"), ("balance", "Done")):
        kube.run("annotate", target, f"odradek.io/{annotation}=scale-test", "--overwrite")
        found = until(
            lambda: (kube.get("cluster", "demo") or {}).get("status", {}).get("balance", {}),
            lambda balance, state=state: balance.get("state") == state,  # type: ignore[misc]
            seconds_max=SCALE_SECONDS_MAX,
            what=f"the rebalance is {state}",
        )
    assert found["unmet"] == [] and found["request"] == "scale-test"


@pytest.mark.thorough
def test_brokers_of_a_pool_are_filled_and_emptied_under_load(kube: Kube) -> None:
    pool = {"name": "more", "firstId": 1000, "replicas": 1, "storage": {"size": "1Gi"}}
    pods = pods_by_name(kube, "broker")
    with load_on(kube, BOOTSTRAP, "orders") as load:
        kube.patch("cluster", "demo", {"spec": {"brokers": {"pools": [pool]}}})
        settled(kube, SCALE_SECONDS_MAX)
        assert set(pods_by_name(kube, "broker")) == {*pods, "demo-broker-more-1000"}
        assert 1000 in brokers_of(kube, "orders"), "the pool's broker was to keep a part of the topic"
        kube.patch("cluster", "demo", {"spec": {"brokers": {"pools": []}}})
        settled(kube, SCALE_SECONDS_MAX)
    assert pods_by_name(kube, "broker") == pods
    assert brokers_of(kube, "orders") == {0, 1, 2}
    load.check_promises(kube, BOOTSTRAP)


@pytest.mark.thorough
def test_zookeeper_becomes_one_server_and_three_again_under_load(kube: Kube, topic: str) -> None:
    others = {**pods_by_name(kube, "broker"), **pods_by_name(kube, "controller")}
    first = pods_by_name(kube, "zookeeper")["demo-zookeeper-0"]
    with load_on(kube, BOOTSTRAP, topic) as load:
        resize_zookeeper(kube, 1)
        resize_zookeeper(kube, 3)
    assert pods_by_name(kube, "zookeeper")["demo-zookeeper-0"] == first, "no server restarts for it"
    assert {**pods_by_name(kube, "broker"), **pods_by_name(kube, "controller")} == others
    load.check_promises(kube, BOOTSTRAP)


def resize_zookeeper(kube: Kube, servers: int) -> None:
    """Ask for another number of servers, and wait until these vote and no others have a pod or a volume."""
    upgrade_cluster("--set", f"cluster.spec.zookeeper.servers.replicas={servers}")
    until(
        lambda: kube.get("cluster", "demo") or {},
        lambda found: voters(found) == list(range(1, servers + 1)),
        seconds_max=SCALE_SECONDS_MAX,
        what=f"{servers} of ZooKeeper's servers vote",
    )
    until(
        lambda: claims_of_zookeeper(kube),
        lambda found: len(found) == servers,
        seconds_max=90,
        what="no volume of a former server is left, and each server has one",
    )
    settled(kube)
    assert len(pods_by_name(kube, "zookeeper")) == servers
    declare_topic(kube, named(f"with-{servers}-servers"), partitions=3, replicas=3)


def voters(cluster: Resource) -> list[int]:
    found: list[int] = cluster.get("status", {}).get("ensemble", {}).get("voters", [])
    return found


def claims_of_zookeeper(kube: Kube) -> list[str]:
    names = (one["metadata"]["name"] for one in kube.items("pvc"))
    return [name for name in names if name.startswith("data-demo-zookeeper-")]


def test_volumes_grow_and_no_pod_is_touched(kube: Kube) -> None:
    """The sizes asked of Kubernetes. The one-node cluster's volumes are folders, so nothing behind the claims grows."""
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
    """The sizes in the brokers' claims, and in the StatefulSet's template for new ones."""
    made = kube.get("statefulset", "demo-broker") or {}
    claims = {pod: kube.get("pvc", f"data-{pod}") for pod in pods_by_name(kube, "broker")}
    templates = made.get("spec", {}).get("volumeClaimTemplates", [])
    return {
        "demo-broker": {one["spec"]["resources"]["requests"]["storage"] for one in templates},
        "claims": {one["spec"]["resources"]["requests"]["storage"] for one in claims.values() if one},
    }
