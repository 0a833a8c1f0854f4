"""A real broker and an API server in memory, with reconcilers between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.metrics import ConditionBook
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import CONSUMER_GROUPS, TOPICS, USERS, Api, Json
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.consumer_group.reconciler import ConsumerGroupReconciler
from odradek_operator.reconcilers.reconciler import Environment
from odradek_operator.reconcilers.topic.reconciler import TopicReconciler
from odradek_operator.reconcilers.user.reconciler import UserReconciler
from tests.operator.support.kubernetes import MemoryKubernetes
from tests.support.broker_process import Broker, free_port

T = TypeVar("T")
NAMESPACE = "shop"


class Brokers(Protocol):
    """A cluster whose admin port is known, that of its only broker."""

    admin_port: int

    @property
    def bootstrap(self) -> str: ...


class BrokerWithAdmin(Broker):
    """A broker process whose admin port is known."""

    def __init__(self, folder: Path) -> None:
        self.admin_port = free_port()
        super().__init__(
            folder,
            settings={"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"},
            arguments=["--admin", f"127.0.0.1:{self.admin_port}"],
        )


class BrokerWorld:
    """A broker and Kubernetes for an operator that may be killed; `restart_operator` forgets all that it remembers."""

    def __init__(self, broker: Brokers) -> None:
        self.broker = broker
        self.kubernetes = MemoryKubernetes()
        self.clients = BrokerClients()
        self.now = datetime(2026, 1, 2, 0, 1, tzinfo=UTC)  # a minute after what is deleted was
        self.woken: list[Key] = []
        self.bootstrap = broker.bootstrap
        self.record_times = RecordTimes(lambda _: f"127.0.0.1:{broker.admin_port}")
        self.restart_operator()

    def restart_operator(self) -> None:
        self.environment = Environment(
            kubernetes=self.kubernetes,
            conditions=ConditionBook(),
            wake=lambda key, after_seconds=0.0: self.woken.append(key),
            now=lambda: self.now,
        )
        self.topics = TopicReconciler(
            self.environment, brokers=self.clients, bootstrap=lambda _: self.bootstrap
        )
        self.groups = ConsumerGroupReconciler(
            self.environment,
            brokers=self.clients,
            record_times=self.record_times,
            bootstrap=lambda _: self.bootstrap,
        )

        self.users = UserReconciler(
            self.environment, brokers=self.clients, bootstrap=lambda _: self.bootstrap
        )

    async def close(self) -> None:
        await self.clients.close()
        await self.record_times.close()

    def cluster(self, name: str = "main") -> None:
        self.kubernetes.objects.create(
            {
                "apiVersion": "odradek.io/v1",
                "kind": "Cluster",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {},
            }
        )

    def make(self, api: Api, name: str, /, created: str | None = None, **spec: Any) -> None:
        body = {
            "apiVersion": "odradek.io/v1",
            "kind": api.kind,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"cluster": "main", **spec},
        }
        self.kubernetes.objects.create(body)
        if created is not None:
            self.kubernetes.objects.merge(api, NAMESPACE, name, {"metadata": {"creationTimestamp": created}})

    def edit(self, api: Api, name: str, /, **spec: Any) -> None:
        self.kubernetes.objects.merge(api, NAMESPACE, name, {"spec": spec})

    def delete(self, api: Api, name: str) -> None:
        self.kubernetes.objects.delete(api, NAMESPACE, name, uid=None, orphan=False)

    def body(self, api: Api, name: str) -> Json:
        found = self.kubernetes.objects.get(api, NAMESPACE, name)
        assert found is not None, f"{api.kind} {name} is gone"
        return found

    def is_there(self, api: Api, name: str) -> bool:
        return self.kubernetes.objects.get(api, NAMESPACE, name) is not None

    def ready(self, api: Api, name: str) -> tuple[str, str]:
        return self.condition(api, name, "Ready")

    def condition(self, api: Api, name: str, type: str) -> tuple[str, str]:
        (found,) = [one for one in self.body(api, name)["status"]["conditions"] if one["type"] == type]
        return found["status"], found["reason"]

    async def topic(self, name: str) -> float | None:
        return await self.topics.reconcile(Key(TOPICS.kind, NAMESPACE, name))

    async def user(self, name: str) -> float | None:
        return await self.users.reconcile(Key(USERS.kind, NAMESPACE, name))

    async def group(self, name: str) -> float | None:
        return await self.groups.reconcile(Key(CONSUMER_GROUPS.kind, NAMESPACE, name))

    @asynccontextmanager
    async def admin(self) -> Any:
        async with Client(self.broker.bootstrap) as client:
            yield Admin(client)


def in_world(broker: Brokers, story: Callable[[BrokerWorld], Awaitable[T]]) -> T:
    async def run() -> T:
        world = BrokerWorld(broker)
        world.cluster()
        try:
            return await story(world)
        finally:
            await world.close()

    return asyncio.run(run())


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithAdmin]:
    """A started broker with an admin port, for all tests that import this; each uses topics and groups of its own."""
    made = BrokerWithAdmin(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()
