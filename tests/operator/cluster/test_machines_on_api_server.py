"""Pods of several brokers on a real API server: what their definition refuses, and objects that are written once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, SERVICES, STATEFUL_SETS, Json, Refused
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.cluster.test_pools_on_api_server import SPEC
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.gateway import gateway_to
from tests.operator.support.objects import Objects
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.thorough]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        yield running


def listener(**fields: object) -> Json:
    return {"name": "out", "type": "LoadBalancer", "port": 9094, **fields}


@in_real_time
async def test_pods_of_several_brokers_are_taken_and_nothing_is_written_twice(server: ApiServer) -> None:
    async with gateway_to(server.url, token=TOKEN) as kubernetes:
        spec = {**SPEC, "brokers": {"replicas": 3, "processes": 2}, "listeners": [listener()]}
        await kubernetes.create(manifest(CLUSTERS, "machines", spec))
        environment = Environment(
            kubernetes=kubernetes,
            conditions=ConditionBook(),
            wake=lambda *_, **__: None,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        key = Key("Cluster", "default", "machines")

        async def reconcile() -> dict[str, str]:
            admin = Brokers(Objects(), cluster="machines")
            await ClusterReconciler(environment, admin=admin, settings=OperatorSettings()).reconcile(key)
            kinds = (STATEFUL_SETS, SERVICES)
            found = [one for kind in kinds for one in await kubernetes.list(kind, "default")]
            return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}

        await reconcile()
        before = await reconcile()
        assert await reconcile() == before
        service = await kubernetes.get(SERVICES, "default", "machines-out-1")
        assert service is not None
        assert [one["port"] for one in service["spec"]["ports"]] == [9094, 9194, 9294]
        body = await kubernetes.get(CLUSTERS, "default", "machines")
        assert body is not None
        body["spec"]["brokers"]["processes"] = 1
        with pytest.raises(Refused, match="processes cannot be lowered"):
            await kubernetes.replace(body)
        body["spec"]["brokers"]["processes"] = 4
        await kubernetes.replace(body)


@pytest.mark.parametrize(
    ("brokers", "listeners", "message"),
    [
        ({"processes": 2}, [listener(type="NodePort")], "each broker of a pod has a port of its own"),
        ({"processes": 2}, [listener(port=9144)], "the last two digits of listeners' ports must differ"),
        (
            {"processes": 2},
            [listener(), listener(name="in", port=9194)],
            "the last two digits of listeners' ports must differ",
        ),
        ({"processes": 65}, [], "less than or equal to 64"),
        ({"config": {"broker.processes": "2"}}, [], "broker.processes"),
    ],
)
@in_real_time
async def test_the_definition_refuses_brokers_that_cannot_be_reached(
    server: ApiServer, brokers: Json, listeners: list[Json], message: str
) -> None:
    async with gateway_to(server.url, token=TOKEN) as kubernetes:
        spec = {**SPEC, "brokers": {"replicas": 3, **brokers}, "listeners": listeners}
        with pytest.raises(Refused, match=message):
            await kubernetes.create(manifest(CLUSTERS, "refused", spec))
