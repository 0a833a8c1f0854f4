"""A Cluster on volumes of an earlier one: what went with its resource is deleted before clients have a listener."""

from __future__ import annotations

import pytest

from odradek.foundation.settings.broker_settings import Settings
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.names import CLUSTER_LABEL, DECLARED_LABEL, MANAGED_BY, MANAGED_BY_LABEL
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    CONSUMER_GROUPS,
    PODS,
    TOPICS,
    USERS,
    VOLUME_CLAIMS,
    Api,
    Json,
)
from odradek_operator.reconcilers.declared import RECORD_BYTES_MAX, DeclaredRecord, DeclaredThing, record_name
from tests.operator.support.cluster_world import ClusterWorld
from tests.operator.support.world import manifest

SECURED: Json = {
    "internalListener": {"authentication": {"type": "scram-sha-512"}},
    "listeners": [
        {
            "name": "outside",
            "type": "NodePort",
            "port": 9094,
            "advertisedPort": 30000,
            "tls": True,
            "authentication": {"type": "scram-sha-512"},
        }
    ],
}


def _entry(uid: str, resource: str, **more: object) -> DeclaredThing:
    return DeclaredThing(uid=uid, resource=resource, thing=resource, cluster_uid="earlier", **more)  # type: ignore[arg-type]


def _record(world: ClusterWorld, api: Api, *entries: DeclaredThing) -> None:
    """Make the record as the kind's reconciler does."""
    owner = {"apiVersion": "odradek.io/v1", "kind": "Cluster", "name": "events", "controller": False}
    uid = world.body(CLUSTERS, "events")["metadata"]["uid"]
    labels = {CLUSTER_LABEL: "events", MANAGED_BY_LABEL: MANAGED_BY, DECLARED_LABEL: api.plural}
    made = manifest(
        CONFIG_MAPS, record_name("events", api), labels=labels, ownerReferences=[{**owner, "uid": uid}]
    )
    world.objects.create(made | {"data": {one.uid: one.render() for one in entries}})


def _again(world: ClusterWorld, **changes: Json) -> None:
    """Delete the Cluster, whose volumes stay, and apply it again."""
    spec = world.body(CLUSTERS, "events")["spec"]
    world.delete(CLUSTERS, "events")
    world.reconcile()
    for component in ("broker", "controller", "zookeeper"):
        for pod in world.pods(component):
            world.delete(PODS, pod)
    world.kubernetes.events.clear()
    world.restart_operator()
    world.create(CLUSTERS, "events", {**spec, **changes})


def _listeners(world: ClusterWorld) -> tuple[str, str]:
    """The listeners in brokers' settings, and in what broker 0 advertises, by name."""
    data = world.body(CONFIG_MAPS, "events-broker")["data"]
    file = parse_properties(data["broker.properties"], source="broker.properties")
    line = next(one for one in data["addresses"].splitlines() if one.startswith("0)"))
    advertised = line.partition('"')[2].rpartition('"')[0]
    return tuple(
        ",".join(one.partition(":")[0] for one in text.split(",")) for text in (file["listeners"], advertised)
    )  # type: ignore[return-value]


def _reasons(world: ClusterWorld) -> list[str]:
    return [one.reason for one in world.kubernetes.events if one.kind == "Cluster"]


@pytest.fixture
def world() -> ClusterWorld:
    made = ClusterWorld(SECURED)
    made.settle()
    return made


def test_listeners_open_to_clients_when_what_is_owed_is_gone(world: ClusterWorld) -> None:
    _record(world, USERS, _entry("u-1", "ghost"))
    world.look(2)
    _again(world)
    world.woken.clear()
    world.look(8)
    assert _listeners(world) == ("REPLICATION", "REPLICATION")
    file = parse_properties(world.body(CONFIG_MAPS, "events-broker")["data"]["broker.properties"])
    assert [one.security_protocol for one in Settings(file | {"node.id": "0"}).listener_endpoints] == ["SSL"]
    assert world.status["adoption"] == "Held"
    ready = world.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Adopting") and "user ghost" in ready["message"]
    assert world.condition("Deletions")["status"] == "False"
    assert world.key(USERS, "ghost") in world.woken, "its kind deletes it"
    held = world.pods()
    world.merge(CONFIG_MAPS, record_name("events", USERS), {"data": {"u-1": None}})
    world.settle()
    every = "INTERNAL,OUTSIDE,REPLICATION"
    assert _listeners(world) == (every, every)
    assert world.replaced(held) == set(held)
    assert world.status["adoption"] == "Done" and world.condition("Ready")["status"] == "True"
    assert not world.condition("Deletions")


def test_a_cluster_is_not_ready_before_every_broker_has_its_listeners(world: ClusterWorld) -> None:
    _record(world, USERS, _entry("u-1", "ghost"))
    world.look()
    _again(world)
    world.look(8)
    world.merge(CONFIG_MAPS, record_name("events", USERS), {"data": {"u-1": None}})
    for _ in range(60):
        world.look()
        if world.condition("Ready")["status"] == "True":
            break
        assert world.condition("Ready")["reason"] in ("Adopting", "BrokersNotReady")
    opened = [world.brokers._files[uid]["listeners"] for uid in world.pods().values()]
    assert all("INTERNAL" in one for one in opened)


