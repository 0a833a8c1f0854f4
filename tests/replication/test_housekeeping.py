"""Duties that fail are done again at their next time, after every kind of failure."""

from __future__ import annotations

import asyncio

import pytest

from odradek.replication.housekeeping import Housekeeping
from odradek.replication.partition import Partition
from tests.support.loop import run
from tests.support.whole_broker import WholeBroker


@pytest.mark.parametrize("failure", [OSError(5, "the disk"), ZeroDivisionError("a fault of ours")])
def test_a_duty_that_fails_is_done_again(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Exception | None] = [failure, None]

    async def fail_once(self: Housekeeping) -> None:
        outcome = done.pop(0) if done else None
        if outcome is not None:
            raise outcome

    async def scenario() -> None:
        monkeypatch.setattr(Housekeeping, "remove_due", fail_once)
        broker = await WholeBroker.start()
        async with asyncio.timeout(600):
            while done:
                await asyncio.sleep(1)
        await broker.broker.stop()

    run(scenario())


def test_a_fault_in_one_log_keeps_retention_from_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def apply_retention(self: Partition) -> int:
        number: int = self.topic_partition.partition
        seen.append(number)
        if number == 0:
            raise ZeroDivisionError("a fault of ours")
        return 0

    async def scenario() -> None:
        broker = await WholeBroker.start()
        await broker.create_topic("t", partitions=3)
        monkeypatch.setattr(Partition, "apply_retention", apply_retention)
        seen.clear()
        await broker.broker.housekeeping.apply_retention()
        assert seen[:3] == [0, 1, 2]
        await broker.broker.stop()

    run(scenario())
