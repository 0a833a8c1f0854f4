"""Three brokers become four and three again, under load, with every record where it was promised."""

from __future__ import annotations

from e2e.conftest import pods_by_name, settled
from e2e.install import BOOTSTRAP, upgrade_cluster
from e2e.kube import Kube, Resource, until
from e2e.workload import load_on

SCALE_SECONDS_MAX = 240.0


def brokers_of(topic: Resource) -> set[int]:
    """The brokers that keep a replica of a topic, by its status."""
    return {broker for one in topic["status"].get("partitionStates", []) for broker in one["replicas"]}


def test_a_fourth_broker_is_filled_and_emptied_again(kube: Kube) -> None:
    with load_on(kube, BOOTSTRAP, "orders") as load:
        upgrade_cluster("--set", "cluster.spec.brokers.replicas=4")
        settled(kube, SCALE_SECONDS_MAX)
        assert len(pods_by_name(kube, "broker")) == 4
        until(
            lambda: kube.get("topic", "orders"),
            lambda one: 3 in brokers_of(one),
            seconds_max=SCALE_SECONDS_MAX,
            what="the new broker keeps a part of the topic",
        )
        upgrade_cluster("--set", "cluster.spec.brokers.replicas=3")
        settled(kube, SCALE_SECONDS_MAX)
    assert set(pods_by_name(kube, "broker")) == {"demo-broker-0", "demo-broker-1", "demo-broker-2"}
    topic = until(
        lambda: kube.get("topic", "orders"),
        lambda one: 3 not in brokers_of(one),
        seconds_max=60,
        what="nothing is said to be on the broker that went",
    )
    assert brokers_of(topic) == {0, 1, 2}
    load.check_promises(kube, BOOTSTRAP)
