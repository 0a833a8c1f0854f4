"""The console of a Cluster on a real API server, with the rights that the chart gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NETWORK_POLICIES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    USERS,
    Json,
    Refused,
    metadata,
)
from tests.operator.support.chart_rights import OPERATOR_ACCOUNT, cluster_reconciler, grant_rights
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

KINDS = (SERVICE_ACCOUNTS, NETWORK_POLICIES, SERVICES, DEPLOYMENTS)
NAME = "events-console"
LOGIN: Json = {"authentication": {"type": "scram-sha-512"}}
SPEC: Json = {
    "image": "odradek:0.1.0",
    "zookeeper": {"servers": {"replicas": 1}},
    "brokers": {"replicas": 1},
    "console": {
        "allowedHosts": ["console.example.org"],
        "clients": [{"podSelector": {"matchLabels": {"app": "ingress"}}}],
        "pod": {"tolerations": [{"operator": "Exists"}]},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        grant_rights(running, "list statefulsets.apps", "patch deployments.apps", "get users.odradek.io")
        yield running


async def change(person: ApiServerGateway, console: Json | None) -> None:
    body = await cluster(person)
    body["spec"] = {key: value for key, value in body["spec"].items() if key != "console"}
    await person.replace(body if console is None else {**body, "spec": {**body["spec"], "console": console}})


async def cluster(person: ApiServerGateway) -> Json:
    body = await person.get(CLUSTERS, "odradek", "events")
    assert body is not None
    return body


def reason(body: Json) -> str:
    found = [one["reason"] for one in body["status"]["conditions"] if one["type"] == "Console"]
    return str(found[0]) if found else ""


@in_real_time
async def test_a_console_is_made_with_the_charts_rights_and_goes(server: ApiServer) -> None:
    async with (
        gateway_to(server.url, token=TOKEN) as person,
        gateway_to(server.url, token=TOKEN, account=OPERATOR_ACCOUNT) as kubernetes,
    ):
        await person.create(manifest(CLUSTERS, "events", SPEC, namespace="odradek"))
        key, operator = Key("Cluster", "odradek", "events"), cluster_reconciler(kubernetes)
        await operator.reconcile(key)

        async def versions() -> list[str | None]:
            found = [await person.get(api, "odradek", NAME) for api in KINDS]
            return [None if one is None else metadata(one)["resourceVersion"] for one in found]

        before = await versions()
        assert None not in before
        body = await cluster(person)
        # No controller makes pods here.
        assert reason(body) == "Starting"
        assert body["status"]["console"] == f"http://{NAME}.odradek.svc.cluster.local"
        # A new operator applies all of it once, and nothing becomes newer by that.
        await cluster_reconciler(kubernetes).reconcile(key)
        assert await versions() == before
        await change(person, None)
        await operator.reconcile(key)
        await operator.reconcile(key)
        assert await versions() == [None] * len(KINDS)
        assert reason(await cluster(person)) == ""
        await person.delete(CLUSTERS, "odradek", "events")
        for api in (STATEFUL_SETS, DEPLOYMENTS):
            for one in await person.list(api, "odradek", labels={"odradek.io/cluster": "events"}):
                await person.delete(api, "odradek", metadata(one)["name"])


@in_real_time
async def test_a_console_of_several_clusters_is_made_with_the_charts_rights(server: ApiServer) -> None:
    """A Secret of its owner's own is seen to change where its label lets the operator see that."""
    console = {
        "clusters": [
            {"name": "Old.Kafka", "bootstrap": "kafka:9092", "clientSecret": "old-kafka"},
            {"name": "away", "cluster": "away"},
        ],
        "schemaRegistry": {"url": "https://registry.example", "secretName": "registry"},
        "masks": [{"topics": ["payments-*"], "value": ["$.card.number", "iban"]}],
        "logins": {
            "url": "https://console.example",
            "openIdConnect": {
                "issuer": "https://id.example",
                "clientId": "console",
                "clientSecret": {"valueFrom": {"secretKeyRef": {"name": "provider", "key": "secret"}}},
            },
        },
    }
    async with (
        gateway_to(server.url, token=TOKEN) as person,
        gateway_to(server.url, token=TOKEN, account=OPERATOR_ACCOUNT) as kubernetes,
    ):
        for name, labels in (
            ("old-kafka", {"odradek.io/password": "true"}),
            ("registry", {}),
            ("provider", {}),
        ):
            await person.create(manifest(SECRETS, name, namespace="odradek", labels=labels))
        body = manifest(
            CLUSTERS, "many", {**SPEC, "internalListener": LOGIN, "console": console}, namespace="odradek"
        )
        await person.create(body)
        key, operator = Key("Cluster", "odradek", "many"), cluster_reconciler(kubernetes)

        async def settings_of_pod() -> str:
            await operator.reconcile(key)
            made = await person.get(DEPLOYMENTS, "odradek", "many-console")
            assert made is not None, (await person.get(CLUSTERS, "odradek", "many") or {}).get("status")
            return str(made["spec"]["template"]["metadata"]["annotations"]["odradek.io/settings"])

        first = await settings_of_pod()
        assert await settings_of_pod() == first
        file = await person.get(CONFIG_MAPS, "odradek", "many-console")
        assert file is not None and "Old.Kafka.properties" in file["data"]
        found = await person.get(CLUSTERS, "odradek", "many")
        assert found is not None and reason(found) == "Starting"
        assert "away (there is no Cluster away in the namespace odradek" in str(found["status"]["conditions"])
        await person.merge(SECRETS, "odradek", "old-kafka", {"stringData": {"client.properties": "x"}})
        assert await settings_of_pod() != first
        await person.delete(CLUSTERS, "odradek", "many")


