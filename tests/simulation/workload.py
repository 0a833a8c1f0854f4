"""Clients that write and read all the time, with the product's own client, and keep a record of every operation."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.fetches import FetchBounds
from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.client.producer.requests import ACKS_ALL
from odradek.foundation.errors import OdradekError, OffsetOutOfRange
from odradek.foundation.ids import TopicPartition
from tests.simulation.cluster import TOPIC, SimulatedCluster
from tests.simulation.tasks import end_all, raise_failure_of

REQUEST_TIMEOUT_MS: Final = 5_000
DELIVERY_TIMEOUT_MS: Final = 20_000
START_MS: Final = 1_700_000_000_000
# Producers without acks=all. They may lose records, and get them reordered or written twice.
WEAK: Final = "weak"

SomeClient = TypeVar("SomeClient", bound=Client)


@dataclass(slots=True)
class Operations:
    """Clients' requests and their answers, by partition."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    """In each producer's order."""
    acknowledged: dict[int, dict[bytes, int]] = field(default_factory=dict)
    """Offset by value; -1 where the broker only said that it has the record already."""
    read: dict[int, dict[int, bytes]] = field(default_factory=dict)
    out_of_range: list[str] = field(default_factory=list)


class Actor(Protocol):
    """A client besides the producers and the reader."""

    def start(self) -> None:
        """Begin."""
        ...

    def raise_failure(self) -> None:
        """Raise what it found to be wrong, or died of."""
        ...

    async def settle(self) -> None:
        """Nothing fails any more: end in a state that can be checked."""
        ...

    def is_settled(self) -> bool:
        """Whether it has."""
        ...

    async def stop(self) -> None:
        """End."""
        ...

    async def check(self) -> None:
        """Raise InvariantBroken unless all its answers hold."""
        ...


class Workload:
    """Producers and a consumer over all partitions of the topic. `on_acknowledged` and `on_read` are called at once."""

    def __init__(
        self, cluster: SimulatedCluster, rng: random.Random, *, producers: int, has_weak: bool = False
    ) -> None:
        self.cluster = cluster
        self.history = cluster.history
        self.operations = Operations()
        self.others: list[Actor] = []
        self._rng = rng
        self._producers = producers
        self._has_weak = has_weak
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []
        self._deliveries: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None

    # What a checker may replace.
    def on_acknowledged(self, partition: int, offset: int, value: bytes) -> None: ...

    def on_read(self, partition: int, offset: int, value: bytes) -> None: ...

    def start(self) -> None:
        for number in range(self._producers):
            rng = random.Random(self._rng.getrandbits(64))
            self._tasks.append(asyncio.create_task(self._produce(f"p{number}", rng)))
        if self._has_weak:
            for acks in (0, 1):
                rng = random.Random(self._rng.getrandbits(64))
                self._tasks.append(asyncio.create_task(self._produce(f"{WEAK}{acks}", rng, acks=acks)))
        self._reader = asyncio.create_task(self._consume(random.Random(self._rng.getrandbits(64))))

    async def finish(self) -> None:
        """Send no more; returns when all sent records are acknowledged or given up. Readers continue."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        await end_all([self._reader] if self._reader else [])

    def raise_failure(self) -> None:
        """Raise what one of the clients found to be wrong, or died of."""
        for one in self.others:
            one.raise_failure()
        raise_failure_of([*self._tasks, *([self._reader] if self._reader else [])])

    def client(self, name: str, rng: random.Random) -> Client:
        """A client of its own on a host of its own."""
        return self.client_of_kind(Client, name, rng)

    def client_of_kind(self, kind: type[SomeClient], name: str, rng: random.Random) -> SomeClient:
        return kind(
            self.cluster.bootstrap(),
            client_id=name,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            connect_timeout_ms=2_000,
            network=self.cluster.client_network(name),
            random=rng,
        )

    # --- writing -------------------------------------------------------------------------------------------------

    async def _produce(self, name: str, rng: random.Random, *, acks: int = ACKS_ALL) -> None:
        client = self.client(name, rng)
        producer = Producer(
            client, acks=acks, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, linger_ms=rng.choice([0, 5, 50])
        )
        deliveries: list[asyncio.Task[None]] = []
        try:
            while not await self._begun(producer):
                await asyncio.sleep(0.5)
            pause_seconds = rng.choice([0.1, 0.2, 0.5])
            number = 0
            while not self._is_over:
                partition = rng.randrange(self.cluster.partition_count)
                value = b"%s-%d %s" % (name.encode(), number, b"." * rng.choice([0, 10, 400]))
                number += 1
                try:
                    delivery = await producer.send(
                        TOPIC, value, partition=partition, timestamp_ms=START_MS + number
                    )
                except OdradekError as failure:
                    self.history.add(name, f"could not send {_short(value)}: {failure}")
                    await asyncio.sleep(0.5)
                    continue
                self.operations.sent.setdefault(partition, []).append(value)
                self.history.add(name, f"sends {_short(value)} to {partition}")
                deliveries.append(asyncio.create_task(self._deliver(name, partition, value, delivery)))
                await asyncio.sleep(self.cluster.pause_seconds(rng.uniform(0, 2 * pause_seconds)))
            await asyncio.gather(*deliveries)
        finally:
            await producer.close(is_flushing=False)
            await client.close()

    async def _begun(self, producer: Producer) -> bool:
        try:
            await producer.start()
        except OdradekError:
            return False
        return True

    async def _deliver(self, name: str, partition: int, value: bytes, delivery: Delivery) -> None:
        try:
            offset = (await delivery).offset
        except OdradekError as failure:
            self.history.add(name, f"{_short(value)} failed: {type(failure).__name__}")
            return
        self.history.add(name, f"{_short(value)} acknowledged at {partition}:{offset}")
        if value.startswith(WEAK.encode()):
            return
        self.operations.acknowledged.setdefault(partition, {})[value] = offset
        self.on_acknowledged(partition, offset, value)

    # --- reading -------------------------------------------------------------------------------------------------

    async def _consume(self, rng: random.Random) -> None:
        client = self.client("reader", rng)
        consumer = PartitionConsumer(client, bounds=FetchBounds(wait_ms_max=500))
        try:
            consumer.assign({TopicPartition(TOPIC, one): 0 for one in range(self.cluster.partition_count)})
            while True:
                try:
                    records = await consumer.poll(timeout_ms=1_000)
                except OffsetOutOfRange as failure:
                    self.operations.out_of_range.append(str(failure))
                    self.history.add("reader", f"failed: {failure}")
                    await asyncio.sleep(0.5)
                    continue
                except OdradekError as failure:
                    self.history.add("reader", f"failed: {failure}")
                    await asyncio.sleep(0.5)
                    continue
                for record in records:
                    value = record.value or b""
                    self.history.add("reader", f"reads {_short(value)} at {record.partition}:{record.offset}")
                    self.operations.read.setdefault(record.partition, {})[record.offset] = value
                    self.on_read(record.partition, record.offset, value)
        finally:
            await consumer.close()
            await client.close()

    # --- after the faults ----------------------------------------------------------------------------------------

    async def probe(self, partition: int, *, seconds_max: float) -> str | None:
        """Write one record as a new client; why it could not be done in time, or None."""
        name = f"probe-{partition}"
        client = self.client(name, random.Random(self._rng.getrandbits(64)))
        value = name.encode()
        try:
            async with asyncio.timeout(seconds_max):
                producer = Producer(client, delivery_timeout_ms=round(seconds_max * 1000))
                while not await self._begun(producer):
                    await asyncio.sleep(0.2)
                try:
                    delivery = await producer.send(TOPIC, value, partition=partition, timestamp_ms=START_MS)
                    self.operations.sent.setdefault(partition, []).append(value)
                    await self._deliver(name, partition, value, delivery)
                finally:
                    await producer.close(is_flushing=False)
        except TimeoutError:
            return f"partition {partition} took no record within {seconds_max:g} s"
        except OdradekError as failure:
            return f"partition {partition} took no record: {failure}"
        finally:
            await client.close()
        if value not in self.operations.acknowledged.get(partition, {}):
            return f"partition {partition} took no record"
        return None


def _short(value: bytes) -> str:
    return value.split(b" ")[0].decode()
