"""A process of clients of a compacted topic: `python -m tests.chaos.keyed_clients OPTIONS`, a JSON object.

An idempotent and a transactional producer write, overwrite and delete keys; the second one commits most of its
transactions and aborts some. Segments are small, and tombstones may go after two seconds, so that most faults last for
longer. The process prints `ready` once both have written. When its standard input ends, it reads all committed records.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, Final

from odradek.client.admin.logs import EARLIEST, LATEST, LogAdmin
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.client.producer.transactions import Phase
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.chaos.client_process import client_of, make_topic, works, write_until_told
from tests.chaos.final_logs import NAME_HEADER, name_of_headers
from tests.chaos.history import HistoryFile, KeyedRead, KeyedReported, now

TIMEOUT_MS: Final = 5_000
KEYS: Final = tuple(f"key-{number}" for number in range(4))
KEY_SECONDS: Final = 5.0
PAUSE_SECONDS_MAX: Final = 0.06
CONFIGS: Final[dict[str, str | float | None]] = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": 8_000,
    "min.cleanable.dirty.ratio": 0.1,
    "max.compaction.lag.ms": 4_000,
    "delete.retention.ms": 2_000,
}


def topic_of(options: dict[str, Any]) -> str:
    """The compacted topic of a round, with one partition."""
    return str(options["topic"]).replace("records", "compacted", 1)


class Writer:
    """The lives of one producer, one after another; `transactional_id` is None for one without transactions."""

    def __init__(
        self, name: str, options: dict[str, Any], history: HistoryFile, *, transactional_id: str | None
    ) -> None:
        self._name = name
        self._options = options
        self._history = history
        self._transactional_id = transactional_id
        self._chance = random.Random(f"{options['seed']}{name}")
        self._number = 0
        self.is_ready = asyncio.Event()

    async def write(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            client = client_of(self._options, self._name)
            producer = Producer(
                client,
                compression=self._chance.choice(["none", "lz4"]),
                transactional_id=self._transactional_id,
                transaction_timeout_ms=TIMEOUT_MS,
                delivery_timeout_ms=60_000,
            )
            try:
                while not is_over.is_set() and not await works(producer.start):
                    await asyncio.sleep(0.5)
                while producer.is_usable and not is_over.is_set():
                    if self._transactional_id is None:
                        await self._write_some(producer)
                    else:
                        await self._transact(producer)
            finally:
                await producer.close(is_flushing=False)
                await client.close()

    async def _write_some(self, producer: Producer) -> None:
        sent = [await self._send(producer) for _ in range(10)]
        for name, delivery in sent:
            await self._answered(name, delivery)
        self.is_ready.set()

    async def _transact(self, producer: Producer) -> None:
        if not await works(producer.begin_transaction):
            await asyncio.sleep(0.2)
            return
        sent = [await self._send(producer) for _ in range(self._chance.randint(1, 6))]
        transactions = producer._transactional()
        if self._chance.random() < 0.75 and transactions.phase is Phase.OPEN:
            for _ in range(5):
                if await works(producer.commit_transaction):
                    for name, delivery in sent:
                        await self._answered(name, delivery)
                    self.is_ready.set()
                    return
        else:
            # No one asks for its commit, so it ends by an abort, sooner or later.
            for name, _ in sent:
                self._report(name, "aborted")
            await works(producer.abort_transaction)
        if transactions.phase is not Phase.IDLE:
            await producer.close(is_flushing=False)  # how it ended is not known: another life ends it

    async def _send(self, producer: Producer) -> tuple[str, Delivery | None]:
        self._number += 1
        name = f"{self._name}.{self._number}"
        key = self._chance.choice([self._chance.choice(KEYS), f"key-of-{int(time.time() / KEY_SECONDS)}"])
        is_deletion = self._chance.random() < 0.3
        self._report(name, "write", key=key, is_deletion=is_deletion)
        await asyncio.sleep(self._chance.uniform(0, PAUSE_SECONDS_MAX))
        try:
            delivery = await producer.send(
                topic_of(self._options),
                None if is_deletion else name.encode(),
                key=key.encode(),
                headers=[(NAME_HEADER, name.encode())],
                partition=0,
            )
        except OdradekError:
            return name, None
        return name, delivery

    async def _answered(self, name: str, delivery: Delivery | None) -> None:
        if delivery is None:
            return
        try:
            self._report(name, "answered", offset=(await delivery).offset)
        except OdradekError:
            return  # it may be in the log, or not

    def _report(
        self, name: str, what: str, *, key: str = "", is_deletion: bool = False, offset: int = -1
    ) -> None:
        self._history.add(
            KeyedReported(at=now(), name=name, what=what, key=key, is_deletion=is_deletion, offset=offset)
        )


async def _read_all(options: dict[str, Any], history: HistoryFile) -> None:
    key = TopicPartition(topic_of(options), 0)
    async with (
        client_of(options, "keyed") as client,
        PartitionConsumer(client, is_read_committed=True) as consumer,
    ):
        start = (await LogAdmin(client).offsets_at([key], EARLIEST))[key]
        end = (await LogAdmin(client).offsets_at([key], LATEST, read_committed=True))[key]
        consumer.assign({key: start})
        while consumer.position(key) < end:
            for one in await consumer.poll(timeout_ms=1_000):
                history.add(
                    KeyedRead(
                        at=now(),
                        name=name_of_headers(one.headers),
                        key=(one.key or b"").decode(),
                        is_deletion=one.value is None,
                        offset=one.offset,
                    )
                )


async def run(options: dict[str, Any]) -> None:
    history = HistoryFile(Path(options["history"]))
    topic = topic_of(options)
    await make_topic(options, topic, partitions=1, configs=CONFIGS)
    writers = [
        Writer("plain", options, history, transactional_id=None),
        Writer("transactional", options, history, transactional_id=topic),
    ]
    await write_until_told(writers)
    # What was left open ends by its timeout, and the reading must come after that.
    await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
    for _ in range(20):
        if await works(lambda: _read_all(options, history)):
            break
        await asyncio.sleep(1)
    history.close()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
