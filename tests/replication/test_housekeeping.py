"""Duties that fail are done again at their next time, whatever failed."""

from __future__ import annotations

import asyncio

import pytest

from odradek.replication.housekeeping import Housekeeping
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
