"""Signals while a command works: the first ends it cleanly, the second at once. A clean end leaves the group, aborts
the transaction and waits for records that were sent, so it can take a moment.

SIGTERM (`kill`, a container that stops) and SIGHUP (a closed terminal) end a command as Ctrl-C does. Python's own way
ends the process where it stands, and a broker would keep its member for a session timeout. A signal that the caller of
this process ignores (`nohup`) stays ignored.

After a second Ctrl-C asyncio's own runner raises KeyboardInterrupt in the running code, and an unfinished task may then
wait for ever. One press can arrive twice (from the terminal and from `timeout` or `make`). So a second one right after
the first does not count.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from functools import partial
from typing import Final, TypeVar

T = TypeVar("T")

SAME_PRESS_SECONDS = 0.3
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """A signal other than Ctrl-C ended the command. It is no Exception, like KeyboardInterrupt."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def exit_code_of(number: int) -> int:
    """The shell's exit code of a command that a signal ended."""
    return 128 + number


def run(main: Coroutine[object, None, T]) -> T:
    """As `asyncio.run`. Raises KeyboardInterrupt once `main` has ended after a Ctrl-C, and Terminated after another
    signal.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        received: list[tuple[float, int]] = []

        def handle_signal(number: int) -> None:
            now = loop.time()
            if received and now - received[0][0] > SAME_PRESS_SECONDS:
                os._exit(exit_code_of(number))
            received.append((now, number))
            if len(received) == 1 and tasks:
                tasks[0].cancel()

        async def work() -> T:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            if received:
                task.cancel()
            return await main

        tasks: list[asyncio.Task[object]] = []
        for number in SIGNALS:
            if number == signal.SIGINT or signal.getsignal(number) is signal.SIG_DFL:
                loop.add_signal_handler(number, partial(handle_signal, number))
        try:
            return runner.run(work())
        except asyncio.CancelledError:
            if not received:
                raise
            first = received[0][1]
            raise (KeyboardInterrupt if first == signal.SIGINT else Terminated(first)) from None
