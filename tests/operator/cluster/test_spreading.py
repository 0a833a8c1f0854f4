"""How strictly pods are kept apart: what the Cluster says, else what there are nodes for when pods are made first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from odradek_operator.desired.names import ZONE_LABEL, Hardness
from odradek_operator.gateways.kubernetes import (
    DEPLOYMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    Api,
    Forbidden,
    Json,
    metadata,
)
from odradek_operator.reconcilers.cluster.scaling.spreading import judge_room
from odradek_operator.resources.pods import Pod
from tests.operator.support.cluster_world import ClusterWorld

NODE, STRICT, LOOSE = "kubernetes.io/hostname", "DoNotSchedule", "ScheduleAnyway"
ZK_TAINT = {"key": "dedicated", "value": "kafka", "effect": "NoSchedule"}


def node(name: str, zone: str | None = None, *, taints: list[Json] | None = None, **spec: Any) -> Json:
    labels = {NODE: name, **({ZONE_LABEL: zone} if zone else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {**spec, "taints": taints or []},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def add(world: ClusterWorld, made: Json) -> None:
    """A node that joins: its status comes apart, as on a real API server."""
    world.objects.create(made)
    world.objects.set_status(NODES, None, metadata(made)["name"], made["status"], uid=None)


def world_of(nodes: int, *, spec: Json | None = None, zones: int = 0) -> ClusterWorld:
    world = ClusterWorld({"zookeeper": {"servers": {"replicas": 3}}, **(spec or {})})
    for number in range(nodes):
        add(world, node(f"node-{number}", f"zone-{number % zones}" if zones else None))
    world.settle()
    return world


def spread(world: ClusterWorld, name: str = "broker", api: Api = STATEFUL_SETS) -> dict[str, str]:
    """How strictly, by the label of nodes."""
    found = world.body(api, f"events-{name}")
    constraints = found["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert all(one["maxSkew"] == 1 and one["nodeTaintsPolicy"] == "Honor" for one in constraints)
    return {one["topologyKey"]: one["whenUnsatisfiable"] for one in constraints}


def test_it_is_strict_where_there_are_nodes_and_zones_enough() -> None:
    world = world_of(3, zones=3)
    for name in ("broker", "zookeeper"):
        assert spread(world, name) == {NODE: STRICT, ZONE_LABEL: STRICT}
    assert spread(world, "controller", DEPLOYMENTS) == {NODE: STRICT, ZONE_LABEL: STRICT}


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_it_is_loose_where_there_are_too_few(nodes: int) -> None:
    world = world_of(nodes)
    assert spread(world) == {NODE: LOOSE, ZONE_LABEL: LOOSE}


def test_two_nodes_suffice_for_two_controllers_but_not_for_three_brokers() -> None:
    world = world_of(2, zones=2)
    assert spread(world)[NODE] == LOOSE
    assert spread(world, "controller", DEPLOYMENTS) == {NODE: STRICT, ZONE_LABEL: STRICT}


def test_without_the_right_to_read_nodes_it_is_loose(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ClusterWorld()
    found = world.kubernetes.list

    async def forbidden(api: Api, *arguments: Any, **given: Any) -> Any:
        if api is NODES:
            raise Forbidden("nodes is forbidden")
        return await found(api, *arguments, **given)

    monkeypatch.setattr(world.kubernetes, "list", forbidden)
    world.settle()
    assert spread(world) == {NODE: LOOSE, ZONE_LABEL: LOOSE}


def test_what_the_cluster_says_holds_whatever_nodes_there_are() -> None:
    asked = {"spread": {"nodes": "Required", "zones": "Preferred"}}
    assert spread(world_of(1, spec=asked)) == {NODE: STRICT, ZONE_LABEL: LOOSE}
    asked = {"spread": {"nodes": "Preferred", "zones": "Required"}}
    assert spread(world_of(3, spec=asked, zones=3)) == {NODE: LOOSE, ZONE_LABEL: STRICT}
    own = {"brokers": {"pod": {"topologySpreadConstraints": [{"maxSkew": 2}]}}}
    found = world_of(3, spec=own).get(STATEFUL_SETS, "events-broker")
    assert found is not None
    assert found["spec"]["template"]["spec"]["topologySpreadConstraints"] == [{"maxSkew": 2}]


@pytest.mark.thorough
def test_nodes_that_come_and_go_replace_no_pod() -> None:
    world = world_of(3, zones=3)
    before = {kind: world.pods(kind) for kind in ("broker", "controller", "zookeeper")}
    for name in ("node-2", "node-1"):
        world.objects.delete(NODES, None, name, uid=None, orphan=False)
        world.look()
        world.restart_operator()
        world.settle()
    for number in range(5):
        add(world, node(f"more-{number}"))
    world.settle()
    # More brokers than nodes: two on a node are even then.
    world.change(spec__brokers={"replicas": 5})
    world.settle()
    assert spread(world) == {NODE: STRICT, ZONE_LABEL: STRICT}
    after = {kind: world.pods(kind) for kind in ("broker", "controller", "zookeeper")}
    assert {name: after["broker"][name] for name in before["broker"]} == before["broker"]
    assert (after["controller"], after["zookeeper"]) == (before["controller"], before["zookeeper"])
    loose = world_of(1)
    pods = loose.pods()
    for number in range(5):
        add(loose, node(f"more-{number}"))
    loose.look()
    loose.settle()
    assert loose.pods() == pods and spread(loose)[NODE] == LOOSE


def test_a_set_that_is_made_again_keeps_what_its_pods_have() -> None:
    world = world_of(3, zones=3)
    before = world.pods()
    world.objects.delete(STATEFUL_SETS, "default", "events-broker", uid=None, orphan=True)
    world.objects.delete(NODES, None, "node-2", uid=None, orphan=False)
    world.settle()
    assert spread(world)[NODE] == STRICT and world.pods() == before


def test_a_pod_that_finds_no_place_because_of_it_makes_it_loose() -> None:
    world = world_of(3, zones=3)
    world.nodes.broken.add("events-broker-1")
    world.delete(PODS, "events-broker-1")
    world.look()
    pod = world.body(PODS, "events-broker-1")
    first = metadata(pod)["uid"]

    def waits(message: str) -> None:
        unscheduled = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": world.now.isoformat(),
        }
        conditions = [unscheduled, {"type": "Ready", "status": "False"}]
        world.set_status(PODS, "events-broker-1", {"conditions": conditions})

    waits("0/3 nodes are available: 3 Insufficient memory")
    world.now += timedelta(seconds=600)
    world.look()
    assert spread(world)[NODE] == STRICT, "it would not help"
    waits(
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, 2 Insufficient memory"
    )
    world.look()
    assert spread(world)[NODE] == STRICT, "a node that restarts is back soon"
    world.now += timedelta(seconds=120)
    world.look()
    assert spread(world) == {NODE: LOOSE, ZONE_LABEL: LOOSE}
    assert "events-broker-1" in next(
        event.message for event in world.kubernetes.events if event.reason == "SpreadSoftened"
    )
    world.nodes.broken.clear()
    world.settle()
    assert world.pods()["events-broker-1"] != first, "it was made again from the new template"
    assert spread(world) == {NODE: LOOSE, ZONE_LABEL: LOOSE}, "it stays so"


@pytest.mark.parametrize(
    ("nodes", "pod", "expected"),
    [
        ([node("a"), node("b"), node("c", unschedulable=True)], {}, False),
        ([node("a"), node("b"), node("c", taints=[ZK_TAINT])], {}, False),
        (
            [node("a"), node("b"), node("c", taints=[ZK_TAINT])],
            {"tolerations": ({"operator": "Exists"},)},
            True,
        ),
        (
            [node("a"), node("b"), node("c", taints=[ZK_TAINT])],
            {"tolerations": ({"key": "dedicated", "value": "kafka"},)},
            True,
        ),
        ([node("a"), node("b"), node("c", taints=[{"key": "x", "effect": "PreferNoSchedule"}])], {}, True),
        ([node("a"), node("b"), {**node("c"), "status": {}}], {}, False),
        ([node("a"), node("b"), node("c")], {"node_selector": {"disk": "fast"}}, False),
        ([node("a"), node("b"), node("c")], {"affinity": {"nodeAffinity": {"required": {}}}}, False),
        ([node("a"), node("b"), node("c")], {}, True),
    ],
)
def test_only_nodes_that_take_the_pods_count(nodes: list[Json], pod: Json, expected: bool) -> None:
    assert judge_room(nodes, Pod(**pod), count=3, label=ZONE_LABEL).nodes is expected


def test_zones_suffice_with_all_nodes_in_three_or_as_many_as_pods() -> None:
    def zones(*names: str | None, count: int) -> bool:
        nodes = [node(f"node-{number}", zone) for number, zone in enumerate(names)]
        return judge_room(nodes, Pod(), count=count, label=ZONE_LABEL).zones

    assert zones("a", "b", "c", "a", count=5)
    assert zones("a", "b", count=2)
    assert not zones("a", "b", count=3)
    assert not zones("a", "b", "c", None, count=3), "a strict spread would leave that node out"
    assert judge_room([node("a", "a")], Pod(), count=1, label=ZONE_LABEL) == Hardness(), (
        "one pod is spread over nothing"
    )
