"""Three brokers become four and three again, under load, with every record where it was promised."""

from __future__ import annotations

from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube
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
