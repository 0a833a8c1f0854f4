"""A console of several clusters: what the operator finds for it, leaves out of it, and replaces it for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    USERS,
    Api,
    Forbidden,
    Json,
    metadata,
)
from odradek_operator.gateways.secrets import POLICY_WORDS
from odradek_operator.reconcilers.cluster.status.report import BLOCKED_SECONDS, WATCHED_SECONDS
from tests.operator.support.cluster_world import ClusterWorld

READY = {"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": ""}]}
FOREIGN = {"name": "old", "bootstrap": "kafka:9092", "clientSecret": "old-kafka"}
STAGING = {"name": "staging", "cluster": "staging"}
PASSWORDS = {"authentication": {"type": "scram-sha-512"}}
MASK = {"topics": ["payments"], "value": ["iban"]}
PROVIDER = {
    "issuer": "https://id.example",
    "clientId": "console",
    "clientSecret": {"valueFrom": {"secretKeyRef": {"name": "provider", "key": "secret"}}},
}


def settled(console: Json, **spec: Any) -> ClusterWorld:
    """A Cluster whose console has what it needs, of what this test has made."""
    world = ClusterWorld({"console": {}, **spec})
    world.settle()
    world.change(spec__console=console)
    world.look(6)
    return world


def staging(world: ClusterWorld, spec: Json | None = None, *, binding: str | None = "bootstrap") -> None:
    """Another Cluster of the namespace, with the ConfigMap for its clients."""
    world.create(CLUSTERS, "staging", spec or {})
    if binding is not None:
        made = world.create(CONFIG_MAPS, "staging-binding")
        world.objects.replace({**made, "data": {"client.properties": binding}})


def stated(world: ClusterWorld) -> tuple[str, str]:
    found = world.condition("Console")
    return found.get("status", ""), found.get("reason", "")


def message(world: ClusterWorld) -> str:
    return str(world.condition("Console")["message"])


def shown(world: ClusterWorld) -> list[str]:
    """The clusters that the console's pod is given."""
    (server,) = world.body(DEPLOYMENTS, "events-console")["spec"]["template"]["spec"]["containers"]
    command = server["command"]
    return [word.partition("=")[0] for before, word in pairwise(command) if before == "--cluster"]


def pods(world: ClusterWorld) -> set[str]:
    return set(world.pods("console").values())


def test_it_shows_other_clusters_beside_its_own() -> None:
    world = ClusterWorld({"console": {"clusters": [STAGING, FOREIGN]}})
    staging(world)
    world.create(SECRETS, "old-kafka")
    world.look(20)
    assert stated(world) == ("True", "Serving")
    assert shown(world) == ["events", "staging", "old"]
    assert world.look() == WATCHED_SECONDS, "no event tells of what is another's"
    written = len(world.kubernetes.written)
    world.look(3)
    assert world.kubernetes.written[written:] == []


def test_a_cluster_that_is_not_there_is_left_out_and_named() -> None:
    world = settled({"clusters": [STAGING, FOREIGN]})
    assert stated(world) == ("True", "ClustersLeftOut")
    assert "staging (there is no Cluster staging in the namespace default" in message(world)
    assert "old (there is no Secret old-kafka in the namespace default" in message(world)
    assert shown(world) == ["events"]
    assert world.condition("Ready")["status"] == "True"
    told = [one for one in world.kubernetes.events if one.reason == "ConsoleClustersLeftOut"]
    assert len(told) == 1 and told[0].type == "Warning"
    assert world.look() == BLOCKED_SECONDS
    staging(world)
    world.create(SECRETS, "old-kafka")
    world.look(5)
    assert stated(world) == ("True", "Serving")
    assert shown(world) == ["events", "staging", "old"]
    world.delete(CLUSTERS, "staging")
    world.look(5)
    assert stated(world) == ("True", "ClustersLeftOut")
    assert shown(world) == ["events", "old"]


