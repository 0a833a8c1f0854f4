"""When pods of a Cluster are restarted, in which order, and what they wait for, with Kubernetes in memory."""

from __future__ import annotations

from itertools import pairwise

import pytest

from odradek.foundation.errors import PolicyViolation
from odradek_operator.desired.names import REPLACE_ANNOTATION, ROLL_ANNOTATION
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import PODS, VOLUME_CLAIMS
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld


def test_a_new_image_restarts_brokers_one_by_one_and_controllers_last(world: ClusterWorld) -> None:
    before, controllers = world.pods(), world.pods("controller")
    world.change(spec__image="odradek:0.2.0")
    gone: list[set[str]] = []
    for _ in range(60):
        after = world.look()
        replaced = world.replaced(before)
        gone.append(replaced)
        if len(replaced) < 3:
            assert world.pods("controller") == controllers, "controllers go after the brokers"
            assert world.condition("Ready")["status"] == "True"
        if after is None:
            break
    sizes = [len(replaced) for replaced in gone]
    assert sizes[-1] == 3 and all(later - earlier <= 1 for earlier, later in pairwise(sizes))
    assert world.status["image"] == "odradek:0.2.0"
    assert set(world.pods("controller")).isdisjoint(controllers)
    assert [event.reason for event in world.kubernetes.events] == ["BrokerRestarts"] * 3


@pytest.mark.thorough
def test_a_roll_waits_only_for_replicas_that_can_be_in_sync(world: ClusterWorld) -> None:
    before = world.pods()
    for broker in range(3):
        world.brokers.answers[broker] = RestartAnswer(known=True, waiting_for=("orders-3",))
    world.change(spec__image="odradek:0.2.0")
    for _ in range(5):
        assert world.look() is not None
    assert world.pods() == before
    rolling = world.condition("Rolling")
    assert rolling["status"] == "True" and rolling["reason"] == "Waiting"
    assert "orders-3" in rolling["message"] and "broker 0" in rolling["message"]
    # Another broker may go first.
    world.brokers.answers[1] = RestartAnswer(known=True, never_safe=("fragile-0",))
    world.look()
    assert world.replaced(before) == {"events-broker-1"}
    assert any(
        event.reason == "PartitionsAway" and "fragile-0" in event.message for event in world.kubernetes.events
    )
    world.brokers.answers.clear()
    world.settle()
    assert world.condition("Rolling")["status"] == "False"


def test_a_pod_that_does_not_serve_is_replaced_first_without_asking(world: ClusterWorld) -> None:
    world.nodes.broken.add("events-broker-2")
    world.delete(PODS, "events-broker-2")
    world.nodes.turn()
    before = world.pods()
    world.brokers.asked.clear()
    world.change(spec__image="odradek:0.2.0")
    world.look(4)
    assert world.replaced(before) == {"events-broker-2"}, "no other broker goes while one is away"
    assert world.brokers.asked == []
    world.nodes.broken.clear()
    world.settle()
    assert world.status["brokers"]["current"] == 3


def test_only_settings_that_cannot_change_live_restart_brokers(world: ClusterWorld) -> None:
    before, controllers = world.pods(), world.pods("controller")
    world.change(spec__brokers={"config": {"log.retention.ms": 3600000}})
    world.settle()
    assert world.brokers.overrides == {"log.retention.ms": "3600000"}
    assert world.pods() == before and world.pods("controller") == controllers
    assert world.status["liveSettings"] == ["log.retention.ms"]
    world.change(spec__brokers={"config": {"log.retention.ms": 3600000, "num.partitions": 7}})
    world.settle()
    assert set(world.pods().values()).isdisjoint(before.values())
    assert set(world.pods("controller")).isdisjoint(controllers)


def test_a_brokers_own_setting_that_covers_the_clusters_is_named(world: ClusterWorld) -> None:
    before = world.pods()
    world.brokers.own = {1: {"log.retention.ms": "5"}}
    world.change(spec__brokers={"config": {"log.retention.ms": 3600000}})
    world.settle()
    assert world.pods() == before
    assert "odradek configs unset broker 1 log.retention.ms" in world.condition("Settings")["message"]
    world.brokers.own = {}
    world.settle()
    assert world.condition("Settings") == {}


def test_settings_that_brokers_refuse_are_not_tried_again_at_once(world: ClusterWorld) -> None:
    world.brokers.refusal = PolicyViolation("not this one")
    world.change(spec__brokers={"config": {"log.retention.ms": 3600000}})
    again_seconds = world.look()
    assert again_seconds is not None and again_seconds >= 30
    assert "log.retention.ms could not be altered: " in world.condition("Settings")["message"]


