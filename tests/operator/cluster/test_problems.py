"""What Kubernetes refuses, and why pods do not come up, stands in the Cluster's condition Ready and in an event."""

from __future__ import annotations

from datetime import timedelta

import pytest

from odradek_operator.gateways.kubernetes import DEPLOYMENTS, EVENTS, PODS, STATEFUL_SETS, VOLUME_CLAIMS, Json
from odradek_operator.reconcilers.cluster.facts import pod_problem
from tests.operator.support.cluster_world import ClusterWorld
from tests.operator.support.world import manifest

QUOTA = "create Pod events-broker-0 failed: pods is forbidden: exceeded quota: small, used: pods=4, limited: pods=4"


def warn(world: ClusterWorld, kind: str, name: str, message: str, *, minutes_ago: float = 1) -> None:
    """An event as Kubernetes' controllers write it."""
    when = world.now - timedelta(minutes=minutes_ago)
    event = {
        "involvedObject": {"kind": kind, "name": name},
        "type": "Warning",
        "message": message,
        "lastTimestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    called = f"{name}.{len(world.objects.list(EVENTS, None))}"
    world.objects.create({**manifest(EVENTS, called), **event})


def reported(world: ClusterWorld) -> list[str]:
    return [one.message for one in world.kubernetes.events if one.reason == "PodsNotReady"]


def test_a_quota_that_lets_no_pod_be_made_is_said() -> None:
    world = ClusterWorld()
    world.look()
    world.nodes.frozen = True
    for pod in world.pods():
        world.delete(PODS, pod)
    status = {"readyReplicas": 0, "observedGeneration": 99}
    world.set_status(STATEFUL_SETS, "events-broker", status)
    warn(world, "StatefulSet", "events-broker", "an old story", minutes_ago=90)
    warn(world, "StatefulSet", "events-broker", QUOTA)
    warn(world, "StatefulSet", "events-zookeeper", "of another")
    for component in ("zookeeper", "controller"):
        api, kind = (STATEFUL_SETS, "events-zookeeper") if component == "zookeeper" else (DEPLOYMENTS, "")
        status = {"readyReplicas": 2, "updatedReplicas": 2, "observedGeneration": 99}
        world.set_status(api, kind or "events-controller", status)
    world.look(3)
    ready = world.condition("Ready")
    assert ready["reason"] == "BrokersNotReady" and QUOTA in ready["message"]
    assert reported(world) == [f"Kubernetes does not make the pods: {QUOTA}"], "once, not with each look"


def test_a_claim_of_a_class_that_is_not_there_is_said_with_its_class() -> None:
    world = ClusterWorld({"brokers": {"storage": {"class": "fats"}}})
    world.nodes.broken = {f"events-broker-{number}" for number in range(3)}
    world.look(3)
    for number in range(3):
        claim = f"data-events-broker-{number}"
        world.set_status(VOLUME_CLAIMS, claim, {"phase": "Pending"})
        message = 'storageclass.storage.k8s.io "fats" not found'
        warn(world, "PersistentVolumeClaim", claim, message)
    world.look(3)
    message = world.condition("Ready")["message"]
    assert "the claim data-events-broker-0 (storage class fats) has no volume" in message
    assert 'storageclass.storage.k8s.io "fats" not found' in message


def test_a_crash_loop_is_said_with_the_last_line_of_the_log() -> None:
    world = ClusterWorld()
    world.nodes.broken = {"events-zookeeper-0"}
    world.look(3)
    world.set_status(PODS, "events-zookeeper-0", crashing(10))
    world.look()
    ready = world.condition("Ready")
    assert ready["reason"] == "ZookeeperNotReady"
    assert (
        "CrashLoopBackOff: it ended with exit code 1: FATAL: no room on /data after 10 s" in ready["message"]
    )
    assert "starting" not in ready["message"].partition("FATAL")[2]
    # The same crash with other numbers is the same events.
    world.set_status(PODS, "events-zookeeper-0", crashing(20))
    world.look()
    assert "after 20 s" in world.condition("Ready")["message"]
    assert len(reported(world)) == 1


def crashing(seconds: int) -> Json:
    """A pod's status between two crashes."""
    log = f"INFO: starting\nFATAL: no room on /data after {seconds} s\n\n"
    return {
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [
            {
                "ready": False,
                "state": {
                    "waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {seconds}s restarting"}
                },
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": log}},
            }
        ],
    }


@pytest.mark.parametrize(
    ("container", "problem"),
    [
        ({"ready": True, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}}, None),
        ({"ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}, None),
        (
            {"ready": False, "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}},
            "ErrImagePull: no such image",
        ),
        (
            {
                "ready": False,
                "state": {"running": {}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            },
            "restarted: it was killed for using more memory than its limit (OOMKilled)",
        ),
    ],
    ids=["serves again", "begins", "no image", "out of memory"],
)
def test_the_problem_of_a_pod(container: Json, problem: str | None) -> None:
    assert pod_problem({"status": {"containerStatuses": [container]}}) == problem
