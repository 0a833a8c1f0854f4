"""A task that fails is reported to its owner, and closing ends the others."""

from __future__ import annotations

import asyncio

import pytest

from odradek.foundation.tasks import TaskOwner


async def test_a_failed_task_is_reported_by_name_and_a_cancelled_one_is_not() -> None:
    reported: list[tuple[str, str]] = []

    async def fail() -> None:
        raise ValueError("the disk is gone")

    owner = TaskOwner("flusher", on_failure=lambda name, failure: reported.append((name, str(failure))))
    owner.start(fail(), name="sync")
    waiting = owner.start(asyncio.sleep(60), name="wait")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert owner.running() == [waiting]
    await owner.close()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="flusher is closed and cannot start the task 'late'"):
        owner.start(asyncio.sleep(0), name="late")
    assert reported == [("flusher/sync", "the disk is gone")]
