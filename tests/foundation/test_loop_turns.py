"""A turn of the loop has a part of one coroutine of all that wait, the longest waiting first."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from odradek.foundation.loop_turns import next_turn
from tests.support.loop import run


async def _work(name: str, parts: int, done: list[str]) -> None:
    for _ in range(parts):
        done.append(name)
        await next_turn()


def test_one_of_all_that_wait_continues_in_a_turn() -> None:
    async def story() -> None:
        done: list[str] = []
        tasks = [asyncio.create_task(_work(name, 3, done)) for name in "abc"]
        await asyncio.sleep(0)
        assert "".join(done) == "abc"
        counts = []
        while not all(task.done() for task in tasks):
            before = len(done)
            await asyncio.sleep(0)
            counts.append(len(done) - before)
        assert max(counts) == 1
        assert "".join(done) == "abc" * 3

    run(story())


def test_one_that_is_cancelled_holds_up_no_other() -> None:
    async def story() -> None:
        done: list[str] = []
        tasks = [asyncio.create_task(_work(name, 2, done)) for name in "abc"]
        await asyncio.sleep(0)
        tasks[0].cancel()
        with suppress(asyncio.CancelledError):
            await tasks[0]
        await asyncio.gather(*tasks[1:])
        assert "".join(done) == "abcbc"

    run(story())


def test_each_loop_has_its_own_line() -> None:
    for _ in range(2):
        done: list[str] = []
        run(_work("a", 2, done))
        assert done == ["a", "a"]
