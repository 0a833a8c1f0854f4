"""Which brokers a drain of their node may take: what the disruption budgets say, and when they are held at zero."""

from __future__ import annotations

import pytest

from odradek_operator.desired.names import CAUGHT_UP_LABEL
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import DISRUPTION_BUDGETS, PODS, Json, metadata
from odradek_operator.reconcilers.cluster.rolling.evictions import find_outdated_budgets
from tests.operator.support.cluster_world import ClusterWorld
from tests.support.loop import run

BEHIND = RestartAnswer(known=True, waiting_for=("orders-3",))
KEY = Key("Cluster", "default", "events")


def allowed(world: ClusterWorld) -> int:
    """How many brokers Kubernetes would evict now, by the rule of its disruption controller (for maxUnavailable)."""
    counts = []
    for name in ("events-broker", "events-broker-catching-up"):
        spec = budget(world, name)["spec"]
        selected = [pod for pod in broker_pods(world) if selects(spec["selector"], pod)]
        # What a StatefulSet is to have counts, not what is selected.
        healthy_wanted = 3 - int(spec["maxUnavailable"])
        counts.append(max(0, sum(is_ready(pod) for pod in selected) - healthy_wanted) if selected else 0)
    return sum(counts)


def selects(selector: Json, pod: Json) -> bool:
    labels = metadata(pod)["labels"]
    if any(one != {"key": CAUGHT_UP_LABEL, "operator": "DoesNotExist"} for one in _expressions(selector)):
        raise AssertionError(f"the test knows no such rule: {selector}")
    return selector["matchLabels"].items() <= labels.items() and not (
        _expressions(selector) and CAUGHT_UP_LABEL in labels
    )


def _expressions(selector: Json) -> list[Json]:
    return list(selector.get("matchExpressions", ()))


def is_ready(pod: Json) -> bool:
    return any(one["status"] == "True" for one in pod["status"]["conditions"] if one["type"] == "Ready")


def budget(world: ClusterWorld, name: str = "events-broker") -> Json:
    return world.body(DISRUPTION_BUDGETS, name)


def broker_pods(world: ClusterWorld) -> list[Json]:
    return world.objects.list(PODS, "default", {"app.kubernetes.io/component": "broker"})


def outdated(world: ClusterWorld) -> set[Key]:
    return run(find_outdated_budgets(world.kubernetes, world.brokers, ()))


def test_one_broker_may_go_where_all_are_in_sync_and_each_has_one_budget(world: ClusterWorld) -> None:
    assert allowed(world) == 1
    for pod in broker_pods(world):
        budgets = world.objects.list(DISRUPTION_BUDGETS, "default", {"app.kubernetes.io/component": "broker"})
        names = [metadata(one)["name"] for one in budgets if selects(one["spec"]["selector"], pod)]
        # Kubernetes answers an eviction with an error where two budgets cover a pod.
        assert names == ["events-broker"]


@pytest.mark.thorough
def test_a_new_pod_does_not_count_before_its_partitions_are_in_sync(world: ClusterWorld) -> None:
    world.delete(PODS, "events-broker-1")
    assert allowed(world) == 0
    # The operator is away: the pod comes, and is ready.
    world.nodes.turn()
    world.nodes.turn()
    assert all(is_ready(pod) for pod in broker_pods(world)) and len(broker_pods(world)) == 3
    assert allowed(world) == 0, "it has not caught up, and no budget is open"
    world.brokers.answers = {0: BEHIND, 2: BEHIND}
    for _ in range(3):
        assert world.look() is not None, "it looks again by itself"
        assert allowed(world) == 0
    held = world.condition("Evictions")
    assert held["status"] == "False" and "orders-3" in held["message"] and "broker 0" in held["message"]
    world.brokers.answers.clear()
    world.settle()
    assert allowed(world) == 1
    assert world.condition("Evictions") == {}


def test_a_replica_that_falls_behind_by_itself_holds_the_budget(world: ClusterWorld) -> None:
    assert outdated(world) == set()
    world.brokers.answers[2] = BEHIND
    assert outdated(world) == {KEY}
    world.look()
    assert allowed(world) == 0 and budget(world)["spec"]["maxUnavailable"] == 0
    assert outdated(world) == set(), "it is held already"
    world.brokers.answers.clear()
    assert outdated(world) == {KEY}
    world.settle()
    assert allowed(world) == 1


def test_a_broker_that_restarts_in_its_pod_holds_the_budget(world: ClusterWorld) -> None:
    """Its label stays, so it would count as soon as it is ready."""
    (pod,) = [one for one in broker_pods(world) if metadata(one)["name"] == "events-broker-1"]
    world.nodes.broken.add("events-broker-1")
    unready = {**pod["status"], "conditions": [{"type": "Ready", "status": "False"}]}
    world.set_status(PODS, "events-broker-1", unready)
    assert outdated(world) == {KEY}
    world.look()
    assert budget(world)["spec"]["maxUnavailable"] == 0
    world.brokers.answers = {0: BEHIND, 2: BEHIND}
    world.nodes.broken.clear()
    world.look()
    world.look()
    assert allowed(world) == 0
    world.brokers.answers.clear()
    world.settle()
    assert allowed(world) == 1


def test_a_broker_that_does_not_answer_holds_the_budget(world: ClusterWorld) -> None:
    world.brokers.answers[0] = RestartAnswer(known=False)
    world.look()
    assert allowed(world) == 0
    assert "broker 0 does not say" in world.condition("Evictions")["message"]


def test_what_no_waiting_makes_safe_does_not_hold_drains(world: ClusterWorld) -> None:
    """Partitions with one replica or none to spare, and full disks: a node could never be drained."""
    world.brokers.answers = {
        0: RestartAnswer(known=True, never_safe=("fragile-0",)),
        1: RestartAnswer(known=True, last_copies=3),
        2: RestartAnswer(known=True, refused_writes="the log directory /data is full"),
    }
    world.look()
    assert allowed(world) == 1


def test_the_operators_own_roll_closes_the_budget_before_it_takes_a_pod(world: ClusterWorld) -> None:
    taken: list[int] = []

    def before_write(what: str, kind: str, name: str) -> None:
        if (what, kind) == ("delete", "Pod") and name.startswith("events-broker"):
            taken.append(budget(world)["spec"]["maxUnavailable"])

    world.kubernetes.before_write = before_write
    world.change(metadata__annotations={"odradek.io/restart": "monday"})
    world.settle()
    assert taken == [0, 0, 0]
    assert allowed(world) == 1


def test_a_single_broker_may_be_drained() -> None:
    world = ClusterWorld({"brokers": {"replicas": 1}})
    world.settle()
    assert budget(world)["spec"]["maxUnavailable"] == 1
    assert all(metadata(pod)["labels"][CAUGHT_UP_LABEL] == "true" for pod in broker_pods(world))
