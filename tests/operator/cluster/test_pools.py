"""Pools of brokers: pods and volumes of several kinds in one Cluster, with Kubernetes in memory."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from odradek_operator.desired.names import REPLACE_ANNOTATION
from odradek_operator.gateways.cluster_admin import RestartAnswer
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    Json,
    metadata,
)
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld

FAST: Json = {
    "name": "fast",
    "firstId": 1000,
    "replicas": 2,
    "storage": {"size": "50Gi", "class": "nvme"},
    "resources": {"requests": {"cpu": "4"}},
    "pod": {"nodeSelector": {"disk": "nvme"}, "tolerations": [{"key": "nvme", "operator": "Exists"}]},
}
POOL_PODS = {"events-broker-fast-1000", "events-broker-fast-1001"}


def with_pools(*pools: Json, replicas: int = 3, **spec: Any) -> ClusterWorld:
    world = ClusterWorld({"brokers": {"replicas": replicas, "pools": list(pools)}, **spec})
    world.settle()
    return world


def pools(world: ClusterWorld) -> dict[str, Json]:
    return {one["name"]: one for one in world.status.get("pools", [])}


def test_a_pool_has_pods_and_volumes_of_its_own_in_the_same_cluster() -> None:
    world = with_pools(FAST)
    assert set(world.pods()) == BROKER_PODS | POOL_PODS
    made = world.body(STATEFUL_SETS, "events-broker-fast")
    assert made["spec"]["ordinals"] == {"start": 1000} and made["spec"]["replicas"] == 2
    assert made["spec"]["selector"]["matchLabels"]["odradek.io/pool"] == "fast"
    template = made["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"disk": "nvme"}
    assert template["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "4"}
    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "nvme"
    assert world.get(VOLUME_CLAIMS, "data-events-broker-fast-1001") is not None
    addresses = world.body(CONFIG_MAPS, "events-broker")["data"]["addresses"]
    host = "events-broker-fast-1001.events-brokers.default.svc.cluster.local:9092"
    assert f'1001) ADVERTISED="INTERNAL://{host}" ;;' in addresses
    assert world.status["brokers"] == {"wanted": 5, "ready": 5, "current": 5}
    found = pools(world)
    assert found[""]["brokers"] == [0, 1, 2]
    assert found["fast"] == {"name": "fast", "wanted": 2, "ready": 2, "current": 2, "brokers": [1000, 1001]}
    assert world.condition("Ready")["message"] == "all 5 brokers serve"


def test_without_pools_nothing_is_made_otherwise(world: ClusterWorld) -> None:
    made = world.body(STATEFUL_SETS, "events-broker")
    assert "ordinals" not in made["spec"]
    assert "odradek.io/pool" not in str(made)
    assert "pools" not in world.status or world.status["pools"] == []


def test_one_budget_holds_the_brokers_of_all_pools() -> None:
    world = with_pools(FAST)
    budget = world.body(DISRUPTION_BUDGETS, "events-broker")
    labels = budget["spec"]["selector"]["matchLabels"].items()
    covered = [
        pod for pod in world.objects.list(PODS, "default") if labels <= metadata(pod)["labels"].items()
    ]
    assert len(covered) == 5 and budget["spec"]["maxUnavailable"] == 1


def test_a_pool_is_added_filled_and_emptied_while_the_others_stay(world: ClusterWorld) -> None:
    before = world.pods()
    world.change(spec__brokers={"pools": [FAST]})
    world.look()
    assert world.status["movement"]["brokers"] == [1000, 1001]
    world.settle()
    assert world.brokers.replicas[1000] == world.brokers.replicas[1001] == 4
    assert world.replaced(before) == POOL_PODS
    world.change(spec__brokers={"pools": []})
    world.look()
    assert world.status["movement"] == {
        "reason": "ScaleDown",
        "total": 8,
        "left": 8,
        "brokers": [1000, 1001],
    }
    assert set(world.pods()) >= POOL_PODS, "pods go before they are empty"
    world.settle()
    assert world.pods() == before and world.get(STATEFUL_SETS, "events-broker-fast") is None
    assert world.brokers.replicas[1000] == 0
    assert world.get(VOLUME_CLAIMS, "data-events-broker-fast-1000") is not None, "volumes are retained"
    assert not world.status.get("pools")
    world.look()
    assert world.brokers.emptied == set(), "the cluster still counts on brokers that are gone"


def test_brokers_are_emptied_once_those_of_another_pool_serve() -> None:
    world = with_pools(FAST)
    world.brokers.replicas |= dict.fromkeys(range(3), 4)
    world.nodes.broken = {"events-broker-large-2000"}
    large = {**FAST, "name": "large", "firstId": 2000, "replicas": 3}
    world.change(spec__brokers={"replicas": 0, "pools": [{**FAST, "replicas": 0}, large]})
    world.look(10)
    assert world.brokers.cordoned == set(), "brokers are emptied before those that take over are there"
    assert world.status["movement"]["brokers"] == [0, 1, 2, 1000, 1001]
    world.nodes.broken.clear()
    world.settle()
    assert set(world.pods()) == {f"events-broker-large-{broker}" for broker in (2000, 2001, 2002)}
    assert world.status["brokers"] == {"wanted": 3, "ready": 3, "current": 3}
    settings = world.body(CONFIG_MAPS, "events-broker")["data"]["broker.properties"]
    assert "default.replication.factor=3" in settings


def test_a_pool_never_gets_numbers_of_one_that_is_still_there() -> None:
    world = with_pools(FAST)
    before = world.pods()
    world.change(spec__brokers={"pools": [{**FAST, "name": "other", "firstId": 1100}]})
    world.look(5)
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PoolsCollide")
    assert "it another firstId" in ready["message"] and world.pods() == before
    world.change(spec__brokers={"pools": [{**FAST, "name": "other", "firstId": 1128}]})
    world.settle()
    assert set(world.pods()) == BROKER_PODS | {"events-broker-other-1128", "events-broker-other-1129"}


def test_a_roll_takes_one_pod_of_all_pools_at_a_time() -> None:
    world = with_pools(FAST)
    before = world.pods()
    sizes = []
    world.change(spec__image="odradek:0.2.0")
    for _ in range(60):
        after = world.look()
        sizes.append(len(world.replaced(before)))
        if after is None:
            break
    assert sizes[-1] == 5 and all(later - earlier <= 1 for earlier, later in pairwise(sizes))
    second = world.pods()
    # What changes for one pool replaces its pods alone.
    world.change(spec__brokers={"pools": [{**FAST, "pod": {"nodeSelector": {"disk": "ssd"}}}]})
    world.settle()
    assert world.replaced(second) == POOL_PODS


def test_volumes_of_one_pool_grow_and_are_replaced() -> None:
    world = with_pools(FAST)
    before = world.pods()
    world.change(spec__brokers={"pools": [{**FAST, "storage": {"size": "80Gi", "class": "nvme"}}]})
    world.settle()
    claim = world.body(VOLUME_CLAIMS, "data-events-broker-fast-1000")
    assert claim["spec"]["resources"]["requests"]["storage"] == "80Gi"
    assert world.claim(0)["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert world.pods() == before
    world.brokers.answers[1000] = RestartAnswer(known=True)
    old = metadata(claim)["uid"]
    world.annotate_pod("events-broker-fast-1000", REPLACE_ANNOTATION, "true")
    world.settle()
    assert world.replaced(before) == {"events-broker-fast-1000"}
    assert metadata(world.body(VOLUME_CLAIMS, "data-events-broker-fast-1000"))["uid"] != old


def test_listeners_reach_the_brokers_of_pools() -> None:
    listener = {
        "name": "out",
        "type": "NodePort",
        "port": 9094,
        "advertisedHost": "b{broker}",
        "advertisedPort": 30000,
    }
    world = with_pools(FAST, listeners=[listener])
    service = world.body(SERVICES, "events-out-1001")
    selector = service["spec"]["selector"]
    assert selector["statefulset.kubernetes.io/pod-name"] == "events-broker-fast-1001"
    (shown,) = world.status["listeners"]
    assert shown["brokers"] == ["b0:30000", "b1:30001", "b2:30002", "b1000:31000", "b1001:31001"]


@pytest.mark.thorough
def test_a_pool_comes_and_goes_wherever_the_operator_is_killed() -> None:
    for cut in range(0, 24, 2):
        world = ClusterWorld()
        world.settle()
        world.change(spec__brokers={"pools": [FAST]})
        world.settle_through_kills(cut)
        assert set(world.pods()) == BROKER_PODS | POOL_PODS, f"cut after {cut}"
        assert world.brokers.replicas[1000] == 4, f"cut after {cut}"
        world.change(spec__brokers={"pools": []})
        world.settle_through_kills(cut)
        assert set(world.pods()) == BROKER_PODS, f"cut after {cut}"
        assert world.get(STATEFUL_SETS, "events-broker-fast") is None, f"cut after {cut}"
