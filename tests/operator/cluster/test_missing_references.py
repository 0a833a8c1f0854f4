"""A pod refers to a Secret or ConfigMap that is not there: what serves is left as it is, and the Cluster says why."""

from __future__ import annotations

from typing import Any

import pytest

from odradek_operator.desired.names import ROLL_ANNOTATION
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    VOLUME_CLAIMS,
    Api,
    Forbidden,
    Json,
)
from odradek_operator.gateways.secrets import POLICY_WORDS
from odradek_operator.reconcilers.references import find_missing, list_references
from tests.operator.support.cluster_world import BROKER_PODS, ClusterWorld
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.operator.support.world import manifest
from tests.support.loop import run

LISTENER = {
    "name": "outside",
    "type": "Internal",
    "port": 9094,
    "tls": True,
    "certificate": {"secretName": "outside-cert"},
}


def all_pods(world: ClusterWorld) -> dict[str, str]:
    return {**world.pods(), **world.pods("zookeeper"), **world.pods("controller")}


def test_a_certificate_that_is_not_there_rolls_no_broker(world: ClusterWorld) -> None:
    before = all_pods(world)
    file = world.body(CONFIG_MAPS, "events-broker")["data"]["broker.properties"]
    world.change(spec__listeners=[LISTENER])
    assert [world.look() for _ in range(8)][-1] is not None, (
        "it looks again: no event tells that the Secret is there"
    )
    assert all_pods(world) == before
    # A container that starts again in its pod reads its settings again, and does not have the volume.
    assert world.body(CONFIG_MAPS, "events-broker")["data"]["broker.properties"] == file
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReferenceMissing")
    assert "Secret outside-cert" in ready["message"] and "namespace default" in ready["message"]
    assert "outside-cert" in world.condition("Rolling")["message"]
    events = [event for event in world.kubernetes.events if event.reason == "ReferenceMissing"]
    assert [(event.type, event.message) for event in events] == [("Warning", ready["message"])]
    world.create(SECRETS, "outside-cert")
    world.settle()
    assert world.condition("Ready")["reason"] == "Serving"
    assert world.replaced(before) == BROKER_PODS


REFERENCES = [
    ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "own", "key": "a"}}}]}, SECRETS),
    ({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "own", "key": "a"}}}]}, CONFIG_MAPS),
    ({"volumes": [{"name": "v", "secret": {"secretName": "own"}}]}, SECRETS),
    ({"volumes": [{"name": "v", "configMap": {"name": "own"}}]}, CONFIG_MAPS),
    ({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "own"}}]}}]}, SECRETS),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "own"}}]}, VOLUME_CLAIMS),
    ({"sidecars": [{"name": "s", "envFrom": [{"secretRef": {"name": "own"}}]}]}, SECRETS),
]


@pytest.mark.parametrize("component", ["brokers", "controllers", "zookeeper"])
@pytest.mark.parametrize(("pod", "api"), REFERENCES[:1] + REFERENCES[3:4], ids=["secret", "config map"])
def test_the_same_for_all_kinds_of_pods(world: ClusterWorld, component: str, pod: Json, api: Api) -> None:
    before = all_pods(world)
    path = "spec__zookeeper__servers__pod" if component == "zookeeper" else f"spec__{component}__pod"
    world.change(**{path: pod})
    world.look(6)
    assert all_pods(world) == before
    assert f"{api.kind} own" in world.condition("Ready")["message"]
    world.create(api, "own")
    if api == CONFIG_MAPS:
        world.merge(CONFIG_MAPS, "own", {"data": {"a": "1"}})
    world.settle()
    assert world.condition("Ready")["status"] == "True"
    assert all_pods(world) != before


