"""A whole broker on virtual time that compacts, and work on rounds that a test can hold up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from odradek.broker.replication.cleaning_work import InlineWork
from odradek.storage.compaction.task import CleanedRun, CleaningSummary, CleaningTask
from odradek.storage.log import Log
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from tests.support.disk import SimulatedDisk
from tests.support.logs import stored_records
from tests.support.polling import eventually
from tests.support.whole_broker import START_MS, WholeBroker

ENTRIES = {"log.cleaner.backoff.ms": "1000"}
SECONDS_MAX = 600

Pair = tuple[bytes, bytes | None]


async def cleaning_broker(entries: dict[str, str] | None = None) -> WholeBroker:
    """A broker that looks for dirty logs every second."""
    return await WholeBroker.start(ENTRIES | (entries or {}))


async def put(node: WholeBroker, topic: str, *pairs: Pair, partition: int = 0, **fields: Any) -> None:
    """Produce one batch of keys and values."""
    data = bytes(build_batch([(START_MS, key, value) for key, value in pairs], **fields))
    partition_data = [{"index": partition, "records": data}]
    answer = await node.ask(
        ApiKey.PRODUCE,
        9,
        acks=1,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": partition_data}],
    )
    (answered,) = answer.responses[0].partition_responses
    assert answered.error_code == 0, answered


def log_of(node: WholeBroker, topic: str, partition: int = 0) -> Log:
    return node.broker.partitions.get(topic, partition).log


def held(log: Log) -> list[Pair]:
    """Key and value of every record, by offset."""
    return [(record.key or b"", record.value) for record in stored_records(log)]


async def fill(node: WholeBroker, topic: str, partition: int = 0, *, rounds: int = 3) -> list[Pair]:
    """Ten keys several times over in closed segments that are on the device; their last values."""
    for number in range(rounds):
        last: list[Pair] = [(b"key %d" % key, b"value %d" % number) for key in range(10)]
        await put(node, topic, *last, partition=partition)
    log = log_of(node, topic, partition)
    log.roll()
    log.flush()
    return last


async def until(is_so: Callable[[], bool]) -> None:
    """Let time pass until it is so."""
    await eventually("the cleaner is so far", is_so, seconds_max=SECONDS_MAX, pause_seconds=0.1)


class HeldWork(InlineWork):
    """Waits before it gives the first run of each round, whose files are written then."""

    def __init__(self, held: HeldRounds, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self._held = held

    async def runs(self, task: CleaningTask, summary: CleaningSummary) -> AsyncGenerator[CleanedRun, None]:
        self._held.tasks.append(task)
        if self._held.fails_with:
            raise self._held.fails_with.pop()
        self._held.under_way.append(task.name)
        try:
            async with aclosing(super().runs(task, summary)) as runs:
                async for run in runs:
                    self._held.written.append(task.name)
                    await self._held.may_go_on.wait()
                    yield run
        finally:
            self._held.under_way.remove(task.name)


class HeldRounds:
    """All rounds of a broker, held up until `may_go_on` is set."""

    def __init__(self, node: WholeBroker) -> None:
        self.may_go_on = asyncio.Event()
        self.tasks: list[CleaningTask] = []
        self.fails_with: list[Exception] = []
        self.under_way: list[str] = []
        """Partitions with a round at work."""
        self.written: list[str] = []
        """Of each run that was written, its partition."""
        node.broker.cleaner._new_work = lambda: HeldWork(self, node.disk)
