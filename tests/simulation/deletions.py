"""A client of a simulation that deletes records up to any offset, also inside batches, while replicas come and go.

It writes batches of several records to a topic of its own. One after another, a replica is added by a reassignment,
loses its whole log, or is away while its leader deletes what it lacks. Each then begins at its leader's log start. At
the end every replica is in sync (I12), and all hold the same records from the same offset on. Those include what was
acknowledged and not deleted (I1). Left out: order and duplicates, which the other clients' checks cover.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from odradek.broker.replication.partition import Partition
from odradek.client.admin.logs import LogAdmin
from odradek.client.admin.topics import TopicAdmin
from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError, TopicAlreadyExists
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.simulation.cluster import BROKERS, DELETED_TOPIC, SimulatedCluster
from tests.simulation.tasks import end_all, raise_failure_of
from tests.simulation.workload import DELIVERY_TIMEOUT_MS, START_MS, Workload
from tests.support.logs import stored_records

AWAY_SECONDS: Final = (1.0, 4.0)
ALL_REPLICAS_SECONDS_MAX: Final = 120.0


class Deletions:
    """An `Actor`: one producer that also deletes, and the trouble that it makes."""

    def __init__(self, workload: Workload, rng: random.Random) -> None:
        self._workload = workload
        self._cluster: SimulatedCluster = workload.cluster
        self._history = workload.history
        self._rng = rng
        self._name = TopicPartition(DELETED_TOPIC, 0)
        self._client = workload.client("deletions", random.Random(rng.getrandbits(64)))
        self._producer = Producer(
            self._client, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, linger_ms=rng.choice([5, 50])
        )
        self._logs = LogAdmin(self._client)
        self._acknowledged: dict[int, bytes] = {}
        self._deliveries: set[asyncio.Task[None]] = set()
        self._number = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work())]

    def raise_failure(self) -> None:
        raise_failure_of(self._tasks)

    async def stop(self) -> None:
        await end_all(self._tasks)
        await self._producer.close(is_flushing=False)
        await self._client.close()

    # --- life ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        for begin in (self._create, self._producer.start):
            await self._try(begin, until_done=True)
        deeds = (self._delete, self._delete, self._reassign, self._wipe, self._leave_behind)
        while not self._is_over:
            await self._write()
            await self._try(self._rng.choice(deeds))
            await asyncio.sleep(self._cluster.pause_seconds(self._rng.uniform(0.0, 0.6)))

    async def _try(self, deed: Callable[[], Awaitable[object]], *, until_done: bool = False) -> None:
        while True:
            try:
                await deed()
                return
            except TopicAlreadyExists:
                return
            except OdradekError as failure:
                self._history.add("deletions", f"failed: {type(failure).__name__}")
            if not until_done:
                return
            await asyncio.sleep(0.5)

    async def _create(self) -> None:
        configs: dict[str, str | float | None] = {
            "internal.segment.bytes": self._rng.choice([400, 2_000, 1_000_000]),
            "min.insync.replicas": "2",
        }
        await TopicAdmin(self._client).create(
            DELETED_TOPIC, partitions=1, replication_factor=3, configs=configs
        )

    async def _write(self) -> None:
        """A batch or two of several records."""
        if not self._producer.is_usable:
            return
        for _ in range(self._rng.randint(2, 9)):
            value = b"d-%d" % self._number
            self._number += 1
            try:
                delivery = await self._producer.send(
                    DELETED_TOPIC, value, partition=0, timestamp_ms=START_MS + self._number
                )
            except OdradekError:
                return
            task = asyncio.create_task(self._deliver(value, delivery))
            self._deliveries.add(task)
            task.add_done_callback(self._deliveries.discard)

    async def _deliver(self, value: bytes, delivery: Delivery) -> None:
        try:
            offset = (await delivery).offset
        except OdradekError:
            return
        if offset >= 0:
            self._acknowledged[offset] = value

    # --- what it does to the partition ---------------------------------------------------------------------------

    async def _delete(self) -> None:
        """Up to one of the newest records, or all of them."""
        if not self._acknowledged:
            return
        offset = max(max(self._acknowledged) + 1 - self._rng.randrange(8), 0)
        self._history.add("deletions", f"deletes below {offset}")
        found = await self._logs.delete_records({self._name: offset})
        self._history.add("deletions", f"deleted: {found}")

    async def _reassign(self) -> None:
        """Take one replica away and delete; the next such deed adds it or another."""
        replicas = self._rng.sample(BROKERS, self._rng.choice([2, 3, 3]))
        await self._ask_for(replicas)
        await self._delete()

    async def _ask_for(self, replicas: list[int]) -> None:
        self._history.add("deletions", f"moves {self._name} to {replicas}")

        async def attempt() -> Any:
            return await (await self._client.controller()).request(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                versions=(1, 1),
                timeout=5_000,
                allow_replication_factor_change=True,
                topics=[
                    {"name": DELETED_TOPIC, "partitions": [{"partition_index": 0, "replicas": replicas}]}
                ],
            )

        await self._client.with_retries(attempt)

    async def _wipe(self) -> None:
        """A broker loses power, and this log with it. It learns that much may be gone, so it is not elected unseen."""
        broker_id = self._rng.choice(BROKERS)
        cluster = self._cluster
        if broker_id not in cluster.brokers or not cluster.memory.all_others_remember(broker_id):
            return
        self._history.add("FAULT", f"broker {broker_id} loses power and {self._name}")
        cluster.crash(broker_id, power_loss=True, expire=self._rng.random() < 0.5)
        # A disk that fails keeps its files: it is repaired first.
        cluster.disks[broker_id].failing_paths.clear()
        cluster.disks[broker_id].remove_tree(f"/logs/{self._name}")
        await self._delete()
        cluster.begin_start(broker_id)

    async def _leave_behind(self) -> None:
        """A broker is killed, and while it is away records are written and deleted that it lacks."""
        broker_id = self._rng.choice(BROKERS)
        if broker_id not in self._cluster.brokers:
            return
        self._history.add("FAULT", f"broker {broker_id} is killed and left behind")
        self._cluster.crash(broker_id, power_loss=False, expire=True)
        await asyncio.sleep(self._rng.uniform(*AWAY_SECONDS))
        await self._write()
        await asyncio.sleep(0.3)
        await self._try(self._delete)
        self._cluster.begin_start(broker_id)

    # --- when nothing fails any more -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Nothing is written or deleted any more, and every broker is to have a replica."""
        self._is_over = True
        for task in self._tasks:
            await task
        for broker_id in BROKERS:
            self._cluster.begin_start(broker_id)
        await asyncio.gather(*self._deliveries)
        began = asyncio.get_running_loop().time()
        while True:
            waited = asyncio.get_running_loop().time() - began
            self._history.require(
                waited < ALL_REPLICAS_SECONDS_MAX,
                "I12",
                f"{self._name} has not all replicas after {waited:.0f} s",
            )
            await self._try(lambda: self._ask_for(list(BROKERS)))
            await asyncio.sleep(1.0)
            if all(self._is_everywhere(broker_id) for broker_id in BROKERS):
                break
        # A leader may have died before all had learned of its last deletion, which holds where it is known.
        starts = {
            broker_id: broker.partitions.get(DELETED_TOPIC, 0).log.log_start_offset
            for broker_id, broker in self._cluster.brokers.items()
        }
        self._history.add("deletions", f"the replicas start at {starts}")
        await self._try(
            lambda: self._logs.delete_records({self._name: max(starts.values())}), until_done=True
        )

    def _is_everywhere(self, broker_id: int) -> bool:
        broker = self._cluster.brokers.get(broker_id)
        topic = None if broker is None else broker.images.current.topics.get(DELETED_TOPIC)
        if topic is None:
            return False
        found = topic.partitions[0]
        return set(found.replicas) == set(BROKERS) and not found.adding and not found.removing

    def is_settled(self) -> bool:
        """Whether all replicas are in sync and hold the same offsets."""
        spans = set()
        for broker_id in BROKERS:
            broker = self._cluster.brokers.get(broker_id)
            topic = None if broker is None else broker.images.current.topics.get(DELETED_TOPIC)
            if broker is None or topic is None or set(topic.partitions[0].isr) != set(BROKERS):
                return False
            partition: Partition = broker.partitions.get(DELETED_TOPIC, 0)
            spans.add((partition.log.log_start_offset, partition.log.log_end_offset))
        return len(spans) == 1

    async def check(self) -> None:
        """All replicas have the same records, and among them all that were acknowledged and not deleted."""
        logs = {
            broker_id: broker.partitions.get(DELETED_TOPIC, 0).log
            for broker_id, broker in self._cluster.brokers.items()
        }
        found = {
            broker_id: {record.offset: record.value or b"" for record in stored_records(log)}
            for broker_id, log in logs.items()
        }
        first = next(iter(found.values()))
        self._history.require(
            all(one == first for one in found.values()), "I1", f"the replicas of {self._name} differ"
        )
        start_offset = next(iter(logs.values())).log_start_offset
        lost = [
            (offset, value)
            for offset, value in self._acknowledged.items()
            if offset >= start_offset and first.get(offset) != value
        ]
        self._history.require(not lost, "I1", f"acknowledged records of {self._name} are not there: {lost}")