def test_a_setting_that_has_no_default_is_taken_back_without_a_restart(world: ClusterWorld) -> None:
    before = world.pods()
    world.change(spec__brokers={"config": {"log.retention.ms": 3600000}})
    world.settle()
    world.change(spec__brokers={"config": {"log.retention.ms": None}})
    world.settle()
    assert world.brokers.overrides == {}
    assert world.pods() == before
    assert "log.retention.ms back to its default" in world.kubernetes.events[-1].message


def test_the_restart_annotation_counts_once_for_each_value(world: ClusterWorld) -> None:
    first = world.pods()
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    world.settle()
    second = world.pods()
    assert set(first.values()).isdisjoint(second.values())
    world.change(metadata__annotations={"odradek.io/restart": None})
    world.settle()
    assert world.pods() == second


@pytest.mark.thorough
def test_brokers_wait_for_a_zookeeper_that_is_replaced(world: ClusterWorld) -> None:
    before, servers = world.pods(), world.pods("zookeeper")
    world.nodes.broken.add("events-zookeeper-0")
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    for _ in range(8):
        world.look()
        assert world.replaced(before) == set(), "nobody could take over what the broker leads"
    assert "ZooKeeper" in world.condition("Rolling")["message"]
    world.nodes.broken.clear()
    world.settle()
    assert world.replaced(before) == BROKER_PODS
    assert set(world.pods("zookeeper").values()).isdisjoint(servers.values())


def test_controllers_wait_for_a_broker_that_reports_no_settings(world: ClusterWorld) -> None:
    before, controllers = world.pods(), world.pods("controller")
    world.brokers.silent = {1}
    world.change(spec__brokers={"config": {"num.partitions": 7}})
    for _ in range(8):
        assert world.look() is not None
    assert world.replaced(before) == {"events-broker-0", "events-broker-2"}
    assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 2}
    rolling = world.condition("Rolling")
    assert rolling["status"] == "Unknown" and "settings: 1" in rolling["message"]
    assert "broker 1 says nothing" in world.condition("Reachable")["message"]
    assert world.pods("controller") == controllers, "controllers go after the brokers"
    world.brokers.silent = set()
    world.settle()
    assert world.replaced(before) == BROKER_PODS
    assert world.status["brokers"]["current"] == 3 and world.condition("Rolling")["status"] == "False"
    assert set(world.pods("controller")).isdisjoint(controllers)


def test_a_broker_with_a_full_disk_is_not_restarted_before_it_has_room(world: ClusterWorld) -> None:
    before = world.pods()
    full = RestartAnswer(known=True, refused_writes="the log directory /var/lib/odradek is full since 9 s")
    for broker in range(3):
        world.brokers.answers[broker] = full
    world.change(spec__image="odradek:0.2.0")
    for _ in range(5):
        assert world.look() is not None
    assert world.pods() == before
    message = world.condition("Rolling")["message"]
    assert "broker 0 may not start again" in message and "/var/lib/odradek is full" in message
    assert world.condition("Ready")["status"] == "True", "it is asked for reads and for what makes room"
    world.brokers.answers.clear()
    world.settle()
    assert world.replaced(before) == set(before)


@pytest.mark.thorough
def test_full_volumes_are_a_condition_that_says_what_to_do(world: ClusterWorld) -> None:
    assert world.condition("Volumes") == {}
    world.brokers.full = {2: "/data/log", 0: "/data/log"}
    world.look()
    full = world.condition("Volumes")
    assert full["status"] == "False" and full["reason"] == "Full"
    assert "broker 0 (/data/log), broker 2 (/data/log)" in full["message"]
    assert "brokers.storage.size" in full["message"]
    assert world.condition("Ready")["status"] == "True"
    world.brokers.silent = {0, 1, 2}
    world.look()
    assert world.condition("Volumes") == {}, "what no broker answered is not known"
    world.brokers.silent, world.brokers.full = set(), {}
    world.look()
    assert world.condition("Volumes") == {}


def test_a_broker_with_a_full_disk_gets_a_new_volume_on_request(world: ClusterWorld) -> None:
    before = world.pods()
    world.brokers.answers[1] = RestartAnswer(known=True, refused_writes="the log directory is full")
    world.annotate_pod("events-broker-1", REPLACE_ANNOTATION, "true")
    world.settle()
    assert world.replaced(before) == {"events-broker-1"}


