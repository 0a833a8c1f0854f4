"""A whole cluster without processes: controllers and brokers of the product in one loop, on virtual time.

Registry, network and disks are in memory and outlive the processes that use them, so that a process can be killed and
started again. Requests go through a client's connection to a broker's listener. Use it under `tests.support.loop.run`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.cluster_control import ClusterControl
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.image.image import ClusterImage
from odradek.network.outbound import OutboundConnection
from odradek.server.controller.controller_process import ControllerProcess
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from tests.support.disk import SimulatedDisk
from tests.support.field_names import check_field_names
from tests.support.loop import LoopClock, stop_at_end
from tests.support.memory_registry import MemoryRegistry, MemoryStore
from tests.support.network import MemoryNetwork
from tests.support.polling import eventually
from tests.support.rights import committed
from tests.support.whole_broker import batch

SESSION_SECONDS = 6.0
PORT = 9092

ClusterBroker = BrokerProcess[ClusterControl]


class WholeCluster:
    """Make it with `await WholeCluster.start(...)`. It stops when the story has passed."""

    def __init__(self, entries: dict[str, str], seed: int) -> None:
        check_field_names()
        self.entries = entries
        self.broker_entries: dict[str, str] = {}
        """Those of brokers only."""
        self.more_listeners: dict[str, int] = {}
        """Ports of brokers' listeners besides the one for everybody, by name."""
        self.chance = random.Random(seed)
        self.registry = MemoryRegistry()
        self.make_store: Callable[..., MemoryStore] = MemoryStore
        """Makes the sessions of the processes that start from now on."""
        self.network = MemoryNetwork(self.chance)
        self.disks: dict[int, SimulatedDisk] = {}
        self.stores: dict[str, MemoryStore] = {}
        self.controllers: dict[int, ControllerProcess] = {}
        self.brokers: dict[int, ClusterBroker] = {}
        self.refused: list[str] = []
        self._clients: dict[int, OutboundConnection] = {}
        self._starts: dict[int, int] = {}
        self._dead: list[object] = []

    @classmethod
    async def start(
        cls,
        *,
        brokers: int = 3,
        controllers: int = 2,
        entries: dict[str, str] | None = None,
        seed: int = 1,
    ) -> WholeCluster:
        cluster = cls(entries or {}, seed)
        stop_at_end(cluster.stop)
        for number in range(controllers):
            await cluster.start_controller(100 + number)
        for number in range(1, brokers + 1):
            await cluster.start_broker(number)
        return cluster

    async def stop(self) -> None:
        """Everything in order, brokers first."""
        for client in list(self._clients.values()):
            await client.close()
        for broker_id in list(self.brokers):
            await self.brokers.pop(broker_id).stop()
        for controller_id in list(self.controllers):
            await self.controllers.pop(controller_id).stop()

    def host(self, number: int) -> str:
        """Where a broker or controller runs; another host for each start, as in Kubernetes."""
        return f"node-{number}-{self._starts[number]}.test"

    def _new_host(self, number: int) -> str:
        self._starts[number] = self._starts.get(number, 0) + 1
        return self.host(number)

    # --- processes -----------------------------------------------------------------------------------------------

    def _parts(self, host: str) -> dict[str, Any]:
        store = self.make_store(self.registry, session_timeout_seconds=SESSION_SECONDS)
        self.stores[host] = store
        return {
            "store": store,
            "clock": LoopClock(),
            "network": self.network.at(host),
            "rng": random.Random(self.chance.getrandbits(64)),
        }

    async def start_controller(self, controller_id: int, *, in_place: bool = False) -> ControllerProcess:
        """With `in_place` where it was killed, as a container in its pod."""
        host = self.host(controller_id) if in_place else self._new_host(controller_id)
        listeners = f"PLAINTEXT://{host}:9093"
        settings = Settings({"node.id": str(controller_id), "listeners": listeners, **self.entries})
        controller = ControllerProcess(settings, **self._parts(host))
        await controller.start()
        self.controllers[controller_id] = controller
        return controller

    async def start_broker(self, broker_id: int, **entries: str) -> ClusterBroker:
        broker = self.make_broker(broker_id, **entries)
        await broker.start()
        self.brokers[broker_id] = broker
        return broker

    def make_broker(self, broker_id: int, **entries: str) -> ClusterBroker:
        host = self._new_host(broker_id)
        settings = Settings(
            {
                "node.id": str(broker_id),
                "log.dirs": "/logs",
                "listeners": ",".join(
                    f"{name}://{host}:{port}"
                    for name, port in {"PLAINTEXT": PORT, **self.more_listeners}.items()
                ),
                **self.entries,
                **self.broker_entries,
                **{key.replace("_", "."): text for key, text in entries.items()},
            }
        )
        disk = self.disks.setdefault(broker_id, SimulatedDisk())
        parts = self._parts(host)
        control = ClusterControl(store=parts.pop("store"), on_fatal=partial(self.on_refused, broker_id))
        return BrokerProcess(settings, control=control, disk=disk, **parts)

    def on_refused(self, broker_id: int, reason: str) -> None:
        """A broker says why it must end."""
        self.refused.append(reason)

    async def stop_broker(self, broker_id: int) -> None:
        await self._forget_client(broker_id)
        await self.brokers.pop(broker_id).stop()

    async def kill_broker(self, broker_id: int, *, expire: bool = True, is_dark: bool = False) -> None:
        """As kill -9; what was written is in the page cache, and the next start's. With `expire` the session expires at
        once. With `is_dark` the machine is gone too, so that its address refuses nothing.
        """
        await self._forget_client(broker_id)
        broker = self.brokers.pop(broker_id)
        self.disks[broker_id] = copy.deepcopy(self.disks[broker_id])
        self.disks[broker_id].kill()
        self._kill(self.host(broker_id), broker, expire=expire, is_dark=is_dark)

    def kill_controller(self, controller_id: int, *, expire: bool = True) -> None:
        """As kill -9, and with `expire` the session's expiry at once."""
        self._kill(self.host(controller_id), self.controllers.pop(controller_id), expire=expire)

    async def kill_all(self) -> None:
        """As kill -9 of all processes at once; the registry has their sessions until the timeout."""
        for broker_id in list(self.brokers):
            await self._forget_client(broker_id)
            broker = self.brokers.pop(broker_id)
            self.disks[broker_id] = copy.deepcopy(self.disks[broker_id])
            self.disks[broker_id].kill()
            self._cut_off(self.host(broker_id), broker)
            self.network.isolate(self.host(broker_id))
        for controller_id in list(self.controllers):
            self._cut_off(self.host(controller_id), self.controllers.pop(controller_id))

    def _cut_off(self, host: str, process: object) -> None:
        self.stores.pop(host).sever()
        self.network.reset(host)
        self.network.stop_listening(host)
        self._dead.append(process)

    def _kill(self, host: str, process: object, *, expire: bool, is_dark: bool = False) -> None:
        """A process cannot be killed at any point here: the rest of it is isolated from everything for ever."""
        store = self.stores.pop(host)
        store.sever()
        if expire:
            store.expire()
        self.network.reset(host)
        self.network.isolate(host, is_dark=is_dark)
        self._dead.append(process)

    async def _forget_client(self, broker_id: int) -> None:
        client = self._clients.pop(broker_id, None)
        if client is not None:
            await client.close()

    # --- looking -------------------------------------------------------------------------------------------------

    @property
    def active(self) -> ControllerProcess | None:
        """The controller that decides."""
        return next((one for one in self.controllers.values() if one.is_active), None)

    async def until(self, is_so: Callable[[], bool], *, seconds_max: float = 60.0) -> None:
        """Let time pass until it is so; fails after `seconds_max` of virtual time."""
        await eventually("the cluster is so", is_so, seconds_max=seconds_max, pause_seconds=0.01)

    def image(self, broker_id: int) -> ClusterImage:
        """The cluster as a broker sees it."""
        return self.brokers[broker_id].images.current

    def leaders(self, topic: str, *, seen_by: int) -> list[int]:
        return [one.leader for one in self.image(seen_by).topics[topic].partitions]

    def replicas(self, topic: str, *, seen_by: int) -> list[tuple[int, ...]]:
        return [one.replicas for one in self.image(seen_by).topics[topic].partitions]

    # --- asking --------------------------------------------------------------------------------------------------

    async def ask(self, broker_id: int, api: ApiKey, version: int, /, **fields: Any) -> Any:
        """The answer of a broker to a client."""
        client = self._clients.get(broker_id)
        if client is None or client.is_lost:
            client = self._clients[broker_id] = await OutboundConnection.connect(
                self.network.at("client"), host=self.host(broker_id), port=PORT, client_id="test"
            )
        return await client.send(api, version, messages.request(api, version, **fields), timeout_ms=60_000)

    async def coordinator(self, group: str, *, through: int) -> int:
        """The broker that looks after a group, once one does."""
        found = await eventually(
            f"group {group} has a coordinator",
            lambda: self.ask(through, ApiKey.FIND_COORDINATOR, 3, key=group, key_type=0),
            lambda answer: answer.error_code == 0,
            pause_seconds=0.1,
        )
        return int(found.node_id)

    async def commit_offset(self, broker_id: int, offset: int, *, group: str = "g", topic: str = "t") -> int:
        """The error of a commit without a member, for partition 0."""
        fields = committed(group, topic, offset)
        answer = await self.ask(broker_id, ApiKey.OFFSET_COMMIT, 8, **fields)
        return int(answer.topics[0].partitions[0].error_code)

    async def committed_offset(
        self, broker_id: int, *, group: str = "g", topic: str = "t"
    ) -> tuple[int, int]:
        """Error and offset of partition 0."""
        asked = [{"name": topic, "partition_indexes": [0]}]
        answer = await self.ask(
            broker_id, ApiKey.OFFSET_FETCH, 7, group_id=group, topics=asked, require_stable=False
        )
        if int(answer.error_code):
            return int(answer.error_code), -1
        row = answer.topics[0].partitions[0]
        return int(row.error_code), int(row.committed_offset)

    async def create_topic(
        self,
        name: str,
        *,
        through: int = 1,
        partitions: int = 3,
        replicas: int = 1,
        assignment: list[list[int]] | None = None,
    ) -> int:
        """The error code of the answer. `assignment` has the replicas of each partition, the first leader first."""
        placed = [
            {"partition_index": number, "broker_ids": brokers}
            for number, brokers in enumerate(assignment or [])
        ]
        answer = await self.ask(
            through,
            ApiKey.CREATE_TOPICS,
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": -1 if placed else partitions,
                    "replication_factor": -1 if placed else replicas,
                    "assignments": placed,
                    "configs": [],
                }
            ],
            timeout=30_000,
            validate_only=False,
        )
        return int(answer.topics[0].error_code)

    async def produce(self, broker_id: int, topic: str, partition: int, *values: bytes, acks: int = 1) -> Any:
        """Produce one batch; the partition's answer."""
        answer = await self.ask(
            broker_id,
            ApiKey.PRODUCE,
            9,
            acks=acks,
            timeout=10_000,
            topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": batch(values)}]}],
        )
        return answer.responses[0].partition_responses[0]
