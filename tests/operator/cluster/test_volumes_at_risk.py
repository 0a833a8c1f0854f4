"""A pod's volume claim is deleted: nothing that the operator does takes the last copy of anything along."""

from __future__ import annotations

import pytest

from odradek_operator.desired.names import REPLACE_ANNOTATION, ROLL_ANNOTATION
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import DISRUPTION_BUDGETS, PODS, VOLUME_CLAIMS, Json
from odradek_operator.reconcilers.cluster.rolling.evictions import find_outdated_budgets
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld
from tests.support.loop import run

LAST_COPY = RestartAnswer(known=True, last_copies=1, last_named=("orders-0",))
KEY = Key("Cluster", "default", "events")
CLAIM = "data-events-broker-1"


def delete_claim(world: ClusterWorld, name: str = CLAIM) -> str:
    """What `kubectl delete pvc` does while a pod uses the claim; its uid."""
    world.merge(VOLUME_CLAIMS, name, {"spec": {"volumeName": "pvc-7"}})
    world.delete(VOLUME_CLAIMS, name)
    about = world.body(VOLUME_CLAIMS, name)["metadata"]
    assert about["deletionTimestamp"]
    return str(about["uid"])


def uid_of(world: ClusterWorld, claim: str = CLAIM) -> str:
    return str(world.body(VOLUME_CLAIMS, claim)["metadata"]["uid"])


def budget(world: ClusterWorld, name: str = "events-broker") -> Json:
    spec: Json = world.body(DISRUPTION_BUDGETS, name)["spec"]
    return spec


def unready(world: ClusterWorld, name: str) -> None:
    world.nodes.broken.add(name)
    status = world.body(PODS, name)["status"]
    world.set_status(PODS, name, {**status, "conditions": [{"type": "Ready", "status": "False"}]})


def test_a_roll_leaves_the_broker_whose_volume_would_go_with_the_last_copy(world: ClusterWorld) -> None:
    before, claim = world.pods(), delete_claim(world)
    world.brokers.answers[1] = LAST_COPY
    world.change(spec__image="odradek:0.2.0")
    world.look(20)
    assert world.replaced(before) == BROKER_PODS - {"events-broker-1"}, "the others are rolled"
    assert uid_of(world) == claim, "the records are still there"
    rolling = world.condition("Rolling")
    assert rolling["status"] == "True" and CLAIM in rolling["message"] and "orders-0" in rolling["message"]
    # The owner moves what was only there, and the roll continues.
    world.brokers.answers.clear()
    world.settle()
    assert world.replaced(before) == BROKER_PODS and uid_of(world) != claim
    assert world.condition("Volumes") == {}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata__annotations": {"odradek.io/restart": "monday"}},
        {"spec__brokers": {"config": {"num.partitions": 7}}},
        {"spec__brokers": {"pod": {"labels": {"team": "a"}}}},
    ],
    ids=["restart", "setting", "template"],
)
def test_no_other_reason_takes_it_either(world: ClusterWorld, change: Json) -> None:
    before, claim = world.pods(), delete_claim(world)
    world.brokers.answers[1] = LAST_COPY
    world.change(**change)
    world.look(15)
    assert world.replaced(before) == BROKER_PODS - {"events-broker-1"} and uid_of(world) == claim


@pytest.mark.parametrize("annotation", [ROLL_ANNOTATION, REPLACE_ANNOTATION])
def test_a_request_for_a_new_pod_waits_too(world: ClusterWorld, annotation: str) -> None:
    before, claim = world.pods(), delete_claim(world)
    world.brokers.answers[1] = LAST_COPY
    world.annotate_pod("events-broker-1", annotation, "true")
    world.look(5)
    assert world.pods() == before and uid_of(world) == claim
    world.brokers.answers.clear()
    world.settle()
    assert world.replaced(before) == {"events-broker-1"} and uid_of(world) != claim


def test_it_is_a_condition_and_one_warning_that_say_how_to_save_the_data(world: ClusterWorld) -> None:
    assert run(find_outdated_budgets(world.kubernetes, world.brokers, ())) == set()
    delete_claim(world)
    assert run(find_outdated_budgets(world.kubernetes, world.brokers, ())) == {KEY}, "no event tells of it"
    world.brokers.answers[1] = LAST_COPY
    world.look(3)
    stated = world.condition("Volumes")
    assert (stated["status"], stated["reason"]) == ("False", "AtRisk")
    for words in (
        CLAIM,
        "orders-0",
        "brokers drain 1",
        REPLACE_ANNOTATION,
        "kubectl patch pv pvc-7",
        "Retain",
    ):
        assert words in stated["message"]
    assert world.condition("Ready")["status"] == "True", "it serves"
    events = [event for event in world.kubernetes.events if event.reason == "VolumeAtRisk"]
    assert [(event.type, event.message) for event in events] == [("Warning", stated["message"])]


