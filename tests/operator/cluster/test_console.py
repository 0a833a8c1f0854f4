"""The console of a Cluster: what it is made of, what it logs in with, and that nothing of it holds brokers up."""

from __future__ import annotations

from typing import Any

import pytest

from odradek_operator.desired.cluster_logins import ClusterLogin
from odradek_operator.desired.console import console_manifests
from odradek_operator.desired.console_files import ConsoleFiles
from odradek_operator.desired.policies import network_policies
from odradek_operator.gateways.kubernetes import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    USERS,
    Forbidden,
    Json,
    KubernetesError,
    Refused,
    metadata,
)
from odradek_operator.reconcilers.cluster.status.report import BLOCKED_SECONDS
from odradek_operator.resources.cluster import ClusterSpec
from odradek_operator.resources.structure import InvalidResource, parse
from tests.operator.cluster.test_desired import context
from tests.operator.support.cluster_world import ClusterWorld

KINDS = (DEPLOYMENTS, SERVICES, SERVICE_ACCOUNTS, NETWORK_POLICIES)
PEER = {"podSelector": {"matchLabels": {"app": "ingress"}}}
LOGIN = {"internalListener": {"authentication": {"type": "scram-sha-512"}}, "console": {"user": "viewer"}}
READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}


def desired(login: ClusterLogin | None = None, **spec: Any) -> dict[str, Json]:
    """The console's manifests by kind."""
    of = context(**{"console": {}, **spec})
    assert of.spec.console is not None
    files = ConsoleFiles(login=login or ClusterLogin(config_map="events-binding"))
    found = console_manifests(of, of.spec.console, files)
    assert {metadata(one)["name"] for one in found} == {"events-console"}
    assert all(metadata(one)["ownerReferences"] == [{"uid": "u"}] for one in found)
    return {str(one["kind"]): one for one in found}


def pod_of(manifests: dict[str, Json]) -> Json:
    template: Json = manifests["Deployment"]["spec"]["template"]
    return template


def user(world: ClusterWorld, *, version: str = "7", cluster: str = "events", ready: bool = True) -> None:
    """The User viewer with its Secret."""
    if world.get(USERS, "viewer") is None:
        world.create(SECRETS, "viewer-secret")
        world.create(USERS, "viewer", {"cluster": cluster})
    status = {"secret": "viewer-secret", "secretVersion": version}
    world.set_status(USERS, "viewer", {**(READY if ready else {}), **status})


def with_console(spec: Json | None = None) -> ClusterWorld:
    """A Cluster with a console that has nothing left to do."""
    world = ClusterWorld({"console": {}, **(spec or {})})
    world.settle()
    return world


def stated(world: ClusterWorld) -> tuple[str, str]:
    found = world.condition("Console")
    return found.get("status", ""), found.get("reason", "")


def pods(world: ClusterWorld) -> set[str]:
    return set(world.pods("console").values())


# --- what it is made of -----------------------------------------------------------------------------------------------


def test_its_command_is_what_the_cluster_says() -> None:
    (shown,) = pod_of(desired())["spec"]["containers"]
    login = ["--command-config", "/etc/odradek-login/client.properties"]
    assert shown["command"] == ["odradek", "console", "--host", "", "--port", "8088", *login]
    wanted = {"allowChanges": True, "allowedHosts": ["console.example.org", "10.0.0.7"]}
    (changing,) = pod_of(desired(console=wanted))["spec"]["containers"]
    hosts = ["--allow-host", "console.example.org", "--allow-host", "10.0.0.7"]
    assert changing["command"] == [*shown["command"], *hosts, "--allow-changes"]