def test_a_new_cluster_holds_nothing_and_one_without_debts_neither(world: ClusterWorld) -> None:
    assert world.status["adoption"] == "Done"
    _again(world)
    world.look()
    assert _listeners(world)[0] == "INTERNAL,OUTSIDE,REPLICATION"
    world.settle()
    assert world.status["adoption"] == "Done"


def test_users_without_a_user_stay_and_are_shown(world: ClusterWorld) -> None:
    world.brokers.users = {"alice", "made-by-hand", "CN=events-broker,O=odradek.io"}
    world.create(USERS, "alice", {"cluster": "events"})
    _again(world)
    world.settle()
    assert world.status["unclaimedUsers"] == ["made-by-hand"]
    assert _reasons(world).count("UsersUnclaimed") == 1
    assert world.brokers.users >= {"made-by-hand"}
    world.create(USERS, "made-by-hand", {"cluster": "events"})
    world.settle()
    assert world.status["unclaimedUsers"] == [] and _reasons(world).count("UsersUnclaimed") == 1


def test_users_without_a_user_go_where_the_cluster_says_so(world: ClusterWorld) -> None:
    world.brokers.users = {"alice", "made-by-hand"}
    world.create(USERS, "alice", {"cluster": "events"})
    _again(world, adoption={"unclaimedUsers": "Remove"})
    world.look(2)
    assert _listeners(world)[0] == "REPLICATION"
    world.settle()
    assert world.brokers.users == {"alice"} and "UsersRemoved" in _reasons(world)
    assert _listeners(world)[0] == "INTERNAL,OUTSIDE,REPLICATION"
    # It is for what an earlier Cluster has left: users that are made later stay.
    world.brokers.users.add("later")
    world.change(brokers__config={"num.partitions": "2"})
    world.settle()
    assert "later" in world.brokers.users


def test_topics_whose_topic_only_did_not_come_stay_and_are_shown(world: ClusterWorld) -> None:
    world.brokers.topics = {"orders", "audit"}
    missing = [_entry("t-1", "orders", id="1"), _entry("t-2", "gone-since", id="2")]
    _record(world, TOPICS, *missing, _entry("t-3", "audit", id="3"))
    world.look()
    _again(world)
    world.create(TOPICS, "audit", {"cluster": "events"})
    world.settle()
    assert world.status["unclaimedTopics"] == ["orders"]
    assert _reasons(world).count("TopicsUnclaimed") == 1
    assert world.key(TOPICS, "orders") not in world.woken, "nothing deletes it"


def test_a_record_lives_as_long_as_the_data(world: ClusterWorld) -> None:
    _record(world, USERS, _entry("u-1", "ghost"))
    world.look()
    world.delete(CLUSTERS, "events")
    name = record_name("events", USERS)
    assert world.get(CONFIG_MAPS, name) is not None
    for claim in world.objects.list(VOLUME_CLAIMS, "default"):
        # As Kubernetes does when no pod uses it any more.
        world.merge(VOLUME_CLAIMS, claim["metadata"]["name"], {"metadata": {"finalizers": []}})
        world.delete(VOLUME_CLAIMS, claim["metadata"]["name"])
    assert world.get(CONFIG_MAPS, name) is None


@pytest.mark.parametrize("writes", [0, 1, 2, 5, 12, 20])
def test_an_operator_killed_anywhere_does_not_open_too_soon(world: ClusterWorld, writes: int) -> None:
    _record(world, USERS, _entry("u-1", "ghost"))
    world.look()
    _again(world)
    with world.kubernetes.killed_after(writes):
        world.look(12)
    world.restart_operator()
    world.look(8)
    assert _listeners(world)[0] == "REPLICATION"
    world.merge(CONFIG_MAPS, record_name("events", USERS), {"data": {"u-1": None}})
    world.settle()
    assert _listeners(world)[0] == "INTERNAL,OUTSIDE,REPLICATION"


def test_what_names_a_cluster_that_is_gone_is_looked_at(world: ClusterWorld) -> None:
    """Their conditions are of a Cluster that served: they must say that there is none."""
    ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "AsWanted"}]}
    kinds = (TOPICS, USERS, CONSUMER_GROUPS)
    for api in kinds:
        world.create(api, "orders", {"cluster": "events"}, status=ready)
        world.create(api, "others", {"cluster": "other"}, status=ready)
    world.delete(CLUSTERS, "events")
    world.woken.clear()
    world.reconcile()
    wanted = {world.key(api, "orders") for api in kinds}
    assert set(world.woken) == wanted and wanted <= world.environment.stale


def test_a_record_has_a_bound() -> None:
    record = DeclaredRecord(namespace="default", cluster="events", api=USERS)
    many = {f"uid-{number:032}": _entry(f"uid-{number:032}", f"user-{number}") for number in range(4000)}
    assert record.has_room_for(many)
    size = RECORD_BYTES_MAX // 4000
    assert not record.has_room_for({uid: _entry(uid, "n" * size) for uid in many})