def test_a_volume_whose_records_are_elsewhere_too_is_no_hindrance(world: ClusterWorld) -> None:
    before, claim = world.pods(), delete_claim(world)
    world.look()
    assert "in sync elsewhere" in world.condition("Volumes")["message"]
    assert budget(world)["maxUnavailable"] == 1
    world.change(spec__image="odradek:0.2.0")
    world.settle()
    assert world.replaced(before) == BROKER_PODS and uid_of(world) != claim


def test_a_drain_of_the_node_waits(world: ClusterWorld) -> None:
    delete_claim(world)
    world.brokers.answers[1] = LAST_COPY
    world.look()
    assert budget(world)["maxUnavailable"] == 0
    assert CLAIM in world.condition("Evictions")["message"]
    # Kubernetes would evict a pod that does not serve from any budget, unless the budget says otherwise.
    unready(world, "events-broker-1")
    world.look()
    for name in ("events-broker", "events-broker-catching-up"):
        assert budget(world, name)["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"
    world.nodes.broken.clear()
    world.brokers.answers.clear()
    world.look(3)
    assert budget(world)["maxUnavailable"] == 1
    assert budget(world)["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_broker_that_does_not_serve_may_have_the_last_copy(world: ClusterWorld) -> None:
    """Others are replaced first when they do not serve. What this one has is not known."""
    before, claim = world.pods(), delete_claim(world)
    unready(world, "events-broker-1")
    world.change(spec__image="odradek:0.2.0")
    world.look(8)
    assert world.pods() == before and uid_of(world) == claim
    assert "not known" in world.condition("Rolling")["message"]
    assert "does not answer" in world.condition("Volumes")["message"]


def test_a_request_to_replace_a_broker_that_does_not_serve_is_carried_out(world: ClusterWorld) -> None:
    """Its owner has given the volume up, and an interrupted run continues."""
    before = world.pods()
    unready(world, "events-broker-1")
    world.annotate_pod("events-broker-1", REPLACE_ANNOTATION, "true")
    claim = delete_claim(world)
    world.nodes.broken.clear()
    world.nodes.frozen = True
    world.look()
    world.nodes.frozen = False
    world.settle()
    assert world.replaced(before) == {"events-broker-1"} and uid_of(world) != claim


@pytest.mark.parametrize("how", ["gone", "lost"])
def test_a_claim_that_is_gone_or_has_no_volume_is_the_same(world: ClusterWorld, how: str) -> None:
    before = world.pods()
    if how == "gone":
        world.merge(VOLUME_CLAIMS, CLAIM, {"metadata": {"finalizers": []}})
        world.delete(VOLUME_CLAIMS, CLAIM)
    else:
        world.set_status(VOLUME_CLAIMS, CLAIM, {"phase": "Lost"})
    world.brokers.answers[1] = LAST_COPY
    world.change(spec__image="odradek:0.2.0")
    world.look(15)
    assert world.replaced(before) == BROKER_PODS - {"events-broker-1"}
    assert CLAIM in world.condition("Volumes")["message"]


def test_a_claim_that_has_no_volume_yet_is_no_risk(world: ClusterWorld) -> None:
    world.set_status(VOLUME_CLAIMS, CLAIM, {"phase": "Pending"})
    world.delete(VOLUME_CLAIMS, CLAIM)
    world.look()
    assert world.condition("Volumes") == {}


def test_a_claim_that_was_put_back_without_labels_is_no_risk(world: ClusterWorld) -> None:
    world.merge(VOLUME_CLAIMS, CLAIM, {"metadata": {"labels": None}})
    world.look()
    assert world.condition("Volumes") == {}


def test_the_only_zookeeper_server_stays(world: ClusterWorld) -> None:
    before = world.pods("zookeeper")
    claim = delete_claim(world, "data-events-zookeeper-0")
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    world.look(8)
    assert world.pods("zookeeper") == before and uid_of(world, "data-events-zookeeper-0") == claim
    assert "data-events-zookeeper-0" in world.condition("Rolling")["message"]
    assert "zookeeper.servers.replicas" in world.condition("Volumes")["message"]
    assert budget(world, "events-zookeeper")["maxUnavailable"] == 0


def test_one_of_three_zookeeper_servers_gets_its_data_from_the_others() -> None:
    world = ClusterWorld({"zookeeper": {"servers": {"replicas": 3}}})
    world.settle()
    before = world.pods("zookeeper")
    claim = delete_claim(world, "data-events-zookeeper-0")
    world.look()
    assert "other servers have its data" in world.condition("Volumes")["message"]
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    world.settle()
    assert set(world.pods("zookeeper").values()).isdisjoint(before.values())
    assert uid_of(world, "data-events-zookeeper-0") != claim


def test_zookeeper_does_not_shrink_to_a_server_whose_volume_would_go() -> None:
    world = ClusterWorld({"zookeeper": {"servers": {"replicas": 3}}})
    world.settle()
    delete_claim(world, "data-events-zookeeper-0")
    world.change(spec__zookeeper={"servers": {"replicas": 1}})
    world.look(8)
    assert world.brokers.voters == (1, 2, 3)
    assert "data-events-zookeeper-0" in world.condition("Zookeeper")["message"]
