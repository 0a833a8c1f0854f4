"""A Cluster gets more brokers or fewer, larger volumes, and a new pod with a new volume, with Kubernetes in memory."""

from __future__ import annotations

import pytest

from odradek.foundation.settings.file import parse_properties
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import CONFIG_MAPS, PODS, STATEFUL_SETS, VOLUME_CLAIMS, metadata
from odradek_operator.reconcilers.cluster.facts import SetState
from odradek_operator.reconcilers.cluster.scaling.broker_count import Reason, brokers_there
from odradek_operator.resources.cluster_status import Movement
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld
from tests.operator.support.objects import Change


@pytest.mark.thorough
def test_new_brokers_are_filled_even_when_the_operator_dies_meanwhile() -> None:
    for cut in range(12):
        world = ClusterWorld()
        world.settle()
        world.change(spec__brokers={"replicas": 4})
        world.settle_through_kills(cut)
        assert set(world.pods()) == {*BROKER_PODS, "events-broker-3"}
        assert world.brokers.replicas[3] == 4, f"cut after {cut}: the new broker stays empty"
        assert "movement" not in world.status


def test_brokers_without_room_are_said_to_have_less_than_their_share(world: ClusterWorld) -> None:
    world.brokers.without_room = {3}
    world.change(spec__brokers={"replicas": 4})
    world.settle()
    (event,) = (one for one in world.kubernetes.events if one.reason.startswith("Brokers"))
    assert (event.reason, event.type) == ("BrokersNotFilled", "Warning")
    assert event.message.endswith("too little free space for more on broker 3")
    assert "movement" not in world.status


def test_the_throttle_of_a_fill_is_ended_although_the_first_try_fails() -> None:
    world = ClusterWorld({"brokers": {"moveRate": "10Mi"}})
    world.settle()
    world.brokers.throttles_kept = 1
    world.change(spec__brokers={"replicas": 4})
    world.settle()
    assert (world.brokers.throttles_kept, world.brokers.throttles_ended) == (0, 1)
    assert "movement" not in world.status


def test_brokers_are_emptied_before_they_go_and_their_volumes_stay() -> None:
    world = ClusterWorld({"brokers": {"replicas": 4}})
    world.settle()
    world.brokers.replicas = {3: 5}
    world.change(spec__brokers={"replicas": 3})
    world.look()
    assert "events-broker-3" in world.pods() and 3 in world.brokers.cordoned
    assert world.status["movement"]["reason"] == "ScaleDown" and world.status["movement"]["left"] == 5
    world.settle()
    assert set(world.pods()) == BROKER_PODS
    assert world.brokers.replicas[3] == 0
    assert world.get(VOLUME_CLAIMS, "data-events-broker-3") is not None
    assert "movement" not in world.status
    world.look()
    assert world.brokers.emptied == set(), "the cluster still counts on the broker that is gone"


def test_brokers_that_cannot_be_emptied_stay_and_it_is_said_why(world: ClusterWorld) -> None:
    world.brokers.too_few = True
    world.change(spec__brokers={"replicas": 2, "config": {"min.insync.replicas": 1}})
    world.look(8)
    assert set(world.pods()) == BROKER_PODS
    assert world.brokers.cordoned == set()
    scaling = world.condition("Scaling")
    assert scaling["status"] == "False" and "orders-0" in scaling["message"]
    # The owner thinks better of it.
    world.change(spec__brokers={"replicas": 3, "config": None})
    world.settle()
    assert world.condition("Scaling") == {}


def test_defaults_change_only_when_the_removed_brokers_are_empty(world: ClusterWorld) -> None:
    before, file = world.pods(), _settings(world)
    assert (file["default.replication.factor"], file["min.insync.replicas"]) == ("3", "2")
    world.brokers.too_few = True
    world.change(spec__brokers={"replicas": 1})
    world.look(8)
    assert world.brokers.overrides == {}, "a default was altered while all brokers are there"
    assert _settings(world) == file and world.replaced(before) == set()
    ready = world.condition("Ready")
    assert ready["message"] == "all 3 brokers serve; 1 wanted once the others are empty"
    # The topics got fewer replicas: the drain ends, and then defaults follow.
    world.brokers.too_few = False
    world.settle()
    assert set(world.pods()) == {"events-broker-0"}
    assert _settings(world)["default.replication.factor"] == "1"
    assert world.brokers.overrides["min.insync.replicas"] == "1"
    assert world.condition("Ready")["message"] == "the broker serves"


