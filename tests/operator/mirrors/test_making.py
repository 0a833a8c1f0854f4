"""A Mirror from nothing to workers that serve: what is made, what it waits for, what its status says, what rolls."""

from __future__ import annotations

from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    MIRRORS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    USERS,
    Forbidden,
    Json,
    Refused,
    metadata,
)
from odradek_operator.gateways.mirrors import FlowSeen, PartitionSeen, WorkerPage
from tests.operator.support.mirror_world import NAMESPACE, READY, SPEC, MirrorWorld, running
from tests.operator.support.world import manifest
from tests.support.loop import run


def test_workers_are_made_and_then_left_alone() -> None:
    world = MirrorWorld()
    world.look()
    assert world.condition()[:2] == ("False", "WorkersNotReady")
    world.settle()
    assert world.condition() == ("True", "Ready", "workers mirror shop into main")
    assert world.condition("Mirroring")[:2] == ("True", "Running")
    status = world.status
    assert (status["target"], status["from"], status["ready"], status["replicas"]) == ("main", "shop", 1, 1)
    assert (status["topics"], status["lag"], status["image"]) == (1, 3, "odradek:default")
    assert status["sources"] == [
        {"alias": "shop", "state": "running", "topics": 1, "partitions": 1, "lag": 3}
    ]
    assert status["furthest"][0]["topic"] == "orders"
    written = len(world.kubernetes.written)
    world.look(3)
    assert len(world.kubernetes.written) == written, "a settled Mirror is written to"
    made = {
        (api.kind, metadata(body)["name"])
        for api in (
            SERVICES,
            CONFIG_MAPS,
            SERVICE_ACCOUNTS,
            DEPLOYMENTS,
            DISRUPTION_BUDGETS,
            NETWORK_POLICIES,
        )
        for body in world.objects.list(api, NAMESPACE, {"odradek.io/mirror": "copy"})
    }
    named = {kind for kind, name in made if name == "copy-mirror"}
    assert named == {"ConfigMap", "ServiceAccount", "Deployment", "PodDisruptionBudget", "NetworkPolicy"}
    assert ("Service", "copy-mirrors") in made
    assert all(written[1] != "Secret" for written in world.kubernetes.written)


def test_all_of_it_goes_with_the_mirror() -> None:
    world = MirrorWorld()
    world.settle()
    body = world.get(MIRRORS, "copy")
    assert body is not None and "finalizers" not in metadata(body), "nothing waits for the operator"
    world.delete(MIRRORS, "copy")
    assert world.deployment is None and world.get(SERVICES, "copy-mirrors") is None


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"target": {"cluster": "gone"}}, "ClusterNotFound", "no Cluster gone in the namespace default"),
        ({"target": {"cluster": "young"}}, "ClusterNotReady", "the Cluster young is not ready yet"),
        ({"target": {"cluster": "closed"}}, "UserNeeded", "give a user beside cluster closed"),
        ({"target": {"cluster": "closed", "user": "gone"}}, "UserNotFound", "no User gone"),
        ({"target": {"cluster": "closed", "user": "theirs"}}, "UserOfOtherCluster", "is of the Cluster main"),
        ({"target": {"cluster": "closed", "user": "new"}}, "UserNotReady", "the User new has no Secret yet"),
        ({"sources": [{"alias": "a", "cluster": "gone"}]}, "ClusterNotFound", "no Cluster gone"),
        ({"config": {"main.sasl.jaas.config": "x"}}, "InvalidSpec", "Put it into client.properties"),
        ({"config": {"shop->main.topics": "x"}}, "InvalidSpec", "set sources[].topics of the Mirror"),
    ],
    ids=lambda one: one if isinstance(one, str) and " " not in one else "",
)
def test_what_cannot_be_is_refused_with_a_reason_and_nothing_is_made(
    spec: Json, reason: str, words: str
) -> None:
    world = MirrorWorld({**SPEC, **spec})
    world.cluster("young", is_ready=False)
    world.cluster("closed", has_logins=True)
    world.user("theirs", cluster="main")
    world.create(USERS, "new", {"cluster": "closed"}, status={})
    world.look(2)
    status, found, message = world.condition()
    assert (status, found) == ("False", reason)
    assert words in message
    assert world.deployment is None
    assert [event.reason for event in world.kubernetes.events] == [reason], "one event, not one for each look"


def test_without_an_image_nothing_is_made() -> None:
    world = MirrorWorld(broker_image="")
    assert world.look() is None
    assert world.condition()[:2] == ("False", "NoImage") and world.deployment is None


def test_a_cluster_that_becomes_ready_starts_the_mirror() -> None:
    world = MirrorWorld({**SPEC, "target": {"cluster": "young"}})
    world.cluster("young", is_ready=False)
    assert world.look() is not None, "it looks again without an event"
    world.set_status(CLUSTERS, "young", READY)
    world.settle()
    assert world.condition()[0] == "True"


