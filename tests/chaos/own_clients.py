"""A process of writers with the product's own client: `python -m tests.chaos.own_clients OPTIONS`, a JSON object.

It prints `ready` when each has had a record acknowledged, and ends when its standard input ends. It then sends nothing
new, and waits until each record is acknowledged or given up.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any, Final

from odradek.client.producer.batches import Delivery
from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError
from tests.chaos.client_process import client_of, works, write_until_told
from tests.chaos.history import Acknowledged, HistoryFile, ProducerBegan, Refused, Sent, now, record_name

WAITING_MAX: Final = 2_000
ACKS_ALL: Final = -1


class Writer:
    """One producer; all its requests and answers go into the history."""

    def __init__(self, name: str, options: dict[str, Any], history: HistoryFile, *, acks: int) -> None:
        self.name = name
        self.is_ready = asyncio.Event()
        self._options = options
        self._history = history
        self._acks = acks
        self._chance = random.Random(f"{options['seed']}{name}")
        self._waiting: set[asyncio.Task[None]] = set()

    async def write(self, is_over: asyncio.Event) -> None:
        options = self._options
        self._history.add(
            ProducerBegan(
                at=now(),
                producer=self.name,
                acks=self._acks,
                is_idempotent=self._acks == ACKS_ALL,
                is_ordered=True,
            )
        )
        client = client_of(options, self.name)
        producer = Producer(
            client,
            acks=self._acks,
            linger_ms=self._chance.choice([0, 5, 20]),
            delivery_timeout_ms=options["delivery_ms"],
        )
        try:
            while not await works(producer.start):
                await asyncio.sleep(0.2)
            number = 0
            while not is_over.is_set():
                if await self._send(producer, number):
                    number += 1
                await asyncio.sleep(self._chance.uniform(0, 2 / options["per_second"]))
            await asyncio.gather(*self._waiting)
        finally:
            await producer.close(is_flushing=False)
            await client.close()

    async def _send(self, producer: Producer, number: int) -> bool:
        if len(self._waiting) >= WAITING_MAX:
            return False
        topic, partition = self._options["topic"], self._chance.randrange(self._options["partitions"])
        padding = b"." * self._chance.choice([0, 20, 200])
        value = record_name(self.name, number).encode() + b" " + padding
        self._history.add(Sent(at=now(), producer=self.name, number=number, topic=topic, partition=partition))
        try:
            delivery = await producer.send(topic, value, partition=partition)
        except OdradekError as failure:
            self._refused(number, partition, failure)
        else:
            task = asyncio.create_task(self._deliver(delivery, number, partition))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        return True

    async def _deliver(self, delivery: Delivery, number: int, partition: int) -> None:
        try:
            offset = (await delivery).offset
        except OdradekError as failure:
            self._refused(number, partition, failure)
            return
        self._history.add(
            Acknowledged(
                at=now(),
                producer=self.name,
                number=number,
                topic=self._options["topic"],
                partition=partition,
                offset=max(offset, -1),
            )
        )
        self.is_ready.set()

    def _refused(self, number: int, partition: int, failure: OdradekError) -> None:
        self._history.add(
            Refused(
                at=now(),
                producer=self.name,
                number=number,
                topic=self._options["topic"],
                partition=partition,
                error=f"{type(failure).__name__}: {failure}"[:300],
            )
        )


async def run(options: dict[str, Any]) -> None:
    history = HistoryFile(Path(options["history"]))
    writers = [
        Writer("own-all", options, history, acks=ACKS_ALL),
        Writer("own-one", options, history, acks=1),
    ]
    await write_until_told(writers)
    history.close()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
