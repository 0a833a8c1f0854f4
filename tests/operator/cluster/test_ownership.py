"""A Cluster changes and deletes its own objects only.

An object of another owner with a name that the Cluster needs stays as it is, and the Cluster's status names it.
"""

from __future__ import annotations

from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Api,
    Json,
    metadata,
)
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld

MARKED = {"odradek.io/cluster": "events", "app.kubernetes.io/managed-by": "odradek-operator"}
NAMES = (
    (SERVICES, "events-bootstrap"),
    (SERVICES, "events-brokers"),
    (CONFIG_MAPS, "events-broker"),
    (CONFIG_MAPS, "events-spark"),
    (SERVICE_ACCOUNTS, "events-broker"),
    (STATEFUL_SETS, "events-broker"),
    (STATEFUL_SETS, "events-zookeeper"),
    (DEPLOYMENTS, "events-controller"),
    (DISRUPTION_BUDGETS, "events-broker"),
    (NETWORK_POLICIES, "events-broker"),
    (CONFIG_MAPS, "events-binding"),
)


def put(world: ClusterWorld, api: Api, name: str, **about: Any) -> Json:
    """Another owner's object."""
    spec = {"theirs": True, "replicas": 0, "updateStrategy": {"type": "OnDelete"}}
    of_pods = {"template": {"metadata": {"labels": {}}}, "selector": {"matchLabels": {"a": "stranger"}}}
    return world.create(api, name, spec | of_pods, **about)


def controlled_by(kind: str, name: str, api_version: str = "apps/v1") -> list[Json]:
    """The owner references of an object that something controls."""
    return [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "x", "controller": True}]


@pytest.mark.parametrize(("api", "name"), NAMES, ids=lambda one: one if isinstance(one, str) else one.kind)
@pytest.mark.parametrize("labels", [{}, MARKED], ids=["plain", "marked"])
def test_a_foreign_object_is_named_and_never_touched(api: Api, name: str, labels: dict[str, str]) -> None:
    world = ClusterWorld()
    # With our labels it still has an owner of its own.
    owners = controlled_by("Release", "web") if labels else []
    theirs = put(world, api, name, labels=labels, ownerReferences=owners)
    world.look(6)
    kept = world.get(api, name)
    assert (
        kept is not None
        and kept["spec"] == theirs["spec"]
        and metadata(kept) | {"resourceVersion": ""} == metadata(theirs) | {"resourceVersion": ""}
    )
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ObjectsOfOthers")
    assert f"{api.kind} {name}" in ready["message"] and "rename or delete" in ready["message"]
    events = [one for one in world.kubernetes.events if one.reason == "ObjectsOfOthers"]
    assert len(events) == 1 and events[0].type == "Warning"
    # Its owner takes it away.
    world.delete(api, name)
    world.settle()
    assert world.condition("Ready")["status"] == "True" and set(world.pods()) == BROKER_PODS


def test_all_that_are_in_the_way_are_named_together() -> None:
    world = ClusterWorld()
    put(world, SERVICES, "events-bootstrap")
    put(world, CONFIG_MAPS, "events-binding", ownerReferences=controlled_by("Certificate", "web"))
    world.look(3)
    message = world.condition("Ready")["message"]
    assert "Service events-bootstrap, ConfigMap events-binding (of Certificate web)" in message
    assert world.pods() == {}, "the bootstrap Service leads to foreign pods"


def test_a_new_listener_with_a_foreign_service_leaves_the_cluster_running(world: ClusterWorld) -> None:
    before = world.pods()
    put(world, SERVICES, "events-out-1")
    world.change(spec__listeners=[{"name": "out", "type": "NodePort", "port": 9094}])
    world.look(4)
    assert "Service events-out-1" in world.condition("Ready")["message"]
    assert world.replaced(before) == set()
    world.change(spec__listeners=[])
    world.settle()
    kept = world.body(SERVICES, "events-out-1")
    assert kept["spec"]["theirs"]


def test_what_an_earlier_cluster_of_the_name_leaves_is_waited_for() -> None:
    world = ClusterWorld()
    owners = controlled_by("Cluster", "events", "odradek.io/v1")
    put(world, SERVICES, "events-bootstrap", labels=MARKED, ownerReferences=owners)
    assert world.look() == 1.0
    assert world.condition("Ready")["reason"] == "EarlierCluster"
    world.delete(SERVICES, "events-bootstrap")
    world.settle()


def test_what_was_left_behind_without_an_owner_is_taken_up_again(world: ClusterWorld) -> None:
    before = world.pods()
    for api, name in NAMES:
        # As `kubectl delete cluster --cascade=orphan` leaves them, or a backup that was restored.
        world.merge(api, name, {"metadata": {"ownerReferences": None}})
    world.restart_operator()
    world.settle()
    for api, name in NAMES:
        kept = world.body(api, name)
        assert metadata(kept)["ownerReferences"], name
    assert world.replaced(before) == set()


@pytest.mark.parametrize("name", ["events-broker", "events-broker-catching-up"])
def test_a_budget_without_an_owner_gets_it_back(world: ClusterWorld, name: str) -> None:
    """Kubernetes counts no change of metadata. Without its owner it would stay when the Cluster goes."""
    world.merge(DISRUPTION_BUDGETS, name, {"metadata": {"ownerReferences": None}})
    world.settle()
    assert metadata(world.body(DISRUPTION_BUDGETS, name))["ownerReferences"]


def test_one_of_its_own_that_lost_its_labels_gets_them_back(world: ClusterWorld) -> None:
    world.merge(SERVICES, "events-bootstrap", {"metadata": {"labels": None}})
    world.restart_operator()
    world.settle()
    kept = world.body(SERVICES, "events-bootstrap")
    assert metadata(kept)["labels"].items() >= MARKED.items()


def test_a_pod_with_a_brokers_labels_and_another_name_is_no_broker(world: ClusterWorld) -> None:
    labels = {**MARKED, "app.kubernetes.io/component": "broker"}
    put(world, PODS, "job-7", labels=labels)
    world.settle()
    assert "movement" not in world.status and world.status["brokers"]["ready"] == 3