def test_a_secret_that_is_deleted_later_holds_rolls_and_drains(world: ClusterWorld) -> None:
    world.create(SECRETS, "outside-cert")
    world.change(spec__listeners=[LISTENER])
    world.settle()
    before = all_pods(world)
    world.delete(SECRETS, "outside-cert")
    world.change(spec__image="odradek:0.2.0")
    world.annotate_pod("events-broker-1", ROLL_ANNOTATION, "true")
    world.look(6)
    assert world.replaced(before) == set()
    assert "outside-cert" in world.condition("Ready")["message"]
    # A broker that a drain takes would not start either.
    assert world.body(DISRUPTION_BUDGETS, "events-broker")["spec"]["maxUnavailable"] == 0
    assert "outside-cert" in world.condition("Evictions")["message"]
    world.change(spec__listeners=[])
    world.settle()
    assert world.replaced(before) == BROKER_PODS, "without the listener nothing is missing"


def test_a_new_cluster_starts_as_soon_as_the_secret_is_there() -> None:
    world = ClusterWorld({"listeners": [LISTENER]})
    world.nodes.broken = set(BROKER_PODS)
    world.look(4)
    assert set(world.pods()) == BROKER_PODS, "Kubernetes waits for it"
    ready = world.condition("Ready")
    assert ready["reason"] == "ReferenceMissing" and "outside-cert" in ready["message"]
    world.create(SECRETS, "outside-cert")
    world.nodes.broken.clear()
    world.settle()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(("pod", "api"), REFERENCES)
def test_every_reference_of_a_pod_is_looked_for(pod: Json, api: Api) -> None:
    spec: Json = {
        "volumes": pod.get("volumes", []),
        "containers": [{"name": "broker", "env": pod.get("env", [])}, *pod.get("sidecars", [])],
    }
    kubernetes = MemoryKubernetes()

    def missing() -> tuple[str, ...]:
        return run(find_missing(kubernetes, "default", [{"spec": spec}]))

    assert len(missing()) == 1 and f"{api.kind} own" in missing()[0]
    kubernetes.objects.create({**manifest(api, "own"), "data": {"a": "1"}})
    assert missing() == ()
    assert run(find_missing(kubernetes, "other", [{"spec": spec}], own={"own"})) == ()


def test_what_is_optional_is_not_count_needed() -> None:
    spec: Json = {
        "volumes": [{"name": "v", "secret": {"secretName": "a", "optional": True}}],
        "containers": [
            {
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "b", "optional": True}}],
                "env": [{"name": "X"}],
            }
        ],
    }
    assert list(list_references({"spec": spec})) == []


@pytest.mark.parametrize(("words", "is_missing"), [(POLICY_WORDS, False), ("no right", False)])
def test_what_may_not_be_looked_at_counts_as_there(words: str, is_missing: bool) -> None:
    kubernetes = MemoryKubernetes()

    async def refuse(*_: Any, **__: Any) -> Json:
        raise Forbidden(words, status=403)

    kubernetes.merge = refuse  # type: ignore[method-assign]
    spec: Json = {"volumes": [{"name": "v", "secret": {"secretName": "a"}}], "containers": []}
    assert bool(run(find_missing(kubernetes, "default", [{"spec": spec}]))) is is_missing


def test_no_secret_of_others_is_read(world: ClusterWorld) -> None:
    """Only whether it is there is asked for."""
    asked: list[bool] = []
    merge = world.kubernetes.merge

    async def watched(api: Api, namespace: str | None, name: str, patch: Json, **more: Any) -> Json:
        if api == SECRETS and name == "outside-cert":
            asked.append(more.get("only_metadata", False))
        return await merge(api, namespace, name, patch, **more)

    world.kubernetes.merge = watched  # type: ignore[method-assign]
    world.create(SECRETS, "outside-cert")
    world.change(spec__listeners=[LISTENER])
    world.settle()
    assert asked and all(asked)


def test_pods_stay_where_a_scale_down_would_need_what_is_missing() -> None:
    world = ClusterWorld({"brokers": {"replicas": 4}})
    world.settle()
    world.change(spec__brokers={"replicas": 3}, spec__listeners=[LISTENER])
    world.look(12)
    assert len(world.objects.list(PODS, "default", {"app.kubernetes.io/component": "broker"})) == 4
    world.create(SECRETS, "outside-cert")
    world.settle()
    assert set(world.pods()) == BROKER_PODS