@pytest.mark.parametrize("name", ["events-broker-1", "events-zookeeper-0"])
def test_one_pod_is_rolled_when_that_is_asked_for_and_keeps_its_volume(
    world: ClusterWorld, name: str
) -> None:
    component = name.split("-")[1]
    before, claim = world.pods(component), world.get(VOLUME_CLAIMS, f"data-{name}")
    world.annotate_pod(name, ROLL_ANNOTATION, "true")
    world.look()
    world.settle()
    after = world.pods(component)
    assert {pod for pod, uid in after.items() if before.get(pod) != uid} == {name}
    assert world.get(VOLUME_CLAIMS, f"data-{name}") == claim
    world.look()
    assert world.pods(component) == after, "the annotation went with the pod"


def test_a_broker_that_is_to_roll_waits_until_that_is_safe(world: ClusterWorld) -> None:
    before = world.pods()
    world.brokers.answers[1] = RestartAnswer(known=True, waiting_for=("orders-0",))
    world.annotate_pod("events-broker-1", ROLL_ANNOTATION, "true")
    world.look()
    assert world.pods() == before and "orders-0" in world.condition("Rolling")["message"]
    world.brokers.answers.clear()
    world.settle()
    assert world.replaced(before) == {"events-broker-1"}


def test_a_controller_is_rolled_when_that_is_asked_for(world: ClusterWorld) -> None:
    before = world.pods("controller")
    name = min(before)
    world.annotate_pod(name, ROLL_ANNOTATION, "true")
    world.look()
    world.settle()
    assert before.keys() - world.pods("controller").keys() == {name}


def rolling_of(world: ClusterWorld) -> tuple[str, str]:
    return world.condition("Rolling")["status"], world.condition("Ready")["status"]


@pytest.mark.parametrize("component", ["broker", "zookeeper"])
def test_a_roll_ends_when_its_last_pod_serves(world: ClusterWorld, component: str) -> None:
    """The last pod is new, and does not serve yet: `kubectl wait --for=condition=Rolling=False` waits for it."""
    if component == "broker":
        world.change(spec__image="odradek:0.2.0")
    else:
        world.change(spec__zookeeper={"servers": {"pod": {"labels": {"team": "a"}}}})
    before = world.pods(component)
    while set(world.pods(component).values()) & set(before.values()):
        assert world.look() is not None
    last = next(iter(set(world.pods(component)) if len(before) == 1 else {"events-broker-2"}))
    world.nodes.broken.add(last)
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    world.set_status(PODS, last, {**world.body(PODS, last)["status"], **unready})
    for _ in range(3):
        world.look()
        assert world.condition("Rolling")["status"] == "True"
        assert last in world.condition("Rolling")["message"]
        if component == "broker":
            assert world.condition("Ready")["status"] == "True", "one restarts, as before"
    world.nodes.broken.clear()
    world.settle()
    assert rolling_of(world) == ("False", "True")
    # A pod that stops serving later is no roll.
    world.nodes.broken.add(last)
    world.set_status(PODS, last, {**world.body(PODS, last)["status"], **unready})
    world.look()
    assert world.condition("Rolling")["status"] == "False"


def test_a_last_pod_that_cannot_start_is_no_serving_cluster(world: ClusterWorld) -> None:
    world.nodes.broken.add("events-broker-2")
    world.change(spec__image="odradek:0.2.0")
    world.look(12)
    waiting = {
        "name": "broker",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}},
    }
    status = world.body(PODS, "events-broker-2")["status"]
    world.set_status(PODS, "events-broker-2", {**status, "containerStatuses": [waiting]})
    world.look()
    assert rolling_of(world) == ("True", "False")
    assert "no such image" in world.condition("Rolling")["message"]
    assert "no such image" in world.condition("Ready")["message"]


def test_a_roll_is_not_over_before_kubernetes_has_taken_up_what_it_is_for(world: ClusterWorld) -> None:
    before = world.pods()
    world.nodes.frozen = True
    world.change(spec__image="odradek:0.2.0")
    world.look()
    rolling = world.condition("Rolling")
    assert rolling["observedGeneration"] == 2
    assert (rolling["status"], rolling["reason"]) == ("Unknown", "Pending")
    world.nodes.frozen = False
    world.settle()
    assert rolling_of(world) == ("False", "True") and world.replaced(before) == BROKER_PODS
