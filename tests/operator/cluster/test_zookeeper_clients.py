"""Clients of ZooKeeper that are not ours: admitted only when nothing that runs is open to them, or locked out by it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odradek_operator.desired.names import AccessStage
from odradek_operator.desired.security import decode_secret
from odradek_operator.desired.zookeeper_access import ACCESS_ANNOTATION
from odradek_operator.foundation.zookeeper_login import ZookeeperLogin
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    metadata,
)
from odradek_operator.reconcilers.cluster.zookeeper.access import AccessSeen, choose_stage
from tests.operator.support.cluster_world import ClusterWorld

PEER = {"podSelector": {"matchLabels": {"app": "billing"}}}
CLIENTS = {"replicas": 1, "clients": [PEER]}
CONNECT = "events-zookeeper.default.svc.cluster.local:2181/default/events"


def admitted(world: ClusterWorld) -> list[Any]:
    """Those whom a rule for clients admits."""
    own, *others = world.body(NETWORK_POLICIES, "events-zookeeper")["spec"]["ingress"]
    assert len(own["from"]) == 3
    return [peer for rule in others for peer in rule["from"] if rule["ports"][0]["port"] == 2181]


def logins(world: ClusterWorld, component: str) -> set[str | None]:
    pods = world.objects.list(PODS, "default", {"app.kubernetes.io/component": component})
    return {(metadata(pod).get("annotations") or {}).get(ACCESS_ANNOTATION) for pod in pods}


def login_of(world: ClusterWorld) -> ZookeeperLogin:
    found = ZookeeperLogin.read(decode_secret(world.body(SECRETS, "events-zookeeper-login")))
    assert found is not None
    return found


def checks(world: ClusterWorld) -> bool:
    return "skipACL" not in world.body(CONFIG_MAPS, "events-zookeeper")["data"]["zoo.cfg"]


def test_a_cluster_that_admits_nobody_is_as_it_was(world: ClusterWorld) -> None:
    assert admitted(world) == [] and not checks(world)
    assert world.get(SECRETS, "events-zookeeper-login") is None
    assert logins(world, "broker") | logins(world, "zookeeper") == {None}
    assert "zookeeper.connect" not in world.body(CONFIG_MAPS, "events-binding")["data"]
    assert "zookeeperConnect" not in world.status and world.brokers.protected == []


def test_a_new_cluster_is_protected_from_its_start() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.look()
    assert checks(world) and admitted(world) == [], "no server was protected yet"
    world.settle()
    assert admitted(world) == [PEER] and world.status["zookeeperConnect"] == CONNECT
    login = login_of(world)
    for component in ("broker", "controller", "zookeeper"):
        assert logins(world, component) == {login.fingerprint}
    [(_, wanted)] = world.brokers.protected
    assert (wanted.root, wanted.login, wanted.keeps_former) == ("/default/events", login, False)
    assert world.body(CONFIG_MAPS, "events-binding")["data"]["zookeeper.connect"] == CONNECT
    # The password is in no ConfigMap, and in no pod template.
    for api in (CONFIG_MAPS, STATEFUL_SETS, DEPLOYMENTS):
        assert login.password not in str(world.objects.list(api, "default"))


def test_a_cluster_that_runs_is_protected_before_it_admits_anybody(world: ClusterWorld) -> None:
    """Brokers and controllers log in before a server checks, and servers check before the policy admits."""
    world.change(spec__zookeeper={"servers": CLIENTS})
    for _ in range(60):
        if world.look() is None:
            break
        everybody = logins(world, "broker") | logins(world, "controller")
        if logins(world, "zookeeper") != {None}:
            assert None not in everybody, "a server checks access lists, and not all have logged in"
        if admitted(world):
            assert None not in logins(world, "zookeeper") and world.brokers.protected
    assert admitted(world) == [PEER]
    assert world.condition("Zookeeper") == {}


def test_nobody_is_admitted_while_nodes_are_open_and_it_is_said() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.brokers.open_nodes = 7
    world.look(8)
    assert admitted(world) == []
    said = world.condition("Zookeeper")
    assert said["reason"] == "AccessChanges" and "7 nodes of ZooKeeper are open to all" in said["message"]
    world.brokers.open_nodes = 0
    world.settle()
    assert admitted(world) == [PEER]


def test_an_empty_list_protects_and_admits_nobody() -> None:
    world = ClusterWorld({"zookeeper": {"servers": {"replicas": 1, "clients": []}}})
    world.settle()
    assert checks(world) and admitted(world) == []
    assert "zookeeper.connect" not in world.body(CONFIG_MAPS, "events-binding")["data"]


def test_what_is_taken_back_locks_nobody_out() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.settle()
    world.change(spec__zookeeper={"servers": {"clients": None}})
    for _ in range(60):
        if world.look() is None:
            break
        assert admitted(world) == []
        if None in logins(world, "broker"):
            assert logins(world, "zookeeper") == {None}, "a server still checks, and a broker does not log in"
    assert not checks(world)
    assert logins(world, "broker") | logins(world, "controller") == {None}
    assert "zookeeperConnect" not in world.status


def test_another_operator_leaves_clients_admitted() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.settle()
    world.restart_operator()
    world.brokers.open_nodes = 1
    world.look()
    assert admitted(world) == [PEER], "what it cannot look at now was seen before"
    assert len(world.brokers.protected) == 2, "it looks once itself"


def test_a_lost_secret_is_made_again_and_former_owners_go_on_meanwhile() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.settle()
    world.delete(SECRETS, "events-zookeeper-login")
    world.settle()
    login = login_of(world)
    assert logins(world, "broker") == logins(world, "controller") == {login.fingerprint}
    kept = [wanted.keeps_former for _, wanted in world.brokers.protected if wanted.login == login]
    assert kept[0] and not kept[-1]


def test_an_ensemble_that_checks_is_changed_by_the_operators_own_login() -> None:
    world = ClusterWorld({"zookeeper": {"servers": CLIENTS}})
    world.settle()
    world.change(spec__zookeeper={"servers": {"replicas": 3}})
    world.settle()
    assert world.brokers.voters == (1, 2, 3)
    assert world.brokers.resize_login == login_of(world)


SEEN = AccessSeen(login="a", servers_there=True, set_checks=True, server_logins=("a", "a"), all_log_in=True)


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"is_protected": True}, AccessStage.ADMITTED),
        ({}, AccessStage.CHECKED),
        ({"is_protected": True, "server_logins": ("a", None)}, AccessStage.CHECKED),
        ({"was_admitted": True, "server_logins": ("a", "former")}, AccessStage.ADMITTED),
        ({"was_admitted": True, "server_logins": ("a", None)}, AccessStage.CHECKED),
        ({"is_protected": True, "server_logins": ()}, AccessStage.CHECKED),
        ({"set_checks": False, "server_logins": (None,)}, AccessStage.CHECKED),
        ({"set_checks": False, "server_logins": (None,), "all_log_in": False}, AccessStage.LOGIN),
        ({"servers_there": False, "set_checks": False, "server_logins": ()}, AccessStage.CHECKED),
    ],
)
def test_the_stage_follows_from_what_pods_have(changes: dict[str, Any], stage: AccessStage) -> None:
    assert choose_stage(replace(SEEN, **changes), is_wanted=True) is stage
