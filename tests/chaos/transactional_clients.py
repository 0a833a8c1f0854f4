"""A process of transactional clients: `python -m tests.chaos.transactional_clients OPTIONS`, a JSON object.

Two producers write transactions of a few records to a topic of their own. They commit most and abort some, and wait
beyond their timeout now and then. Sometimes a second instance of one takes its place. A reader of committed records
reports what it gets. The process prints `ready` once each producer has committed. When its standard input ends, it
reads all once more, as the reader "final".
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any, Final

from odradek.client.admin.logs import LATEST, LogAdmin
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.errors import RETRIABLE_OR_LATE
from odradek.client.producer.producer import Producer
from odradek.client.producer.transactions import Phase
from odradek.foundation.errors import OdradekError
from odradek.foundation.ids import TopicPartition
from tests.chaos.client_process import client_of, make_topic, works, write_until_told
from tests.chaos.history import CommittedRead, HistoryFile, TransactionReported, now

PARTITIONS: Final = 2
TIMEOUT_MS: Final = 5_000
STALL_SECONDS: Final = 8.0
END_TRIES: Final = 5
FINAL: Final = "final"


class Writer:
    """The lives of one transactional id, one after another; each is another producer."""

    def __init__(self, name: str, options: dict[str, Any], history: HistoryFile) -> None:
        self.name = name
        self.is_ready = asyncio.Event()
        self._topic = topic_of(options)
        self._options = options
        self._history = history
        self._chance = random.Random(f"{options['seed']}{name}")
        self._lives = 0

    async def write(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            self._lives += 1
            lives = [self._live(f"{self.name}.{self._lives}", is_over)]
            if self._chance.random() < 0.3:
                self._lives += 1
                lives.append(self._live(f"{self.name}.{self._lives}", is_over))
            await asyncio.gather(*lives)

    async def _live(self, name: str, is_over: asyncio.Event) -> None:
        client = client_of(self._options, name)
        producer = Producer(
            client,
            transactional_id=f"{self._topic}-{self.name}",
            transaction_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=10_000,
        )
        number = 0
        try:
            while not is_over.is_set() and not await works(producer.start):
                await asyncio.sleep(0.5)
            while producer.is_usable and not is_over.is_set() and self._chance.random() > 0.01:
                if await works(producer.begin_transaction):
                    await self._play(producer, f"{name}/{number}")
                    number += 1
                await asyncio.sleep(self._chance.uniform(0, 0.2))
        finally:
            await producer.close(is_flushing=False)
            await client.close()

    async def _play(self, producer: Producer, transaction: str) -> None:
        for count in range(self._chance.randint(1, 5)):
            partition = self._chance.randrange(PARTITIONS)
            value = f"{transaction}/{count}"
            self._report(transaction, "write", partition, value)
            await works(lambda: producer.send(self._topic, value.encode(), partition=partition))  # noqa: B023
        if self._chance.random() < 0.02:
            await asyncio.sleep(STALL_SECONDS)
        transactions = producer._transactional()
        if self._chance.random() < 0.75 and transactions.phase is Phase.OPEN:
            self._report(transaction, "commit asked")
            if await self._commit(producer):
                self._report(transaction, "committed")
                self.is_ready.set()
                return
        for _ in range(END_TRIES):
            if transactions.phase not in (Phase.OPEN, Phase.FAILED, Phase.ABORTING):
                break
            if await works(producer.abort_transaction):
                self._report(transaction, "aborted")
        if transactions.phase is not Phase.IDLE:
            await producer.close(is_flushing=False)  # how it ended is not known: another life ends it

    async def _commit(self, producer: Producer) -> bool:
        for _ in range(END_TRIES):
            try:
                await producer.commit_transaction()
            except RETRIABLE_OR_LATE:
                if producer._transactional().phase is not Phase.COMMITTING:
                    return False
            except OdradekError:
                return False
            else:
                return True
        return False

    def _report(self, transaction: str, what: str, partition: int = -1, value: str = "") -> None:
        self._history.add(
            TransactionReported(
                at=now(),
                transaction=transaction,
                what=what,
                topic=self._topic,
                partition=partition,
                value=value,
            )
        )


def topic_of(options: dict[str, Any]) -> str:
    """The topic of a round's transactions."""
    return str(options["topic"]).replace("records", "transactions", 1)


async def _read(options: dict[str, Any], history: HistoryFile, *, is_final: bool) -> None:
    """Read committed records: for ever, or once to the end."""
    client = client_of(options, "committed")
    keys = [TopicPartition(topic_of(options), number) for number in range(PARTITIONS)]
    async with client, PartitionConsumer(client, is_read_committed=True) as consumer:
        ends = await LogAdmin(client).offsets_at(keys, LATEST, read_committed=True) if is_final else {}
        consumer.assign(dict.fromkeys(keys, 0))
        while not is_final or any(consumer.position(key) < ends[key] for key in keys):
            try:
                records = await consumer.poll(timeout_ms=1_000)
            except OdradekError:
                await asyncio.sleep(0.5)
                continue
            for record in records:
                history.add(
                    CommittedRead(
                        at=now(),
                        reader=FINAL if is_final else "live",
                        topic=record.topic,
                        partition=record.partition,
                        offset=record.offset,
                        value=(record.value or b"").decode(),
                    )
                )


async def run(options: dict[str, Any]) -> None:
    history = HistoryFile(Path(options["history"]))
    await make_topic(options, topic_of(options), partitions=PARTITIONS)
    reader = asyncio.create_task(_read(options, history, is_final=False))
    await write_until_told([Writer(name, options, history) for name in ("first", "second")], reader)
    # What was left open ends by its timeout, and the last reading must come after that.
    await asyncio.sleep(TIMEOUT_MS / 1000 + 2)
    await _read(options, history, is_final=True)
    if reader.done():
        reader.result()
    reader.cancel()
    history.close()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
