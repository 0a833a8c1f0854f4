"""What Kubernetes or another owner refuses of a Cluster is known before anything of it is made or changed."""

from __future__ import annotations

import pytest

from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Api,
    Json,
    Refused,
)
from tests.operator.support.cluster_world import ClusterWorld


def refusing(world: ClusterWorld, kind: str, name: str) -> None:
    def refuse(what: str, of: str, called: str) -> None:
        if (what, of, called) == ("apply", kind, name):
            raise Refused(
                "spec.template.spec.containers[0].resources.requests: must be less than", status=422
            )

    world.kubernetes.before_write = refuse


LAST = [
    ("Deployment", "events-controller"),
    ("StatefulSet", "events-broker"),
    ("Service", "events-bootstrap"),
    ("NetworkPolicy", "events-broker"),
    ("PodDisruptionBudget", "events-broker"),
]


@pytest.mark.parametrize(("kind", "name"), LAST)
def test_of_a_cluster_that_is_refused_nothing_is_made(kind: str, name: str) -> None:
    world = ClusterWorld()
    refusing(world, kind, name)
    for _ in range(3):
        with pytest.raises(Refused):
            world.look()
    made = [one for one in world.kubernetes.written if one[0] != "status"]
    assert made == [] and world.pods("zookeeper") == {}
    assert world.condition("Ready")["reason"] == "Refused"
    world.kubernetes.before_write = None
    world.settle()
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize(
    ("api", "name"),
    [(SERVICES, "events-bootstrap"), (CONFIG_MAPS, "events-spark"), (STATEFUL_SETS, "events-broker")],
)
def test_nor_of_one_that_lacks_a_name(api: Api, name: str) -> None:
    world = ClusterWorld()
    world.create(api, name, {"theirs": True})
    world.reconcile()
    assert world.condition("Ready")["reason"] == "ObjectsOfOthers"
    assert [one for one in world.kubernetes.written if one[0] != "status"] == []


@pytest.mark.parametrize("suffix", ["cluster-ca", "clients-ca", "broker-tls"])
def test_nor_where_a_secret_is_anothers(suffix: str) -> None:
    world = ClusterWorld({"internalListener": {"tls": True}})
    world.create(SECRETS, f"events-{suffix}")
    world.look()
    ready = world.condition("Ready")
    assert ready["reason"] == "ObjectsOfOthers" and f"events-{suffix}" in ready["message"]
    assert [one for one in world.kubernetes.written if one[0] != "status"] == []


def test_a_change_that_is_refused_in_one_part_changes_no_other(world: ClusterWorld) -> None:
    before = {**world.pods(), **world.pods("zookeeper"), **world.pods("controller")}
    refusing(world, "Deployment", "events-controller")
    labels: Json = {"pod": {"labels": {"team": "a"}}}
    world.change(spec__zookeeper={"servers": labels}, spec__brokers=labels, spec__controllers=labels)
    for _ in range(4):
        with pytest.raises(Refused):
            world.look()
    assert {**world.pods(), **world.pods("zookeeper"), **world.pods("controller")} == before
    world.kubernetes.before_write = None
    world.settle()
    assert set(world.pods("zookeeper").values()).isdisjoint(before.values())


def test_what_is_as_it_was_applied_is_not_tried_again(world: ClusterWorld) -> None:
    tried: list[str] = []
    apply = world.kubernetes.apply

    async def watched(manifest: Json, *, force: bool = True, dry_run: bool = False) -> Json:
        if dry_run:
            tried.append(manifest["kind"])
        return await apply(manifest, force=force, dry_run=dry_run)

    world.kubernetes.apply = watched  # type: ignore[method-assign]
    world.look(3)
    assert tried == []
    world.change(spec__brokers={"replicas": 4})
    world.look()
    assert tried == ["StatefulSet"]


def test_volumes_that_grow_are_tried_with_the_claims_that_are_there(world: ClusterWorld) -> None:
    """Kubernetes refuses other claims of a StatefulSet, which is then made again."""

    def refuse_other_claims(what: str, kind: str, name: str) -> None:
        if (what, kind, name) == ("apply", "StatefulSet", "events-broker"):
            tried.append(name)

    tried: list[str] = []
    world.kubernetes.before_write = refuse_other_claims
    world.change(spec__brokers={"storage": {"size": "20Gi"}})
    world.settle()
    assert world.claim(0)["spec"]["resources"]["requests"]["storage"] == "20Gi" and tried
