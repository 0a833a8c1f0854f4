"""Ingresses, TLSRoutes and the status of a rebalance on a real API server, with the rights that the chart gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from odradek.client.admin.balance_plans import plan_balance
from odradek.client.admin.balance_values import BalancedBroker, ClusterLoad, PartitionLoad
from odradek.foundation.ids import TopicPartition
from odradek_operator.foundation.keys import Key
from odradek_operator.gateways.api_server import ApiServerGateway
from odradek_operator.gateways.balancing import PlannedBalance
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    INGRESSES,
    TLS_ROUTES,
    Json,
    KubernetesError,
    Refused,
)
from odradek_operator.reconcilers.cluster.scaling.balancing import with_plan
from odradek_operator.resources.balance import BalanceState, BalanceStatus
from odradek_operator.resources.structure import render
from tests.operator.support.chart_rights import NOW, OPERATOR_ACCOUNT, cluster_reconciler, grant_rights
from tests.operator.support.gateway import gateway_to
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.polling import eventually
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

INGRESS: Json = {
    "name": "web",
    "type": "Ingress",
    "port": 9095,
    "tls": True,
    "ingressClassName": "nginx",
    "bootstrapHost": "kafka.example.org",
    "advertisedHost": "broker-{broker}.example.org",
}
ROUTE: Json = {
    "name": "gate",
    "type": "TLSRoute",
    "port": 9096,
    "tls": True,
    "bootstrapHost": "kafka.example.net",
    "advertisedHost": "broker-{broker}.example.net",
    "parentRefs": [{"name": "edge", "sectionName": "kafka"}],
}
SPEC: Json = {
    "image": "odradek:0.1.0",
    "zookeeper": {"servers": {"replicas": 1}},
    "brokers": {"replicas": 2},
    "listeners": [INGRESS, ROUTE],
}


def route_definition() -> str:
    """A definition of TLSRoutes with the fields that are used here, in an early version of theirs."""
    open_object: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    texts = {"type": "array", "items": {"type": "string"}}
    spec = {
        "type": "object",
        "properties": {
            "parentRefs": {"type": "array", "items": open_object},
            "hostnames": texts,
            "rules": {"type": "array", "items": open_object},
        },
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": open_object}}
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    group = "gateway.networking.k8s.io"
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/1"}
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"tlsroutes.{group}", "annotations": approved},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "TLSRoute", "plural": "tlsroutes", "singular": "tlsroute"},
                "versions": [version],
            },
        }
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        grant_rights(running, "list statefulsets.apps", "patch secrets", "list ingresses.networking.k8s.io")
        yield running


async def body_of(kubernetes: ApiServerGateway, name: str) -> Json:
    body = await kubernetes.get(CLUSTERS, "odradek", name)
    assert body is not None
    return body


def stated(body: Json, type: str) -> Json:
    conditions: list[Json] = body["status"]["conditions"]
    return next((one for one in conditions if one["type"] == type), {})


@in_real_time
async def test_routes_are_made_once_their_definition_is_there(
    server: ApiServer,
) -> None:
    routes = TLS_ROUTES._replace(group_version="gateway.networking.k8s.io/v1alpha2")
    async with (
        gateway_to(server.url, token=TOKEN) as person,
        gateway_to(server.url, token=TOKEN, account=OPERATOR_ACCOUNT) as kubernetes,
    ):
        await person.create(manifest(CLUSTERS, "events", SPEC, namespace="odradek"))
        key, first = Key("Cluster", "odradek", "events"), cluster_reconciler(kubernetes)
        assert await first.reconcile(key) is not None
        listeners = stated(await body_of(person, "events"), "Listeners")
        assert (listeners["status"], listeners["reason"]) == ("False", "NoGatewayApi")
        assert len(await person.list(INGRESSES, "odradek")) == 3
        await asyncio.to_thread(server.kubectl, "apply", "--filename", "-", given=route_definition())
        await asyncio.to_thread(
            server.kubectl,
            *(
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                "crd/tlsroutes.gateway.networking.k8s.io",
            ),
        )
        await eventually(
            "TLSRoutes are served",
            partial(person.list, routes, "odradek"),
            lambda found: found == [],
            not_yet=KubernetesError,
        )
        await first.reconcile(key)
        assert len(await person.list(routes, "odradek")) == 3
        body = await body_of(person, "events")
        assert stated(body, "Listeners") == {}
        assert body["status"]["listeners"][1]["brokers"][1] == "broker-1.example.net:443"

        async def versions() -> set[str]:
            found = [*await person.list(routes, "odradek"), *await person.list(INGRESSES, "odradek")]
            return {one["metadata"]["resourceVersion"] for one in found}

        # A new operator applies all of it once, and nothing becomes newer by that.
        before = await versions()
        await cluster_reconciler(kubernetes).reconcile(key)
        assert await versions() == before
        body["spec"]["listeners"] = []
        await person.replace({**body, "metadata": (await body_of(person, "events"))["metadata"]})
        await first.reconcile(key)
        assert await versions() == set()
        await person.delete(CLUSTERS, "odradek", "events")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls": False}, "set tls to true"),
        ({"bootstrapHost": None}, "needs bootstrapHost"),
        ({"bootstrapHost": "kafka-{broker}.example.org"}, "needs bootstrapHost"),
        ({"advertisedHost": None}, "needs advertisedHost"),
        ({"advertisedHost": "kafka.example.org"}, "needs advertisedHost"),
        ({"parentRefs": [{"name": "edge"}]}, "parentRefs names the gateways"),
        ({"type": "TLSRoute", "ingressClassName": None}, "parentRefs names the gateways"),
        ({"type": "LoadBalancer"}, "bootstrapHost is for type Ingress or TLSRoute"),
    ],
)
@in_real_time
async def test_the_definition_says_what_they_need(server: ApiServer, change: Json, message: str) -> None:
    given = {key: value for key, value in (INGRESS | change).items() if value is not None}
    async with gateway_to(server.url, token=TOKEN) as person:
        with pytest.raises(Refused, match=message):
            await person.create(
                manifest(CLUSTERS, "wrong", SPEC | {"listeners": [given]}, namespace="odradek")
            )


@in_real_time
async def test_the_status_of_a_rebalance_is_kept_whole(server: ApiServer) -> None:
    partitions: dict[TopicPartition, Any] = {
        TopicPartition("orders", number): PartitionLoad(replicas=(0,), size_bytes=1 << 40)
        for number in range(9)
    }
    load = ClusterLoad(brokers=dict.fromkeys(range(3), BalancedBroker()), partitions=partitions)
    planned = PlannedBalance(load=load, plan=plan_balance(load))
    balance = with_plan(BalanceStatus(state=BalanceState.PLANNED, plan_request="monday"), planned, NOW)
    async with gateway_to(server.url, token=TOKEN) as person:
        spec = {**SPEC, "balance": {"mode": "Auto", "intervalMinutes": 5}}
        body = await person.create(manifest(CLUSTERS, "levelled", spec, namespace="odradek"))
        assert (
            body["spec"]["balance"]["suspend"] is False and body["spec"]["balance"]["tolerancePercent"] == 5
        )
        written = await person.set_status(CLUSTERS, body, {"balance": render(balance)})
        assert written["status"]["balance"] == render(balance)
        assert len(written["status"]["balance"]["moves"]) == 6
        await person.delete(CLUSTERS, "odradek", "levelled")