@pytest.mark.parametrize(
    ("spec", "binding", "words"),
    [
        ({"internalListener": PASSWORDS}, "x", "clients of the Cluster staging log in: give a user"),
        ({}, None, "the Cluster staging is not ready yet; its part of the console starts when it is"),
    ],
)
def test_a_cluster_that_gives_no_login_is_left_out(spec: Json, binding: str | None, words: str) -> None:
    world = ClusterWorld({"console": {"clusters": [STAGING]}})
    staging(world, spec, binding=binding)
    world.look(20)
    assert stated(world) == ("True", "ClustersLeftOut")
    assert words in message(world)


def test_a_user_of_the_other_cluster_logs_in() -> None:
    world = ClusterWorld({"console": {"clusters": [{**STAGING, "user": "viewer"}]}})
    staging(world, {"internalListener": PASSWORDS})
    world.look(20)
    assert "there is no User viewer" in message(world)
    world.create(SECRETS, "viewer-secret")
    world.create(USERS, "viewer", {"cluster": "staging"})
    world.set_status(USERS, "viewer", {**READY, "secret": "viewer-secret", "secretVersion": "1"})
    world.look(5)
    assert stated(world) == ("True", "Serving")
    first = pods(world)
    world.set_status(USERS, "viewer", {**READY, "secret": "viewer-secret", "secretVersion": "2"})
    world.look(5)
    assert pods(world).isdisjoint(first), "a new password replaces the pod"
    world.delete(SECRETS, "viewer-secret")
    world.look(5)
    assert stated(world) == ("True", "ClustersLeftOut")
    assert "there is no Secret viewer-secret" in message(world)


def test_what_others_change_replaces_the_pod() -> None:
    world = ClusterWorld({"console": {"clusters": [STAGING, FOREIGN]}})
    staging(world)
    world.create(SECRETS, "old-kafka")
    world.look(20)
    first = pods(world)
    world.merge(SECRETS, "old-kafka", {"metadata": {"annotations": {"changed": "1"}}})
    world.look(3)
    second = pods(world)
    assert second.isdisjoint(first)
    world.merge(CONFIG_MAPS, "staging-binding", {"data": {"client.properties": "another authority"}})
    world.look(3)
    third = pods(world)
    assert third.isdisjoint(second)
    world.look(3)
    assert pods(world) == third


def test_a_secret_that_the_policy_hides_counts_as_there_and_none_is_read() -> None:
    world = ClusterWorld({"console": {"clusters": [FOREIGN]}})
    merge, asked = world.kubernetes.merge, []

    async def watched(api: Api, namespace: str | None, name: str, patch: Json, **more: Any) -> Json:
        if (api, name) == (SECRETS, "old-kafka"):
            asked.append(more.get("only_metadata", False))
            raise Forbidden(f"{POLICY_WORDS} 'odradek' denied request", status=403)
        return await merge(api, namespace, name, patch, **more)

    world.kubernetes.merge = watched  # type: ignore[method-assign]
    world.create(SECRETS, "old-kafka")
    world.look(20)
    assert stated(world) == ("True", "Serving")
    assert asked and all(asked), "of others' Secrets nothing but metadata is asked for"
    first = pods(world)
    world.merge(SECRETS, "old-kafka", {"metadata": {"annotations": {"changed": "1"}}})
    world.look(3)
    assert pods(world) == first


