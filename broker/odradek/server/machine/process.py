"""One process of a machine: it is started, says that it is ready, and ends.

It has a session of its own, so that Ctrl-C reaches its parent alone. A pipe to it stays open for as long as the parent
runs, and ends it when that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Sequence

from odradek.foundation import interpreter

_READY = "ready "
_READ_BYTES = 4096


class Process:
    """A process that is started as often as it is needed.

    `new_document` makes the line that it reads first, from how often it was started before. It inherits `descriptors`.
    """

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        *,
        new_document: Callable[[int], str],
        descriptors: Sequence[int],
    ) -> None:
        self.number = number
        self._command = list(command)
        self._new_document = new_document
        self._descriptors = tuple(descriptors)
        self._starts = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Its id while it runs."""
        running = self._process
        return None if running is None or running.returncode is not None else running.pid

    async def start(self) -> None:
        """Start it. Raises OSError."""
        document = self._new_document(self._starts)
        self._starts += 1
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=self._descriptors,
            env=interpreter.environment(),
        )
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):  # it has ended, as its owner learns by `wait_for_end`
            self._process.stdin.write(f"{document}\n".encode())
            await self._process.stdin.drain()

    async def wait_until_ready(self) -> str | None:
        """The line with which it says that it serves; None when it ends before."""
        assert self._process is not None and self._process.stdout is not None, "start comes first"
        line = (await self._process.stdout.readline()).decode(errors="replace").strip()
        return line if line.startswith(_READY) else None

    async def wait_for_end(self) -> int:
        """Its exit code; negative for a signal."""
        assert self._process is not None and self._process.stdout is not None, "start comes first"
        while await self._process.stdout.read(_READ_BYTES):
            pass
        return await self._process.wait()

    def terminate(self) -> None:
        """Ask it to stop cleanly."""
        if self.pid is not None and self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once, with all that it has started."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def describe_end(code: int) -> str:
    """How a process ended, for people."""
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
