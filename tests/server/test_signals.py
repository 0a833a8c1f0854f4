"""Signals: one stops cleanly, another ends at once, and two that are one stay one."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Callable, Iterator

import pytest

from odradek.server import start
from tests.support.loops import LOOPS

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """uvloop leaves handlers behind, also once it is closed."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("make_loop", LOOPS.values(), ids=LOOPS)
def test_a_second_signal_ends_at_once_unless_it_is_the_first_told_twice(
    make_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(start, "SAME_SIGNAL_SECONDS", 1_000)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        start.follow_signals(stopping)
        handled = asyncio.Event()

        async def send() -> None:
            # Signals are handled in their order, so that the last shows that those before it were.
            loop.add_signal_handler(signal.SIGUSR1, handled.set)
            handled.clear()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)
            async with asyncio.timeout(30):
                await handled.wait()

        await send()
        assert stopping.is_set()
        await send()
        assert ended == []
        monkeypatch.setattr(start, "SAME_SIGNAL_SECONDS", 0)
        await send()
        assert ended == [start.EXIT_FORCED]

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(story())


def test_an_interrupt_before_the_loop_runs_leaves_no_coroutine_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def serve() -> int:
        raise AssertionError("it never ran")

    def interrupted() -> asyncio.AbstractEventLoop:
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "new_event_loop", interrupted)
    main = serve()
    with pytest.raises(KeyboardInterrupt):
        start.run_loop(main)
    assert inspect.getcoroutinestate(main) == inspect.CORO_CLOSED
