"""The work queue on virtual time: coalescing, one at a time for each key, backoff, the earlier of two times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random
from typing import Any

from odradek_operator.foundation.keys import Key
from odradek_operator.foundation.queue import WorkQueue

A, B = Key("Topic", "default", "a"), Key("Topic", "default", "b")


class Worker:
    """Notes each start, and takes `seconds` over it; `answers` and `failures` are used up in order."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.origin = asyncio.get_running_loop().time()
        self.began: list[tuple[float, str]] = []
        self.failures = 0
        self.answers: list[float | None] = []
        self.at_once: dict[Key, int] = {}
        self.most_at_once = 0
        self.most_in_all = 0

    async def __call__(self, key: Key) -> float | None:
        self.began.append((round(asyncio.get_running_loop().time() - self.origin, 3), key.name))
        self.at_once[key] = self.at_once.get(key, 0) + 1
        self.most_at_once = max(self.most_at_once, self.at_once[key])
        self.most_in_all = max(self.most_in_all, sum(self.at_once.values()))
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once[key] -= 1
        if self.failures:
            self.failures -= 1
            raise OSError("nobody there")
        return self.answers.pop(0) if self.answers else None


@asynccontextmanager
async def working(worker: Worker, *, workers: int = 1, **settings: Any) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(worker, workers=workers, **settings)
    queue.start()
    yield queue
    await queue.close()


async def test_a_key_added_while_in_work_runs_once_more_and_never_concurrently() -> None:
    worker = Worker()
    async with working(worker, workers=4) as queue:
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(0.5)
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(10)
    assert worker.began == [(0.0, "a"), (1.0, "a")]
    assert worker.most_at_once == 1


async def test_no_more_are_worked_on_than_there_are_workers() -> None:
    worker = Worker()
    async with working(worker, workers=3) as queue:
        for number in range(30):
            queue.add(Key("Topic", "default", str(number)))
        assert queue.waiting == 30
        await asyncio.sleep(100)
        assert queue.idle and queue.done == 30
    assert worker.most_in_all == 3


async def test_failures_come_back_later_and_later_but_never_later_than_the_bound() -> None:
    worker = Worker(seconds=0)
    worker.failures = 20
    async with working(worker, pause_seconds_min=1, pause_seconds_max=60, random=Random(1)) as queue:
        queue.add(A)
        await asyncio.sleep(3_000)
        assert (queue.failed, queue.done, queue.failing) == (20, 1, 0)
    times = [time for time, _ in worker.began]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] <= 2 and all(pause <= 60.001 for pause in pauses)
    assert all(pause >= 30 for pause in pauses[6:]), pauses
    assert len({round(pause, 2) for pause in pauses[6:]}) > 5, "pauses without jitter"


async def test_an_event_does_not_wait_for_the_end_of_a_pause() -> None:
    worker = Worker(seconds=0)
    worker.failures = 10
    async with working(worker, pause_seconds_min=100, pause_seconds_max=1000, random=Random(1)) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        await asyncio.sleep(1)
    assert [time for time, _ in worker.began] == [0.0, 1.0]


async def test_the_earlier_of_several_times_counts() -> None:
    worker = Worker(seconds=0)
    async with working(worker) as queue:
        queue.add(A, after_seconds=50)
        queue.add(A, after_seconds=10)
        queue.add(A, after_seconds=20)
        await asyncio.sleep(100)
    assert worker.began == [(10.0, "a")]


async def test_a_worker_that_asks_for_it_looks_again_and_others_are_not_held_up() -> None:
    worker = Worker(seconds=0)
    worker.answers = [5.0, None]
    async with working(worker) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(B)
        await asyncio.sleep(100)
    assert worker.began == [(0.0, "a"), (1.0, "b"), (5.0, "a")]
