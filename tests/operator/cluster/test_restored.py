"""Volumes that were restored from another namespace: ZooKeeper keeps their cluster below the path of there."""

from __future__ import annotations

import pytest

from odradek_operator.gateways.kubernetes import CONFIG_MAPS, PODS, Json
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.structure import InvalidResource, parse
from tests.operator.support.cluster_world import ClusterWorld

REFUSAL = (
    "FATAL: the log directory /data/log belongs to the cluster old-1, and the registry to the cluster new-1."
)


def connect(world: ClusterWorld) -> str:
    file: str = world.body(CONFIG_MAPS, "events-broker")["data"]["broker.properties"]
    (line,) = [one for one in file.splitlines() if one.startswith("zookeeper.connect=")]
    return line.partition("=")[2]


def crash(world: ClusterWorld, name: str, message: str) -> None:
    world.nodes.broken.add(name)
    ended = {"terminated": {"exitCode": 1, "message": message}}
    status = {
        **world.body(PODS, name)["status"],
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{"name": "broker", "ready": False, "state": ended}],
    }
    world.set_status(PODS, name, status)


@pytest.mark.parametrize("zookeeper", [{"servers": {"replicas": 1}}, {"connect": "zk-0.zk:2181"}])
def test_a_path_is_where_the_cluster_is_kept(zookeeper: Json) -> None:
    world = ClusterWorld({"zookeeper": zookeeper})
    world.look()
    assert connect(world).endswith(":2181/default/events")
    # Merged patches leave the rest of zookeeper as it is.
    world.change(spec__zookeeper={"path": "/former/events"})
    world.look()
    assert connect(world).endswith(":2181/former/events")
    controllers = world.body(CONFIG_MAPS, "events-controller")["data"]["controller.properties"]
    assert f"zookeeper.connect={connect(world)}\n" in controllers


@pytest.mark.parametrize(
    "zookeeper",
    [{"servers": {}, "path": "b"}, {"servers": {}, "path": "/b/"}, {"servers": {}, "path": ""}],
)
def test_a_path_that_cannot_be_is_refused(zookeeper: Json) -> None:
    with pytest.raises(InvalidResource, match="path"):
        parse(ClusterSpec, {"zookeeper": zookeeper})


def test_volumes_of_another_cluster_are_an_error_that_names_the_field() -> None:
    world = ClusterWorld()
    world.nodes.broken = {"events-broker-0", "events-broker-1", "events-broker-2"}
    world.look(3)
    crash(world, "events-broker-1", REFUSAL)
    world.look(2)
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "OtherZookeeperPath")
    for words in ("old-1", "/default/events", "spec.zookeeper.path", "zookeeper-backup.md"):
        assert words in ready["message"]
    events = [event for event in world.kubernetes.events if event.reason == "OtherZookeeperPath"]
    assert [(event.type, event.message) for event in events] == [("Warning", ready["message"])]


def test_of_a_cluster_that_has_served_zookeepers_data_is_lost(world: ClusterWorld) -> None:
    crash(world, "events-broker-1", REFUSAL.replace("old-1", "cluster-1"))
    world.look()
    assert world.condition("Ready")["reason"] == "ZookeeperDataLost"
