"""Pools of brokers on a real API server: what their definition refuses, and sets whose numbers begin above 0."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.foundation.settings import OperatorSettings
from odradek_operator.gateways.kubernetes import CLUSTERS, STATEFUL_SETS, Json, Refused
from odradek_operator.reconcilers.cluster.reconciler import ClusterReconciler
from odradek_operator.reconcilers.reconciler import Environment
from tests.operator.support.cluster_admin import Brokers
from tests.operator.support.gateway import gateway_to
from tests.operator.support.objects import Objects
from tests.operator.support.world import manifest
from tests.support.kubernetes_api import TOKEN, ApiServer, running_api_server
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.integration, pytest.mark.thorough]

FAST: Json = {"name": "fast", "firstId": 1000, "replicas": 2, "storage": {"size": "50Gi", "class": "nvme"}}
SPEC: Json = {"image": "odradek:0.1.0", "zookeeper": {"servers": {"replicas": 1}}}
MANY_REPLICAS = {"config": {"default.replication.factor": 5}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running_api_server(tmp_path_factory.mktemp("api-server")) as running:
        running.install_definitions()
        yield running


@in_real_time
async def test_a_set_of_a_pool_is_taken_and_nothing_is_written_twice(server: ApiServer) -> None:
    async with gateway_to(server.url, token=TOKEN) as kubernetes:
        brokers = {"replicas": 3, "pools": [FAST], **MANY_REPLICAS}
        await kubernetes.create(manifest(CLUSTERS, "pooled", {**SPEC, "brokers": brokers}))
        environment = Environment(
            kubernetes=kubernetes,
            conditions=ConditionBook(),
            wake=lambda *_, **__: None,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        key = Key("Cluster", "default", "pooled")

        async def versions() -> dict[str, str]:
            found = await kubernetes.list(STATEFUL_SETS, "default")
            return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in found}

        for _ in range(2):
            admin = Brokers(Objects(), cluster="pooled")
            await ClusterReconciler(environment, admin=admin, settings=OperatorSettings()).reconcile(key)
        before = await versions()
        assert {"pooled-broker", "pooled-broker-fast"} <= before.keys()
        made = await kubernetes.get(STATEFUL_SETS, "default", "pooled-broker-fast")
        assert made is not None and made["spec"]["ordinals"] == {"start": 1000}
        body = await kubernetes.get(CLUSTERS, "default", "pooled")
        assert body is not None
        assert [one["name"] for one in body["status"]["pools"]] == ["", "fast"]
        admin = Brokers(Objects(), cluster="pooled")
        await ClusterReconciler(environment, admin=admin, settings=OperatorSettings()).reconcile(key)
        assert await versions() == before
        for change, message in (
            ({"firstId": 2000}, "firstId of a pool cannot change"),
            ({"storage": {"size": "50Gi", "class": "slow"}}, "storage.class of a pool cannot change"),
            ({"name": "other", "firstId": 1001}, "numbers of one that is taken away"),
            ({"storage": {"size": "40Gi", "class": "nvme"}}, "volumes can grow, not shrink"),
        ):
            body["spec"]["brokers"]["pools"] = [{**FAST, **change}]
            with pytest.raises(Refused, match=message):
                await kubernetes.replace(body)
        await kubernetes.delete(CLUSTERS, "default", "pooled")


@pytest.mark.parametrize(
    ("brokers", "message"),
    [
        ({"pools": [FAST, {**FAST, "name": "slow", "firstId": 1100}]}, "128 apart at least"),
        ({"pools": [{**FAST, "firstId": 100}]}, "should be greater than or equal to 128"),
        ({"pools": [{**FAST, "name": "fast-1"}]}, "ends with a letter"),
        ({"replicas": 0}, "a Cluster has 1 to 128 brokers"),
        ({"replicas": 127, "pools": [FAST]}, "a Cluster has 1 to 128 brokers"),
        ({"replicas": 2, "pools": [FAST], **MANY_REPLICAS}, "must not be above the number of brokers"),
    ],
)
@in_real_time
async def test_the_definition_refuses_pools_that_collide(
    server: ApiServer, brokers: Json, message: str
) -> None:
    async with gateway_to(server.url, token=TOKEN) as kubernetes:
        with pytest.raises(Refused, match=message):
            await kubernetes.create(manifest(CLUSTERS, "wrong", {**SPEC, "brokers": brokers}))
