"""A Cluster from nothing to settled, left alone where it should be, and gone again, with Kubernetes in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from odradek.client.errors import ConnectionFailed
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONSUMER_GROUPS,
    NODES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    TOPICS,
    VOLUME_CLAIMS,
    Api,
    Forbidden,
    Json,
    Refused,
    metadata,
)
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld


def test_a_cluster_is_made_and_then_left_alone(world: ClusterWorld) -> None:
    assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}
    assert world.status["controllers"]["ready"] == 2 and world.status["zookeeper"]["ready"] == 1
    assert world.condition("Ready")["status"] == "True"
    assert world.status["bootstrap"] == "events-bootstrap.default.svc.cluster.local:9092"
    assert (world.status["image"], world.status["version"]) == ("odradek:0.1.0", "0.1.0")
    assert world.status["observedGeneration"] == 1
    assert "movement" not in world.status
    written = len(world.kubernetes.written)
    for _ in range(3):
        assert world.look() is None
    assert len(world.kubernetes.written) == written, "a settled Cluster is written to"


def test_topics_are_reconciled_once_the_cluster_serves_and_after_moves() -> None:
    world = ClusterWorld()
    world.create(TOPICS, "orders", {"cluster": "events"})
    world.create(CONSUMER_GROUPS, "billing", {"cluster": "events"})
    world.create(TOPICS, "a", {"cluster": "b"})
    world.settle()
    held = [Key("Topic", "default", "orders"), Key("ConsumerGroup", "default", "billing")]
    assert world.woken == held
    world.settle()
    assert world.woken == held
    world.change(spec__brokers={"replicas": 4})
    while not world.brokers.replicas.get(3):
        world.look()
    world.woken.clear()
    world.settle()
    assert world.woken == held, "its partitions have come to rest on other brokers"
    world.woken.clear()
    world.change(spec__scalableWorkloads=[{"name": "billing"}])
    world.settle()
    assert world.woken == held, "it lets another workload be scaled"


def test_pods_come_after_their_accounts_and_zookeeper_before_all_else() -> None:
    world = ClusterWorld()
    world.look()
    applied = [(kind, name) for what, kind, name in world.kubernetes.written if what == "apply"]
    sets = [place for place in applied if place[0] in ("StatefulSet", "Deployment")]
    assert sets[0] == ("StatefulSet", "events-zookeeper") and len(sets) == 3
    for place in sets:
        assert applied.index(("ServiceAccount", place[1])) < applied.index(place)
    assert applied.index(sets[0]) <= 4, "ZooKeeper waits for nothing but the accounts and its settings"


@pytest.mark.thorough
def test_whatever_happens_between_two_writes_the_next_operator_goes_on() -> None:
    whole = ClusterWorld()
    whole.settle()
    writes = len(whole.kubernetes.written)
    assert writes > 20
    for cut in range(writes):
        world = ClusterWorld()
        world.settle_through_kills(cut)
        assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}, cut
        assert set(world.pods()) == BROKER_PODS


@pytest.mark.thorough
def test_load_balancers_are_waited_for_at_the_first_start_and_not_for_ever() -> None:
    listener = {"name": "outside", "type": "LoadBalancer", "port": 9094}
    world = ClusterWorld({"listeners": [listener]})
    world.look(5)
    assert world.pods() == {}
    assert "outside" in world.condition("Listeners")["message"]
    for broker in range(3):
        ingress = {"loadBalancer": {"ingress": [{"ip": f"1.2.3.{broker}"}]}}
        world.set_status(SERVICES, f"events-outside-{broker}", ingress)
    world.settle()
    assert world.status["listeners"][0]["brokers"] == ["1.2.3.0:9094", "1.2.3.1:9094", "1.2.3.2:9094"]
    assert world.condition("Listeners") == {}
    late = ClusterWorld({"listeners": [listener]})
    for _ in range(70):
        late.look()
    assert set(late.pods()) == BROKER_PODS and late.condition("Ready")["status"] == "True"
    assert late.condition("Listeners")["status"] == "False"


def test_an_address_that_a_load_balancer_loses_restarts_no_broker() -> None:
    world = ClusterWorld({"listeners": [{"name": "outside", "type": "LoadBalancer", "port": 9094}]})

    def balance(ip: str | None) -> None:
        ingress = [{"ip": ip}] if ip else []
        for service in world.objects.list(SERVICES, "default"):
            if service["spec"].get("type") == "LoadBalancer":
                status = {"loadBalancer": {"ingress": ingress}}
                world.set_status(SERVICES, metadata(service)["name"], status)

    world.look()
    balance("2001:db8::1")
    world.settle()
    before = world.pods()
    balance(None)
    world.look(5)
    assert world.pods() == before
    assert world.condition("Listeners")["reason"] == "AddressPending"
    assert world.status["listeners"][0]["brokers"] == ["[2001:db8::1]:9094"] * 3
    balance("2001:db8::2")
    world.settle()
    assert world.replaced(before) == BROKER_PODS
    assert world.status["listeners"][0]["brokers"] == ["[2001:db8::2]:9094"] * 3


@pytest.mark.thorough
def test_a_listener_that_is_taken_away_takes_its_services_along() -> None:
    world = ClusterWorld({"listeners": [{"name": "outside", "type": "Internal", "port": 9094}]})
    world.settle()
    assert world.get(SERVICES, "events-outside-2") is not None
    world.change(spec__listeners=[])
    world.settle()
    assert world.get(SERVICES, "events-outside-2") is None
    assert world.get(SERVICES, "events-bootstrap") is not None


def test_a_paused_cluster_is_left_alone_and_says_so(world: ClusterWorld) -> None:
    world.change(metadata__annotations={"odradek.io/paused": "true"}, spec__image="odradek:0.2.0")
    before = world.pods()
    world.settle()
    assert world.pods() == before
    assert world.condition("Paused")["status"] == "True"
    # No run checks it: what was true before may be true no more.
    for type in ("Ready", "Rolling"):
        assert (world.condition(type)["status"], world.condition(type)["reason"]) == ("Unknown", "Paused")
    world.change(metadata__annotations={"odradek.io/paused": None})
    world.settle()
    assert world.condition("Paused") == {} and world.status["image"] == "odradek:0.2.0"
    assert world.condition("Ready")["status"] == "True"


def test_a_cluster_that_cannot_be_seen_is_unknown(world: ClusterWorld) -> None:
    refusal = Forbidden("services is forbidden", status=403)

    async def refuse(api: Api, *_: Any, **__: Any) -> Any:
        raise refusal

    listed = world.kubernetes.list
    world.kubernetes.list = refuse  # type: ignore[method-assign]
    with pytest.raises(Forbidden):
        world.look()
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "CannotLook")
    assert "services is forbidden" in ready["message"]
    world.kubernetes.list = listed  # type: ignore[method-assign]
    world.settle()
    assert world.condition("Ready")["status"] == "True"


def test_a_cluster_whose_brokers_do_not_answer_the_operator_is_unknown(world: ClusterWorld) -> None:
    world.brokers.silent = {0, 1}
    world.look()
    assert world.condition("Ready")["status"] == "True", "one of them answers"
    world.brokers.silent = {0, 1, 2}
    world.look()
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NoAnswer")


def test_a_spec_that_cannot_be_is_said_and_changes_nothing(world: ClusterWorld) -> None:
    before = world.pods()
    world.change(spec__brokers={"config": {"num.partition": 3}})
    world.settle()
    ready = world.condition("Ready")
    assert ready["reason"] == "InvalidSpec" and "did you mean num.partitions?" in ready["message"]
    assert world.pods() == before


def test_what_kubernetes_refuses_is_said_and_nothing_is_forgotten_by_it(world: ClusterWorld) -> None:
    def refuse(what: str, kind: str, name: str) -> None:
        if (what, kind, name) == ("apply", "StatefulSet", "events-broker"):
            raise Refused("spec.template.spec.containers[1].image: Required value", status=422)

    world.kubernetes.before_write = refuse
    world.change(spec__brokers={"replicas": 4, "pod": {"sidecars": [{"name": "log"}]}})
    for _ in range(3):
        with pytest.raises(Refused):
            world.look()
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Refused")
    assert "containers[1].image" in ready["message"]
    assert world.condition("Rolling")["status"] == "False", "what is known besides stays"
    assert [event.reason for event in world.kubernetes.events] == ["Refused"]
    assert world.status["movement"]["brokers"] == [3]
    world.kubernetes.before_write = None
    world.change(spec__brokers={"pod": {"sidecars": None}})
    world.settle()
    assert world.condition("Ready")["reason"] == "Serving" and world.brokers.replicas[3] == 4


def test_a_right_that_racks_need_is_missed_in_a_condition(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_all = world.kubernetes.list

    async def refuse(api: Api, namespace: str | None, **more: Any) -> Sequence[Json]:
        if api == NODES:
            raise Forbidden("nodes is forbidden", status=403)
        return await list_all(api, namespace, **more)

    monkeypatch.setattr(world.kubernetes, "list", refuse)
    world.change(spec__brokers={"rackLabel": "topology.kubernetes.io/zone"})
    world.settle()
    assert world.condition("Ready")["status"] == "True"
    assert "rbac.nodes" in world.condition("Zones")["message"]
    monkeypatch.undo()
    world.settle()
    assert world.condition("Zones") == {}


def test_brokers_that_do_not_answer_are_no_reason_to_touch_them(world: ClusterWorld) -> None:
    before = world.pods()
    world.brokers.failure = ConnectionFailed("nobody there")
    assert world.look() is not None
    assert "nobody there" in world.condition("Reachable")["message"]
    assert world.pods() == before
    world.brokers.failure = None
    world.settle()
    assert world.condition("Reachable") == {}


def test_what_vanishes_while_it_is_worked_on_is_done(world: ClusterWorld) -> None:
    """Between what was read and what is written a controller's pod goes, a claim goes, and at last the Cluster."""
    gone: list[str] = []

    def losing(kind: str, of: Api) -> None:
        for name in [metadata(one)["name"] for one in world.objects.list(of, "default")]:
            if kind in name:
                world.delete(of, name)
                gone.append(name)

    world.kubernetes.before_write = lambda what, kind, name: (
        losing("controller", PODS) if (what, kind) == ("annotations", "Pod") else None
    )
    pods = world.pods("controller")
    for name in pods:  # So that one is to be marked as the active one.
        world.annotate_pod(name, "controller.kubernetes.io/pod-deletion-cost", "7")
    world.look()
    assert set(gone) == set(pods)
    world.kubernetes.before_write = lambda what, kind, name: (
        losing("broker-1", VOLUME_CLAIMS) if (what, kind) == ("apply", "PersistentVolumeClaim") else None
    )
    world.change(spec__brokers={"storage": {"size": "20Gi"}})
    world.look()
    assert "data-events-broker-1" in gone and world.condition("Volumes") == {}
    world.kubernetes.before_write = lambda what, kind, name: (
        losing("events", CLUSTERS) if what == "status" else None
    )
    world.change(spec__image="odradek:0.2.0")
    while world.get(CLUSTERS, "events") is not None:
        world.reconcile()
    assert world.reconcile() is None


@pytest.mark.parametrize("deleted", [True, False])
def test_a_cluster_that_goes_holds_nothing_up(deleted: bool) -> None:
    world = ClusterWorld()
    if not deleted:
        world.settle()
    world.delete(CLUSTERS, "events")
    assert world.reconcile() is None
    assert world.get(STATEFUL_SETS, "events-broker") is None
    assert list(world.conditions.samples()) == []
