"""Duties that fail are done again at their next time, after every kind of failure."""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import Any

import pytest

from odradek.broker.replication.flusher import Flusher
from odradek.broker.replication.housekeeping import Housekeeping
from odradek.broker.replication.partition import Partition
from odradek.foundation.limits import FLUSH_THREADS_MAX
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log import Log
from tests.support.polling import eventually
from tests.support.whole_broker import WholeBroker


@pytest.mark.parametrize("failure", [OSError(5, "the disk"), ZeroDivisionError("a fault of ours")])
async def test_a_duty_that_fails_is_done_again(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Exception | None] = [failure, None]

    async def fail_once(self: Housekeeping) -> None:
        outcome = done.pop(0) if done else None
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(Housekeeping, "remove_due", fail_once)
    await WholeBroker.start()
    await eventually("the work is done", lambda: not done, pause_seconds=1)


async def test_a_fault_in_one_log_keeps_retention_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def apply_retention(self: Partition) -> int:
        number: int = self.topic_partition.partition
        seen.append(number)
        if number == 0:
            raise ZeroDivisionError("a fault of ours")
        return 0

    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=3)
    monkeypatch.setattr(Partition, "apply_retention", apply_retention)
    seen.clear()
    await broker.broker.housekeeping.apply_retention()
    assert seen[:3] == [0, 1, 2]


@pytest.mark.parametrize(
    ("due", "tasks"),
    [(0, 0), (1, 1), (FLUSH_THREADS_MAX + 4, FLUSH_THREADS_MAX)],
    ids=["none", "one", "many"],
)
async def test_each_log_that_is_due_is_flushed_once_by_no_more_tasks_than_logs(
    due: int, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Log] = []
    begun: list[str] = []

    async def flush(self: Flusher, log: Log) -> None:
        await asyncio.sleep(0.01)
        flushed.append(log)

    def begin(loop: asyncio.AbstractEventLoop, coroutine: CoroutineType[Any, Any, Any], **named: Any) -> Any:
        begun.append(coroutine.cr_code.co_name)
        return asyncio.Task(coroutine, loop=loop, **named)

    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=FLUSH_THREADS_MAX + 4)
    logs = [partition.log for partition in broker.broker.partitions][:due]
    monkeypatch.setattr(LogManager, "flush_due", lambda self, now_ms: logs)
    monkeypatch.setattr(Flusher, "flush", flush)
    asyncio.get_running_loop().set_task_factory(begin)  # type: ignore[arg-type]
    await broker.broker.housekeeping.flush_due()
    asyncio.get_running_loop().set_task_factory(None)
    assert (sorted(map(id, flushed)), begun.count("flush_some")) == (sorted(map(id, logs)), tasks)
    monkeypatch.undo()
