"""Ctrl-C while a command works: the first ends it cleanly, the second at once. A clean end leaves the group and waits
for records that were sent, so it can take a moment. After a second Ctrl-C asyncio's own runner raises KeyboardInterrupt
in the running code, and an unfinished task may then wait for ever. One press can arrive twice (from the terminal and
from `timeout` or `make`). So a second one right after the first does not count.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import TypeVar

from odradek.cli.exit_codes import ExitCode

T = TypeVar("T")

SAME_PRESS_SECONDS = 0.3


def run(main: Coroutine[object, None, T]) -> T:
    """As `asyncio.run`. Raises KeyboardInterrupt once `main` has ended after a Ctrl-C."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        interrupts: list[float] = []

        def handle_interrupt() -> None:
            now = loop.time()
            if interrupts and now - interrupts[0] > SAME_PRESS_SECONDS:
                os._exit(ExitCode.INTERRUPTED)
            interrupts.append(now)
            if len(interrupts) == 1 and tasks:
                tasks[0].cancel()

        async def work() -> T:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            if interrupts:
                task.cancel()
            return await main

        tasks: list[asyncio.Task[object]] = []
        loop.add_signal_handler(signal.SIGINT, handle_interrupt)
        try:
            return runner.run(work())
        except asyncio.CancelledError:
            if interrupts:
                raise KeyboardInterrupt from None
            raise
