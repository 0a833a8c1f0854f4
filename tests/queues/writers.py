"""A process that writes the records of the proof: `python -m tests.queues.writers OPTIONS`, a JSON object.

Idempotent producers with acks=all write in bursts. When all is acknowledged or given up, what
was acknowledged is in the file `acknowledged`, and the process ends. It ends early, too, when its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from odradek.client.producer.producer import Producer
from odradek.foundation.errors import OdradekError
from tests.chaos.client_process import client_of, works
from tests.queues.records import build_value, name_record

PRODUCERS: Final = ("one", "two")
# Parts of all its records that a producer writes at once.
_BURSTS: Final = (200, 40)
BATCH_BYTES: Final = 24_000  # some 400 records
DELIVERY_MS: Final = 900_000
REST_SECONDS: Final = 0.2


class _Writer:
    """One producer with its part of the records."""

    def __init__(self, name: str, options: dict[str, Any], over: asyncio.Task[str]) -> None:
        self._name = name
        self._options = options
        self._over = over
        self._chance = random.Random(f"{options['seed']}{name}")
        self.acknowledged = bytearray(options["records"] // len(PRODUCERS))
        self.refused: list[str] = []

    async def write(self) -> None:
        options, total = self._options, len(self.acknowledged)
        rate = options["per_second"] / len(PRODUCERS)
        async with client_of(options, self._name) as client:
            producer = Producer(
                client,
                linger_ms=10,
                batch_bytes_max=BATCH_BYTES,
                delivery_timeout_ms=DELIVERY_MS,
                send_wait_ms_max=DELIVERY_MS,
            )
            while not await works(producer.start):
                await asyncio.wait([self._over], timeout=REST_SECONDS)
            number = 0
            smallest, largest = (total // parts + 1 for parts in _BURSTS)
            while number < total and not self._over.done():
                count = min(self._chance.randint(smallest, largest), total - number)
                await self._burst(producer, number, count)
                number += count
                await asyncio.wait([self._over], timeout=count / rate)
            try:
                await producer.flush()
            except OdradekError as failure:
                self.refused.append(f"flush: {failure}")
            await producer.close()

    async def _burst(self, producer: Producer, first: int, count: int) -> None:
        def note(positions: Sequence[int], failure: OdradekError | None) -> None:
            for position in positions:
                if failure is None:
                    self.acknowledged[first + position] = 1
                else:
                    self.refused.append(f"{name_record(self._name, first + position)}: {failure}")

        values = [build_value(self._name, number) for number in range(first, first + count)]
        await producer.send_many(self._options["topic"], values, on_done=note)


async def run(options: dict[str, Any]) -> None:
    over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    writers = [_Writer(name, options, over) for name in PRODUCERS]
    print("ready", flush=True)
    await asyncio.gather(*(writer.write() for writer in writers))
    found = {
        "acknowledged": {
            name: "".join("01"[one] for one in writer.acknowledged)
            for name, writer in zip(PRODUCERS, writers, strict=True)
        },
        "refused": [line for writer in writers for line in writer.refused],
    }
    part = Path(options["acknowledged"]).with_suffix(".part")
    part.write_text(json.dumps(found))
    part.rename(options["acknowledged"])
    await over


def read_acknowledged(path: Path) -> set[str]:
    """The names of the records that were acknowledged."""
    found = json.loads(path.read_text())["acknowledged"]
    return {
        name_record(producer, number)
        for producer, flags in found.items()
        for number, flag in enumerate(flags)
        if flag == "1"
    }


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