def test_volumes_grow_and_pods_stay(world: ClusterWorld) -> None:
    before = world.pods()
    world.change(spec__brokers={"storage": {"size": "20Gi"}})
    world.settle()
    for broker in range(3):
        assert world.claim(broker)["spec"]["resources"]["requests"]["storage"] == "20Gi"
    stateful_set = world.body(STATEFUL_SETS, "events-broker")
    template = stateful_set["spec"]["volumeClaimTemplates"][0]
    assert template["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert world.pods() == before


def test_claims_get_other_labels_and_pods_stay(world: ClusterWorld) -> None:
    before, old = world.pods(), world.get(STATEFUL_SETS, "events-broker")
    world.change(spec__brokers={"storage": {"labels": {"backup": "daily"}}})
    world.settle()
    new = world.get(STATEFUL_SETS, "events-broker")
    # Kubernetes refuses to change the claims of one that is there.
    assert old is not None and new is not None and metadata(new)["uid"] != metadata(old)["uid"]
    assert metadata(new["spec"]["volumeClaimTemplates"][0])["labels"]["backup"] == "daily"
    assert world.pods() == before


@pytest.mark.thorough
def test_a_wrong_storage_class_is_corrected_while_no_claim_has_a_volume() -> None:
    for cut in range(8):
        world = ClusterWorld({"brokers": {"storage": {"class": "fats"}}})
        world.nodes.broken = set(BROKER_PODS)
        for _ in range(3):
            world.look()
        for broker in range(3):
            claim = f"data-events-broker-{broker}"
            world.set_status(VOLUME_CLAIMS, claim, {"phase": "Pending"})
        zookeeper = world.pods("zookeeper")
        world.look()
        assert "broker" not in world.status["boundVolumes"] and "zookeeper" in world.status["boundVolumes"]
        world.change(spec__brokers={"storage": {"class": "fast"}})
        with world.kubernetes.killed_after(cut):
            world.look()
        world.restart_operator()
        world.look()
        world.nodes.broken = set()
        world.settle()
        for broker in range(3):
            assert world.claim(broker)["spec"]["storageClassName"] == "fast", f"cut after {cut}"
        assert world.condition("Ready")["status"] == "True" and world.pods("zookeeper") == zookeeper


def test_the_class_of_volumes_that_are_there_stays(world: ClusterWorld) -> None:
    before = world.pods()
    claims = [metadata(world.claim(broker))["uid"] for broker in range(3)]
    assert world.status["boundVolumes"] == ["broker", "zookeeper"]
    world.change(spec__brokers={"storage": {"class": "fast"}})
    world.settle()
    assert [metadata(world.claim(broker))["uid"] for broker in range(3)] == claims
    assert world.replaced(before) == set()
    assert "stays the default: its volumes were made with it" in world.condition("Volumes")["message"]


def test_a_pod_and_its_volume_are_replaced_when_asked_for(world: ClusterWorld) -> None:
    claim, before = world.claim(1), world.pods()
    world.annotate_pod("events-broker-1", "odradek.io/replace", "true")
    world.settle()
    assert metadata(world.claim(1))["uid"] != metadata(claim)["uid"]
    assert world.replaced(before) == {"events-broker-1"}


def test_a_broker_that_serves_does_not_lose_the_only_replica_of_anything(world: ClusterWorld) -> None:
    claim, before = world.claim(1), world.pods()
    world.brokers.answers[1] = RestartAnswer(known=True, last_copies=2)
    world.annotate_pod("events-broker-1", "odradek.io/replace", "true")
    for _ in range(4):
        assert world.look() is not None
    assert world.pods() == before and world.claim(1) == claim
    assert "only replica in sync of 2 partitions" in world.condition("Rolling")["message"]
    # An administrator gives them another replica.
    world.brokers.answers.clear()
    world.settle()
    assert world.replaced(before) == {"events-broker-1"}


def test_a_pod_of_a_lost_node_that_is_to_be_replaced_is_removed_by_force(world: ClusterWorld) -> None:
    claim, before = world.claim(1), world.pods()
    # Kubernetes has begun to remove it, and waits for a node that is no more.
    world.merge(PODS, "events-broker-1", {"metadata": {"finalizers": ["example.com/kubelet"]}})
    world.annotate_pod("events-broker-1", "odradek.io/replace", "true")
    world.delete(PODS, "events-broker-1")
    world.look()
    assert world.kubernetes.forced == ["events-broker-1"]
    assert metadata(world.claim(1))["deletionTimestamp"], "it goes with the pod"
    world.merge(PODS, "events-broker-1", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.replaced(before) == {"events-broker-1"}
    assert metadata(world.claim(1))["uid"] != metadata(claim)["uid"]


@pytest.mark.thorough
def test_brokers_are_emptied_first_even_while_their_set_is_recreated() -> None:
    for cut in range(16):
        world = ClusterWorld({"brokers": {"replicas": 4}})
        world.settle()
        world.brokers.replicas = {3: 5}
        world.change(spec__brokers={"replicas": 3, "storage": {"size": "20Gi"}})
        _watch_for_the_loss_of(world, broker=3)
        world.settle_through_kills(cut)
        assert set(world.pods()) == BROKER_PODS, f"cut after {cut}"


def test_a_deleted_set_returns_with_the_brokers_that_are_not_empty() -> None:
    world = ClusterWorld({"brokers": {"replicas": 4}})
    world.settle()
    world.brokers.replicas = {3: 5}
    world.objects.delete(STATEFUL_SETS, "default", "events-broker", uid=None, orphan=True)
    world.change(spec__brokers={"replicas": 3})
    _watch_for_the_loss_of(world, broker=3)
    world.settle()
    assert set(world.pods()) == BROKER_PODS


def test_a_broker_whose_set_is_gone_counts_by_its_number() -> None:
    gone = SetState()
    assert brokers_there(gone, (0, 2), None) == 3
    assert brokers_there(gone, (0,), Movement(reason=Reason.DOWN, brokers=(4,))) == 5
    assert brokers_there(gone, (), None) is None


@pytest.mark.thorough
def test_new_brokers_are_filled_when_volumes_grow_at_the_same_time(world: ClusterWorld) -> None:
    world.change(spec__brokers={"replicas": 4, "storage": {"size": "20Gi"}})
    world.settle()
    assert world.brokers.replicas[3] == 4


def _settings(world: ClusterWorld) -> dict[str, str]:
    """The brokers' file as it is in the ConfigMap."""
    found = world.body(CONFIG_MAPS, "events-broker")
    return dict(parse_properties(found["data"]["broker.properties"], source="broker.properties"))


def _watch_for_the_loss_of(world: ClusterWorld, *, broker: int) -> None:
    """Fail as soon as a broker's pod goes while it has replicas."""

    def watch(change: Change) -> None:
        is_pod = change.body["kind"] == "Pod" and metadata(change.body)["name"] == f"events-broker-{broker}"
        if is_pod and change.type == "DELETED":
            assert not world.brokers.replicas[broker], f"broker {broker} went with replicas on it"

    world.objects.watch(watch)
