"""Producers with five batches of a partition under way, as other clients have, while partitions move and brokers die.

Our own producer has one under way, so the simulation does not try this. A batch that was refused while later ones reach
a leader must cost no more than a retry. No record is written twice, lost or out of order.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress

import pytest

from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey
from tests.server.test_reassignment import reassign, under_way
from tests.support.loop import run
from tests.support.polling import eventually
from tests.support.whole_broker import batch
from tests.support.whole_cluster import PORT, WholeCluster

pytestmark = pytest.mark.thorough

PARTITIONS, BROKERS, UNDER_WAY = 4, 3, 5
OUT_OF_ORDER, DUPLICATE = 45, 46
ENTRIES = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
}


class Pipeline:
    """One partition's batches of one record each, from 0 on, `UNDER_WAY` at a time."""

    def __init__(self, cluster: WholeCluster, client: Client, partition: int, producer_id: int) -> None:
        self.sent = 0
        self.codes: Counter[str] = Counter()
        self._cluster = cluster
        self._client = client
        self._partition = partition
        self._producer_id = producer_id
        self._waiting: list[int] = []

    async def run(self, is_over: asyncio.Event) -> None:
        """Until it is over and all is acknowledged."""
        while not is_over.is_set() or self._waiting:
            while len(self._waiting) < UNDER_WAY and not is_over.is_set():
                self._waiting.append(self.sent)
                self.sent += 1
            numbers = list(self._waiting)
            codes = await self._produce_all(numbers)
            for number, code in zip(numbers, codes, strict=True):
                if code in (0, DUPLICATE):
                    self._waiting.remove(number)
                elif code == OUT_OF_ORDER:
                    # librdkafka ends for good where it is the first of those not acknowledged.
                    is_first = number == min(self._waiting)
                    self.codes["first out of order" if is_first else "later out of order"] += 1
                else:
                    self.codes[str(code)] += 1
            await asyncio.sleep(0.05)

    def _leader(self) -> int:
        """As the first broker that knows it answers (KIP-951)."""
        images = (broker.images.current for broker in self._cluster.brokers.values())
        known = (image.topics["t"].partitions[self._partition] for image in images if "t" in image.topics)
        return max(known, key=lambda one: one.leader_epoch).leader

    async def _produce_all(self, numbers: list[int]) -> list[int]:
        try:
            connection = await self._client.broker(self._leader())
        except OdradekError:
            with suppress(OdradekError):
                await self._client.refresh(())
            return [-1] * len(numbers)
        return await asyncio.gather(*(self._produce(connection, number) for number in numbers))

    async def _produce(self, connection: BrokerConnection, number: int) -> int:
        records = batch(
            [b"%d" % number], producer_id=self._producer_id, producer_epoch=0, base_sequence=number
        )
        try:
            answer = await connection.request(
                ApiKey.PRODUCE,
                versions=(9, 9),
                transactional_id=None,
                acks=-1,
                timeout=2_000,
                topic_data=[
                    {"name": "t", "partition_data": [{"index": self._partition, "records": records}]}
                ],
            )
        except OdradekError:
            return -1
        return int(answer.responses[0].partition_responses[0].error_code)


async def trouble(cluster: WholeCluster, rng: random.Random) -> None:
    """Moves, kills, stops, and brokers that hear late from the controller or from each other."""
    for _ in range(12):
        await asyncio.sleep(rng.uniform(0.05, 1.0))
        what = rng.choice(["move", "move", "slow", "late", "kill", "stop"])
        live = sorted(cluster.brokers)
        if what == "move":
            wanted: list[list[int] | None] = [rng.sample(range(1, BROKERS + 1), 2) for _ in range(PARTITIONS)]
            with suppress(OdradekError, ConnectionError, TimeoutError, AssertionError):
                await reassign(cluster, "t", *wanted, through=rng.choice(live))
        elif what == "slow":
            cluster.network.delay_seconds = (0.0001, rng.choice([0.001, 0.05, 0.2]))
        elif what == "late":
            one = cluster.host(rng.choice(live))
            other = cluster.host(rng.choice([*live, 100]))
            if one != other:
                cluster.network.part(one, other)
                await asyncio.sleep(rng.uniform(0.1, 1.5))
                cluster.network.heal()
        elif len(live) == BROKERS:
            broker_id = rng.choice(live)
            await (cluster.kill_broker if what == "kill" else cluster.stop_broker)(broker_id)
            await asyncio.sleep(rng.uniform(0.0, 2.0))
            await cluster.start_broker(broker_id)


async def play(seed: int) -> Counter[str]:
    rng = random.Random(seed)
    cluster = await WholeCluster.start(brokers=BROKERS, controllers=1, entries=ENTRIES, seed=seed)
    assert await cluster.create_topic("t", partitions=PARTITIONS, replicas=2) == 0
    starts = [f"node-{n}-{start}.test:{PORT}" for start in range(1, 9) for n in range(1, BROKERS + 1)]
    client = Client(
        starts,
        network=cluster.network.at("producer"),
        request_timeout_ms=5_000,
        connect_timeout_ms=300,
        random=rng,
    )
    is_over = asyncio.Event()
    async with client:
        pipelines = [Pipeline(cluster, client, number, 1000 + number) for number in range(PARTITIONS)]
        tasks = [asyncio.create_task(one.run(is_over)) for one in pipelines]
        await trouble(cluster, rng)
        cluster.network.delay_seconds = (0.0001, 0.001)
        is_over.set()
        async with asyncio.timeout(120):
            await asyncio.gather(*tasks)
            await eventually(
                "no write is under way", lambda: under_way(cluster), lambda seen: not seen, pause_seconds=0.2
            )
        await client.refresh(["t"])
        async with PartitionConsumer(client) as consumer:
            for number, pipeline in enumerate(pipelines):
                consumer.assign({TopicPartition("t", number): 0})
                found: list[int] = []
                while len(found) < pipeline.sent and (records := await consumer.poll(timeout_ms=5_000)):
                    found += [int(record.value or b"") for record in records]
                found += [int(record.value or b"") for record in await consumer.poll(timeout_ms=1_000)]
                assert found == list(range(pipeline.sent)), f"seed {seed}, partition {number}"
    await cluster.stop()
    return sum((one.codes for one in pipelines), Counter())


@pytest.mark.parametrize("seed", [4, 6, 9])
def test_nothing_is_written_twice_or_lost_and_no_sequence_is_out_of_order(seed: int) -> None:
    codes = run(play(seed))
    assert codes["first out of order"] == codes["later out of order"] == 0, codes
    assert codes["19"] > 0, "nothing was refused"