def test_workers_outlive_a_cluster_that_is_not_ready_for_a_while() -> None:
    world = MirrorWorld()
    world.settle()
    before = world.pods()
    world.set_status(CLUSTERS, "main", {})
    world.settle()
    assert world.condition()[0] == "True" and world.pods() == before
    world.delete(CLUSTERS, "main")
    world.look()
    assert world.condition()[:2] == ("False", "ClusterNotFound")
    assert world.pods() == before, "nothing is taken away"


def test_a_login_is_mounted_and_never_copied() -> None:
    sources = [
        {"alias": "shop", "bootstrap": "shop.example:9092", "clientSecret": "shop-client"},
        {"alias": "own", "cluster": "closed", "user": "reader"},
    ]
    world = MirrorWorld({**SPEC, "sources": sources})
    world.cluster("closed", has_logins=True)
    world.user("reader", cluster="closed")
    world.create(SECRETS, "shop-client")
    world.settle()
    (container,) = world.template["spec"]["containers"]
    mounts = {one["name"]: one for one in container["volumeMounts"]}
    mounted = {
        mounts[volume["name"]]["mountPath"]: volume
        for volume in world.template["spec"]["volumes"]
        if volume["name"].startswith("cluster-")
    }
    assert {
        path: (volume.get("secret") or {}).get("secretName") or volume["configMap"]["name"]
        for path, volume in mounted.items()
    } == {
        "/etc/odradek-clusters/main": "main-binding",
        "/etc/odradek-clusters/shop": "shop-client",
        "/etc/odradek-clusters/own": "reader-secret",
    }
    assert all(mounts[volume["name"]]["readOnly"] for volume in mounted.values())
    assert "shop.bootstrap.servers=shop.example:9092" in world.file
    assert "own.bootstrap.servers" not in world.file, "the User's Secret says where"


def test_workers_stay_where_new_ones_would_not_start() -> None:
    world = MirrorWorld()
    world.settle()
    before = world.pods()
    sources = [{"alias": "shop", "bootstrap": "shop.example:9092", "clientSecret": "shop-client"}]
    world.merge(MIRRORS, "copy", {"spec": {"sources": sources}})
    world.look()
    world.look()
    assert world.pods() == before
    status, reason, message = world.condition()
    assert (status, reason) == ("False", "ReferenceMissing") and "Secret shop-client" in message
    world.create(SECRETS, "shop-client")
    world.settle()
    assert world.condition()[0] == "True" and not world.pods() & before


@pytest.mark.parametrize("what", ["login", "address", "field", "restart"])
def test_a_change_replaces_the_pods(what: str) -> None:
    source = {"alias": "own", "cluster": "closed", "user": "reader"}
    world = MirrorWorld({**SPEC, "sources": [source]})
    world.cluster("closed", has_logins=True)
    world.user("reader", cluster="closed")
    world.settle()
    before = world.pods()
    match what:
        case "login":
            status = {**READY, "secret": "reader-secret", "secretVersion": "8"}
            world.set_status(USERS, "reader", status)
        case "address":
            world.merge(CONFIG_MAPS, "main-binding", {"data": {"client.properties": "other"}})
        case "field":
            world.merge(MIRRORS, "copy", {"spec": {"syncGroupOffsets": True}})
        case "restart":
            about = {"annotations": {"odradek.io/restart": "now"}}
            world.merge(MIRRORS, "copy", {"metadata": about})
    world.look()
    world.settle()
    assert world.pods() and not world.pods() & before


def test_paused_stops_the_workers_and_goes_on() -> None:
    world = MirrorWorld({**SPEC, "replicas": 2})
    world.settle()
    assert len(world.pods()) == 2
    world.merge(MIRRORS, "copy", {"spec": {"paused": True}})
    world.look(3)
    assert not world.pods() and world.condition()[:2] == ("False", "Paused")
    assert world.status["lag"] == 6, "what was known last stays"
    world.merge(MIRRORS, "copy", {"spec": {"paused": False}})
    world.settle()
    assert len(world.pods()) == 2 and world.condition()[0] == "True"


def test_the_annotation_leaves_workers_as_they_are() -> None:
    world = MirrorWorld()
    world.settle()
    before = world.pods()
    about = {"annotations": {"odradek.io/paused": "true"}}
    world.merge(MIRRORS, "copy", {"metadata": about, "spec": {"replicas": 3}})
    assert world.look() is None
    assert world.pods() == before and world.condition()[:2] == ("Unknown", "Paused")


