"""A real broker and Kubernetes in memory, with reconcilers between them."""

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
from odradek_operator.desired.names import CLUSTER_LABEL
from odradek_operator.gateways.brokers import BrokerClients
from odradek_operator.gateways.kubernetes import (
    CLUSTERS,
    CONFIG_MAPS,
    CONSUMER_GROUPS,
    TOPICS,
    USERS,
    VOLUME_CLAIMS,
    Api,
    Json,
)
from odradek_operator.gateways.record_times import RecordTimes
from odradek_operator.reconcilers.consumer_group.run import group_kind
from odradek_operator.reconcilers.declared import list_owners, parse_record, record_name
from odradek_operator.reconcilers.reconciler import Environment
from odradek_operator.reconcilers.rounds import make_reconciler
from odradek_operator.reconcilers.topic.run import TOPIC_KIND
from odradek_operator.reconcilers.user.run import USER_KIND
from tests.operator.support.world import OperatorWorld
from tests.support.broker_process import Broker, free_port
from tests.support.told_with import told_with

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


class BrokerWorld(OperatorWorld):
    """Topics, ConsumerGroups and Users of the Cluster `main`."""

    namespace = NAMESPACE
    former: Json

    def __init__(self, broker: Brokers) -> None:
        super().__init__()
        self.broker = broker
        self.clients = BrokerClients()
        self.now = datetime(2026, 1, 2, 0, 1, tzinfo=UTC)  # a minute after what is deleted was
        self.bootstrap = broker.bootstrap
        self.record_times = RecordTimes(lambda _: f"127.0.0.1:{broker.admin_port}")
        self.restart_operator()

    async def prepare(self) -> None:
        """What is there when a story begins."""
        self.create(CLUSTERS, "main", {})

    def delete_cluster(self) -> None:
        """Delete the Cluster. A volume claim stays, and with it the record of what goes with its resource."""
        self.former = self.body(CLUSTERS, "main")
        if self.get(VOLUME_CLAIMS, "data-main-broker-0") is None:
            self.create(VOLUME_CLAIMS, "data-main-broker-0", labels={CLUSTER_LABEL: "main"})
        owners = list_owners(self.former, [self.body(VOLUME_CLAIMS, "data-main-broker-0")])
        for record in self.objects.list(CONFIG_MAPS, self.namespace):
            self.merge(CONFIG_MAPS, record["metadata"]["name"], {"metadata": {"ownerReferences": owners}})
        self.delete(CLUSTERS, "main")

    def make_cluster_again(self) -> None:
        """Apply the Cluster that was deleted again, on the volume that it has left."""
        self.create(CLUSTERS, "main", self.former.get("spec"), status=self.former.get("status"))

    def entries(self, api: Api) -> set[str]:
        """The resources in the record of what goes with its resource."""
        body = self.get(CONFIG_MAPS, record_name("main", api))
        record = None if body is None else parse_record(body)
        return set() if record is None else {one.resource for one in record.entries.values()}

    def begin(self, environment: Environment) -> None:
        to: dict[str, Any] = {"brokers": self.clients, "bootstrap": lambda _: self.bootstrap}
        self.topics = make_reconciler(environment, TOPIC_KIND, **to)
        self.groups = make_reconciler(environment, group_kind(self.record_times), **to)
        self.users = make_reconciler(environment, USER_KIND, **to)

    async def close(self) -> None:
        await self.clients.close()
        await self.record_times.close()

    def make(self, api: Api, name: str, /, created: str | None = None, **spec: Any) -> None:
        self.create(api, name, {"cluster": "main", **spec})
        if created is not None:
            self.merge(api, name, {"metadata": {"creationTimestamp": created}})

    def edit(self, api: Api, name: str, /, **spec: Any) -> None:
        self.merge(api, name, {"spec": spec})

    def is_there(self, api: Api, name: str) -> bool:
        return self.get(api, name) is not None

    def ready(self, api: Api, name: str) -> tuple[str, str]:
        return self.condition(api, name, "Ready")

    def condition(self, api: Api, name: str, type: str) -> tuple[str, str]:
        found = self.stated(api, name, type)
        return found["status"], found["reason"]

    async def topic(self, name: str) -> float | None:
        return await self.topics.reconcile(self.key(TOPICS, name))

    async def user(self, name: str) -> float | None:
        return await self.users.reconcile(self.key(USERS, name))

    async def group(self, name: str) -> float | None:
        return await self.groups.reconcile(self.key(CONSUMER_GROUPS, name))

    @asynccontextmanager
    async def admin(self) -> Any:
        async with Client(self.broker.bootstrap) as client:
            yield Admin(client)


def play(broker: Brokers, story: Callable[[Any], Awaitable[T]], kind: type[BrokerWorld] = BrokerWorld) -> T:
    """Run a story in a world around this broker."""

    async def run() -> T:
        world = kind(broker)
        await world.prepare()
        try:
            return await story(world)
        finally:
            await world.close()

    return asyncio.run(run())


def in_world(kind: type[BrokerWorld] = BrokerWorld, *, of: str = "broker") -> Callable[[Any], Any]:
    """A test in a world of this kind, which is its first argument, around the broker of the fixture `of`."""
    return told_with(lambda story, broker: play(broker, story, kind), of)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerWithAdmin]:
    """A started broker with an admin port, for all tests that import this; each uses topics and groups of its own."""
    made = BrokerWithAdmin(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.close()