@pytest.mark.parametrize(
    ("console", "secret"),
    [
        ({"schemaRegistry": {"url": "http://r", "secretName": "registry"}}, "registry"),
        (
            {
                "clusters": [FOREIGN],
                "logins": {"url": "https://c.example", "openIdConnect": PROVIDER},
            },
            "provider",
        ),
    ],
)
def test_a_secret_of_the_console_itself_stops_it_only_before_it_is_there(console: Json, secret: str) -> None:
    own = {"internalListener": PASSWORDS} if "logins" in console else {}
    world = ClusterWorld({"console": console, **own})
    world.create(SECRETS, "old-kafka")
    world.look(20)
    assert stated(world) == ("False", "ReferenceMissing")
    assert f"Secret {secret}" in message(world)
    assert world.get(DEPLOYMENTS, "events-console") is None
    world.create(SECRETS, secret)
    world.look(5)
    assert stated(world) == ("True", "Serving")
    first = pods(world)
    world.merge(SECRETS, secret, {"metadata": {"annotations": {"changed": "1"}}})
    world.look(3)
    second = pods(world)
    assert second.isdisjoint(first)
    world.delete(SECRETS, secret)
    world.look(3)
    assert stated(world) == ("False", "ReferenceMissing")
    assert pods(world) == second, "what serves goes on"


def test_its_file_comes_and_goes_with_what_needs_it() -> None:
    world = settled({"masks": [MASK]})
    assert "masks.toml" in world.body(CONFIG_MAPS, "events-console")["data"]
    assert stated(world) == ("True", "Serving")
    first = pods(world)
    world.change(spec__console={"masks": [{**MASK, "headers": ["*"]}]})
    world.settle()
    assert pods(world).isdisjoint(first)
    world.change(spec__console={"masks": []})
    world.settle()
    assert world.get(CONFIG_MAPS, "events-console") is None
    assert stated(world) == ("True", "Serving")


def test_a_mask_of_a_cluster_that_the_console_does_not_have_is_refused() -> None:
    """A name that is misspelt would hide nothing."""
    world = settled({"masks": [{**MASK, "clusters": ["event?"]}]})
    assert stated(world) == ("True", "Serving")
    before = pods(world)
    world.change(spec__console={"masks": [{**MASK, "clusters": ["events", "stagng"]}], "clusters": [STAGING]})
    world.look(3)
    assert stated(world) == ("False", "MaskOfNoCluster")
    assert "masks[0] is for the cluster stagng, and the console has events, staging" in message(world)
    assert pods(world) == before
    # A cluster that is left out now has its masks all the same.
    world.change(spec__console={"masks": [{**MASK, "clusters": ["staging"]}], "clusters": [STAGING]})
    world.look(3)
    assert stated(world) == ("True", "ClustersLeftOut")


def test_viewers_log_in_by_passwords_of_users() -> None:
    world = ClusterWorld({"internalListener": PASSWORDS, "console": {"logins": {}, "clusters": [STAGING]}})
    staging(world, {"internalListener": {"authentication": {"type": "tls"}}})
    world.look(20)
    assert stated(world) == ("True", "ClustersLeftOut")
    assert "the Cluster staging has no users with passwords" in message(world)
    world.merge(CLUSTERS, "staging", {"spec": {"internalListener": PASSWORDS}})
    world.look(5)
    assert stated(world) == ("True", "Serving")
    assert shown(world) == ["events", "staging"]
    data = world.body(CONFIG_MAPS, "events-console")["data"]
    assert data["staging.properties"] == "sasl.mechanism=SCRAM-SHA-512\n"


def test_logins_need_users_with_passwords() -> None:
    """A definition of an earlier version does not know the rule."""
    for listener in (None, {"tls": True}, {"authentication": {"type": "tls"}}):
        spec = {} if listener is None else {"internalListener": listener}
        world = ClusterWorld({"console": {"logins": {}}, **spec})
        world.look(20)
        assert stated(world) == ("False", "PasswordsNeeded")
        assert world.condition("Ready")["status"] == "True"


def test_it_settles_whenever_the_operator_is_killed() -> None:
    for writes in range(30, 45, 2):
        world = ClusterWorld({"console": {"masks": [MASK], "clusters": []}})
        world.settle_through_kills(writes)
        assert stated(world) == ("True", "Serving")
        names = {metadata(one)["name"] for one in world.objects.list(CONFIG_MAPS, "default")}
        assert "events-console" in names