def test_workers_that_fail_say_why() -> None:
    world = MirrorWorld()
    world.settle()
    error = "orders was made again at shop: delete shop.orders at the target, or leave the topic out"
    stopped = PartitionSeen(topic="orders", error=error)
    world.workers.page = WorkerPage(
        flows=(FlowSeen(source="shop", state="failed", error=error, partitions=(stopped,)),)
    )
    world.restart_operator()
    world.look()
    assert world.condition() == ("False", "Failing", f"shop: {error}; shop: orders: {error}")
    assert world.condition("Mirroring")[0] == "False"
    assert world.status["sources"][0]["lastError"] == error
    assert world.kubernetes.events[-1].type == "Warning"
    world.workers.page = running(orders=0)
    world.restart_operator()
    world.settle()
    assert world.condition()[0] == "True" and world.status["lag"] == 0


def test_lag_that_is_unknown_of_one_partition_is_not_shown_as_the_rest() -> None:
    world = MirrorWorld()
    world.settle()
    known, unknown = PartitionSeen(topic="bills", lag=7, lag_seconds=1.0), PartitionSeen(topic="orders")
    world.workers.page = WorkerPage(
        flows=(FlowSeen(source="shop", state="running", partitions=(known, unknown)),)
    )
    world.restart_operator()
    world.look()
    assert world.status.get("lag") is None and world.status["sources"][0].get("lag") is None
    assert [(one["topic"], one.get("lag")) for one in world.status["furthest"]] == [
        ("orders", None),
        ("bills", 7),
    ]


def test_workers_that_do_not_answer_are_unknown() -> None:
    world = MirrorWorld()
    world.workers.page = None
    world.look(4)
    assert world.condition()[:2] == ("Unknown", "NoAnswer")


def test_a_pod_that_does_not_come_up_says_why() -> None:
    world = MirrorWorld()
    world.look()
    (pod,) = world.objects.list(PODS, NAMESPACE, {"odradek.io/mirror": "copy"})
    world.nodes.broken.add(metadata(pod)["name"])
    ended = {"terminated": {"exitCode": 1, "message": "shop.example:9092 does not answer"}}
    status: dict[str, Any] = {
        "containerStatuses": [
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended, "ready": False}
        ]
    }
    world.set_status(PODS, metadata(pod)["name"], status)
    world.look()
    message = world.condition()[2]
    assert "0 of 1 workers serve" in message and "shop.example:9092 does not answer" in message


def test_a_worker_that_cannot_reach_a_cluster_says_so_before_it_is_ready() -> None:
    world = MirrorWorld()
    world.look()
    (pod,) = world.objects.list(PODS, NAMESPACE, {"odradek.io/mirror": "copy"})
    world.nodes.broken.add(metadata(pod)["name"])
    flow = FlowSeen(source="shop", state="waiting", error="shop.example:9092 does not answer")
    world.workers.page = WorkerPage(flows=(flow,))
    world.look()
    status, reason, message = world.condition()
    assert (status, reason) == ("False", "WorkersNotReady")
    assert message == "0 of 1 workers serve; shop: shop.example:9092 does not answer"
    assert world.status["sources"][0]["state"] == "waiting"


def test_workers_are_not_asked_again_for_the_operators_own_write() -> None:
    async def story() -> int:
        world.nodes.turn()
        for _ in range(3):
            await world.reconciler.reconcile(world.key(MIRRORS, "copy"))
        return len(world.workers.asked)

    world = MirrorWorld()
    world.settle()
    world.workers.asked.clear()
    world.restart_operator()
    assert run(story()) == 1


def test_what_another_owns_is_named_and_not_touched() -> None:
    world = MirrorWorld()
    owners = [{"apiVersion": "apps/v1", "kind": "Release", "name": "web", "uid": "x", "controller": True}]
    world.objects.create({**manifest(CONFIG_MAPS, "copy-mirror", ownerReferences=owners), "data": {"a": "b"}})
    world.look()
    status, reason, message = world.condition()
    assert (status, reason) == ("False", "ObjectsOfOthers")
    assert (
        "ConfigMap copy-mirror (of Release web)" in message
        and "make the Mirror under another name" in message
    )
    kept = world.get(CONFIG_MAPS, "copy-mirror")
    assert kept is not None and kept["data"] == {"a": "b"}


@pytest.mark.parametrize("refusal", [Forbidden("exceeded quota", status=403), Refused("no", status=422)])
def test_what_kubernetes_refuses_is_said_in_its_words(refusal: Exception) -> None:
    world = MirrorWorld()

    async def refuse(*_: Any, **__: Any) -> Any:
        raise refusal

    world.kubernetes.apply = refuse  # type: ignore[method-assign]
    with pytest.raises(type(refusal)):
        world.look()
    assert str(refusal) in world.condition()[2]


def test_whatever_happens_between_two_writes_the_next_operator_goes_on() -> None:
    whole = MirrorWorld()
    whole.settle()
    writes = len(whole.kubernetes.written)
    assert writes > 6
    for cut in range(writes):
        world = MirrorWorld()
        with world.kubernetes.killed_after(cut):
            world.settle()
        world.restart_operator()
        world.settle()
        assert world.condition()[0] == "True", cut