@in_real_time
async def test_what_the_api_server_refuses_of_it_holds_no_broker_up(server: ApiServer) -> None:
    async with (
        gateway_to(server.url, token=TOKEN) as person,
        gateway_to(server.url, token=TOKEN, account=OPERATOR_ACCOUNT) as kubernetes,
    ):
        broken = {"pod": {"sidecars": [{"name": "proxy"}]}}
        await person.create(manifest(CLUSTERS, "odd", {**SPEC, "console": broken}, namespace="odradek"))
        await cluster_reconciler(kubernetes).reconcile(Key("Cluster", "odradek", "odd"))
        body = await person.get(CLUSTERS, "odradek", "odd")
        assert body is not None and reason(body) == "Refused"
        assert "image: Required value" in str(body["status"]["conditions"])
        assert await person.get(STATEFUL_SETS, "odradek", "odd-broker") is not None
        assert await person.get(SERVICES, "odradek", "odd-console") is None
        await person.delete(CLUSTERS, "odradek", "odd")


@in_real_time
async def test_the_definition_says_what_a_console_needs(server: ApiServer) -> None:
    async with gateway_to(server.url, token=TOKEN) as person:
        wrong = {**SPEC, "internalListener": LOGIN, "console": {}}
        with pytest.raises(Refused, match=r"give console\.user, a User of this Cluster"):
            await person.create(manifest(CLUSTERS, "wrong", wrong, namespace="odradek"))
        for console, message in (
            ({"allowedHosts": ["http://a.example"]}, "allowedHosts"),
            ({"user": "No Name"}, "user"),
        ):
            with pytest.raises(Refused, match=message):
                await person.create(manifest(CLUSTERS, "wrong", {**SPEC, "console": console}))
        named = await person.create(
            manifest(CLUSTERS, "named", {**wrong, "console": {"user": "viewer"}}, namespace="odradek")
        )
        assert named["spec"]["console"]["allowChanges"] is False
        assert named["spec"]["console"]["resources"]["limits"] == {"memory": "512Mi"}
        in_clear = {**SPEC, "internalListener": {"tls": True}, "console": {}}
        await person.create(manifest(CLUSTERS, "open", in_clear, namespace="odradek"))
        for name in ("named", "open"):
            await person.delete(CLUSTERS, "odradek", name)
        assert await person.list(USERS, "odradek") == []