def test_its_pod_is_restricted_and_takes_what_users_add() -> None:
    added = {"tolerations": [{"operator": "Exists"}], "priorityClassName": "low", "labels": {"team": "a"}}
    template = pod_of(
        desired(console={"pod": added, "resources": {"limits": {"memory": "1Gi"}}}, runAs={"user": 7})
    )
    spec = template["spec"]
    (shown,) = spec["containers"]
    assert shown["image"] == "odradek:1"
    assert shown["securityContext"]["readOnlyRootFilesystem"] is True
    assert shown["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] == 7
    assert spec["tolerations"] == added["tolerations"] and spec["priorityClassName"] == "low"
    assert template["metadata"]["labels"]["team"] == "a"
    assert shown["resources"] == {"limits": {"memory": "1Gi"}}
    # A scraper of metrics finds ports by the name http, and a console has none.
    assert shown["ports"] == [{"name": "console", "containerPort": 8088}]
    for probe in ("livenessProbe", "readinessProbe"):
        assert shown[probe]["httpGet"] == {"path": "/healthz", "port": 8088}


def test_it_mounts_what_it_logs_in_with_and_a_new_version_replaces_it() -> None:
    of_binding = pod_of(desired())
    assert of_binding["spec"]["volumes"][0] == {"name": "login", "configMap": {"name": "events-binding"}}
    first, second = (pod_of(desired(ClusterLogin(secret="viewer", version=version))) for version in "12")
    assert first["spec"]["volumes"][0]["secret"]["secretName"] == "viewer"
    assert first["spec"] == second["spec"]
    assert first["metadata"]["annotations"] != second["metadata"]["annotations"]
    assert {"name": "login", "mountPath": "/etc/odradek-login", "readOnly": True} in first["spec"][
        "containers"
    ][0]["volumeMounts"]


def test_its_service_leads_to_its_pod() -> None:
    manifests = desired()
    service = manifests["Service"]["spec"]
    assert service["ports"] == [{"name": "http", "port": 80, "targetPort": 8088, "protocol": "TCP"}]
    assert service["selector"].items() <= pod_of(manifests)["metadata"]["labels"].items()
    assert service["selector"]["app.kubernetes.io/component"] == "console"


def test_nobody_reaches_it_unless_peers_are_named() -> None:
    assert desired()["NetworkPolicy"]["spec"]["ingress"] == []
    assert desired(console={"clients": []})["NetworkPolicy"]["spec"]["ingress"] == []
    (rule,) = desired(console={"clients": [PEER]})["NetworkPolicy"]["spec"]["ingress"]
    assert rule == {"ports": [{"protocol": "TCP", "port": 8088}], "from": [PEER]}
    assert "NetworkPolicy" not in desired(network={"enabled": False})


@pytest.mark.parametrize("has_console", [True, False])
def test_brokers_admit_it_beside_the_clients_that_are_named(has_console: bool) -> None:
    of = context(network={"clients": [PEER]}, **({"console": {}} if has_console else {}))
    (peers, *_) = [one["spec"]["ingress"][0]["from"] for one in network_policies(of)]
    admitted = [one["podSelector"]["matchLabels"].get("app.kubernetes.io/component") for one in peers]
    # The last console is of any other Cluster that shows this one.
    assert admitted == ["broker", "controller", *(["console"] if has_console else []), "console", None]


@pytest.mark.parametrize("host", ["http://a.example", "a.example:80", "-a", "a b", "", "*"])
def test_a_host_is_a_name(host: str) -> None:
    with pytest.raises(InvalidResource):
        parse(ClusterSpec, {"zookeeper": {}, "console": {"allowedHosts": [host]}})


# --- what the operator does -------------------------------------------------------------------------------------------


def test_a_cluster_has_none_by_itself(world: ClusterWorld) -> None:
    assert all(world.get(api, "events-console") is None for api in KINDS)
    assert stated(world) == ("", "") and "console" not in world.status


def test_it_comes_with_the_field_and_goes_with_it(world: ClusterWorld) -> None:
    before = world.pods()
    world.change(spec__console={})
    world.settle()
    assert all(world.get(api, "events-console") is not None for api in KINDS)
    assert stated(world) == ("True", "Serving")
    assert world.status["console"] == "http://events-console.default.svc.cluster.local"
    world.change(spec__console=None)
    world.settle()
    assert all(world.get(api, "events-console") is None for api in KINDS)
    assert stated(world) == ("", "") and "console" not in world.status
    assert world.pods() == before, "no broker was restarted"


def test_it_settles_whenever_the_operator_is_killed() -> None:
    for writes in range(0, 45, 4):
        world = ClusterWorld({"console": {}})
        world.settle_through_kills(writes)
        assert stated(world) == ("True", "Serving")


def test_what_is_settled_is_not_written_again() -> None:
    world = with_console()
    world.restart_operator()
    world.look(2)
    written = len(world.kubernetes.written)
    world.look(3)
    assert world.kubernetes.written[written:] == []


def test_a_new_image_or_authority_replaces_it() -> None:
    world = with_console()
    first = pods(world)
    world.change(spec__image="odradek:0.1.1")
    world.settle()
    assert pods(world).isdisjoint(first)
    secured = with_console({"internalListener": {"tls": True}})
    before = secured.body(DEPLOYMENTS, "events-console")["spec"]["template"]["metadata"]["annotations"]
    assert "ssl.truststore" in secured.body(CONFIG_MAPS, "events-binding")["data"]["client.properties"]
    plain = world.body(DEPLOYMENTS, "events-console")["spec"]["template"]["metadata"]["annotations"]
    assert before != plain


def test_it_serves_while_a_new_pod_starts_and_a_pod_that_fails_is_named() -> None:
    world = with_console()
    world.nodes.frozen = True
    world.change(spec__image="odradek:0.1.1")
    world.look(3)
    # The former pod is ready, and the new one is not there yet.
    rolling = {"observedGeneration": 2, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 1}
    world.set_status(DEPLOYMENTS, "events-console", rolling)
    world.look()
    assert stated(world) == ("True", "Rolling")
    (pod,) = world.objects.list(PODS, "default", {"app.kubernetes.io/component": "console"})
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    world.create(PODS, "events-console-new", {}, labels=metadata(pod)["labels"])
    world.set_status(PODS, "events-console-new", {"containerStatuses": [{"state": waiting}]})
    world.look()
    assert stated(world) == ("False", "NotServing")
    assert "no such image" in world.condition("Console")["message"]
    assert world.status["conditions"][0]["type"] == "Ready"


def test_its_policy_goes_where_network_policies_are_off() -> None:
    world = with_console()
    world.change(spec__network={"enabled": False})
    world.settle()
    assert world.get(NETWORK_POLICIES, "events-console") is None
    assert world.get(DEPLOYMENTS, "events-console") is not None


def test_it_waits_for_its_user_and_the_cluster_is_ready_meanwhile() -> None:
    world = ClusterWorld(LOGIN)
    for _ in range(20):
        after = world.look()
    assert after == BLOCKED_SECONDS
    assert world.condition("Ready")["status"] == "True"
    assert stated(world) == ("False", "UserNotFound")
    assert world.get(DEPLOYMENTS, "events-console") is None
    told = [one for one in world.kubernetes.events if one.reason == "ConsoleUserNotFound"]
    assert len(told) == 1 and told[0].type == "Warning"
    user(world, ready=False)
    world.look()
    assert stated(world) == ("False", "UserNotReady")
    assert world.get(DEPLOYMENTS, "events-console") is None
    user(world)
    world.settle()
    assert stated(world) == ("True", "Serving")


def test_a_new_login_replaces_it_and_a_user_that_is_away_does_not() -> None:
    world = ClusterWorld(LOGIN)
    user(world)
    world.settle()
    first = pods(world)
    user(world, version="8")
    world.settle()
    second = pods(world)
    assert second.isdisjoint(first)
    user(world, version="8", ready=False)
    world.settle()
    assert stated(world) == ("True", "Serving")
    world.delete(USERS, "viewer")
    world.look(3)
    assert stated(world) == ("False", "UserNotFound")
    assert pods(world) == second, "what serves goes on"
    world.change(spec__console=None)
    world.settle()
    assert world.get(DEPLOYMENTS, "events-console") is None


def test_a_user_of_another_cluster_is_none() -> None:
    world = ClusterWorld(LOGIN)
    user(world, cluster="others")
    world.look(20)
    assert stated(world) == ("False", "UserOfOtherCluster")


def test_a_user_is_asked_for_where_clients_log_in() -> None:
    """A definition of an earlier version does not know the rule."""
    world = ClusterWorld({**LOGIN, "console": {}})
    world.look(20)
    assert stated(world) == ("False", "UserNeeded")
    assert world.condition("Ready")["status"] == "True"


def test_a_secret_that_is_missing_is_named() -> None:
    world = ClusterWorld(LOGIN)
    user(world)
    world.delete(SECRETS, "viewer-secret")
    world.look(20)
    assert stated(world) == ("False", "ReferenceMissing")
    assert "Secret viewer-secret" in world.condition("Console")["message"]


@pytest.mark.parametrize("refusal", [Refused("no such priority"), Forbidden("exceeded quota")])
def test_what_kubernetes_refuses_of_it_holds_nothing_else_up(
    world: ClusterWorld, refusal: KubernetesError
) -> None:
    def refuse(what: str, kind: str, name: str) -> None:
        if (kind, name) == ("Deployment", "events-console"):
            raise refusal

    world.kubernetes.before_write = refuse
    world.change(spec__console={}, spec__controllers={"replicas": 3})
    world.look(10)
    assert stated(world) == ("False", type(refusal).__name__)
    assert str(refusal) in world.condition("Console")["message"]
    assert world.condition("Ready")["status"] == "True"
    assert len(world.pods("controller")) == 3
    assert world.get(SERVICES, "events-console") is None, "nothing of it is made before all of it is allowed"


def test_what_is_anothers_stays() -> None:
    world = ClusterWorld({"console": {}})
    theirs = {"replicas": 0, "selector": {"matchLabels": {"app": "other"}}, "template": {}}
    world.create(DEPLOYMENTS, "events-console", theirs)
    world.look(20)
    assert stated(world) == ("False", "ObjectsOfOthers")
    assert world.condition("Ready")["status"] == "True"
    assert world.body(DEPLOYMENTS, "events-console")["spec"] == theirs
    assert world.get(SERVICES, "events-console") is None


def test_a_pod_that_does_not_come_up_is_named_and_the_cluster_is_ready(world: ClusterWorld) -> None:
    world.nodes.broken.update(f"events-console-x{number}" for number in range(100))
    world.change(spec__console={})
    world.look(5)
    assert stated(world) == ("False", "Starting")
    assert not [one for one in world.kubernetes.events if one.reason.startswith("Console")]
    world.set_status(
        DEPLOYMENTS,
        "events-console",
        {"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}]},
    )
    world.nodes.frozen = True
    assert world.look() == BLOCKED_SECONDS
    assert stated(world) == ("False", "NotServing")
    assert "exceeded quota" in world.condition("Console")["message"]
    assert world.condition("Ready")["status"] == "True"
    assert [one.reason for one in world.kubernetes.events if "Console" in one.reason] == ["ConsoleNotServing"]
