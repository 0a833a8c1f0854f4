"""Memory of a broker that has a million records of a queue in flight.

    python -m bench.queue_memory [PARTITIONS]

A partition has 10,000 records in flight at most, as in Kafka, so 100 partitions have a million. One member acquires all
of them and answers nothing. Then it accepts every second one, so that no two neighbours are alike. That is the most
that a queue takes. The broker leads all partitions, and has both coordinators. Prints its resident memory before, after
each step, and for each record.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

from bench.peers import SETTINGS, compiled, storage, usage
from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.consumer.outage import MissingTopics, Outage
from odradek.client.producer.producer import Producer
from odradek.client.results import ConfigChange, ResourceType
from odradek.client.share.deliveries import Acknowledgement
from odradek.client.share.membership import ShareMembership
from odradek.client.share.sessions import ClientShareSession, ShareBounds
from odradek.foundation.ids import TopicPartition
from tests.support.broker_process import Broker
from tests.support.polling import eventually

PARTITIONS: Final = 100
IN_FLIGHT_MAX: Final = 10_000  # of one partition, as in Kafka
RECORD_BYTES: Final = 100
BATCH_RECORDS: Final = 500
NAME: Final = "in-flight"
_HOUR_MS: Final = str(3_600_000)
_SETTINGS: Final = {
    "group.share.max.partition.max.record.locks": str(IN_FLIGHT_MAX),
    "group.share.partition.max.record.locks": str(IN_FLIGHT_MAX),
    "group.share.max.record.lock.duration.ms": _HOUR_MS,
    "group.share.record.lock.duration.ms": _HOUR_MS,
}


class Queue:
    """One member of the queue, which acquires and accepts without working."""

    def __init__(self, client: Client, partitions: int) -> None:
        self._client = client
        self._keys = [TopicPartition(NAME, number) for number in range(partitions)]
        self._membership = ShareMembership(
            client,
            NAME,
            [NAME],
            rack_id=None,
            outage=Outage(),
            missing_topics=MissingTopics(reader=f"share group {NAME!r}"),
            on_change=lambda: None,
        )
        self._acquired: dict[TopicPartition, list[int]] = {key: [] for key in self._keys}

    async def fill(self) -> None:
        """A topic with as many records as may be in flight, in batches as a busy producer makes them."""
        admin = Admin(self._client)
        await admin.topics.create(NAME, partitions=len(self._keys))
        earliest = ConfigChange("share.auto.offset.reset", "earliest")
        await admin.configs.alter(ResourceType.GROUP, NAME, [earliest])
        async with Producer(self._client, batch_bytes_max=1 << 20) as producer:
            for key in self._keys:
                for _ in range(IN_FLIGHT_MAX // BATCH_RECORDS):
                    values = [b"x" * RECORD_BYTES] * BATCH_RECORDS
                    await producer.send_many(NAME, values, partition=key.partition)
                    await producer.flush()

    async def join(self) -> ClientShareSession:
        self._heartbeats = asyncio.create_task(self._membership.run())
        await eventually(
            "the member has all partitions", lambda: len(self._membership.assignment) == len(self._keys)
        )
        bounds = ShareBounds(records_max=BATCH_RECORDS)
        return ClientShareSession(
            self._client,
            1,
            group_id=NAME,
            member_id=self._membership.member_id,
            bounds=bounds,
            lane=self._client.new_lane("share"),
        )

    async def acquire_all(self, session: ClientShareSession) -> int:
        wanted = IN_FLIGHT_MAX * len(self._keys)
        count = 0
        while count < wanted:
            fetched = await session.fetch(self._keys, {}, wait_ms_max=500)
            for key, delivery in fetched.deliveries.items():
                for one in delivery.blocks:
                    offsets = [record.offset for record in one.block.records()]
                    self._acquired[key] += offsets
                    count += len(offsets)
        return count

    async def accept_every_second(self, session: ClientShareSession) -> None:
        """All but the first: the window begins with a record that is not done."""
        for key, offsets in self._acquired.items():
            answers = dict.fromkeys(sorted(offsets)[1::2], int(Acknowledgement.ACCEPT))
            failures = await session.acknowledge({key: answers})
            assert failures == {key: None}, failures

    async def leave(self) -> None:
        self._heartbeats.cancel()
        await asyncio.gather(self._heartbeats, return_exceptions=True)


async def measure(broker: Broker, partitions: int) -> None:
    records = partitions * IN_FLIGHT_MAX
    before = 0

    def report(what: str, began: float) -> None:
        nonlocal before
        resident = usage(broker).resident_bytes
        before = before or resident
        print(
            f"{what}: {resident / 1e6:.1f} MB, {(resident - before) / records:.1f} B more for each of "
            f"{records:,} records, {time.perf_counter() - began:.1f} s",
            flush=True,
        )

    async with Client(broker.bootstrap) as client:
        queue = Queue(client, partitions)
        await queue.fill()
        session = await queue.join()
        began = time.perf_counter()
        report("before", began)
        assert await queue.acquire_all(session) == records
        report("all acquired", began)
        began = time.perf_counter()
        await queue.accept_every_second(session)
        report("every second one accepted", began)
        await queue.leave()


def main(partitions: int) -> None:
    compiled()
    with storage(None) as folder:
        broker = Broker(Path(folder) / "odradek", settings=SETTINGS | _SETTINGS)
        try:
            broker.start()
            asyncio.run(measure(broker, partitions))
        finally:
            broker.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else PARTITIONS)
