"""The processes of a development cluster: started together, watched, stopped cleanly, each event one line.

Children have process groups of their own, so that Ctrl-C reaches only their parent, which stops brokers before
controllers and these before ZooKeeper. A child logs to a file, and prints a `ready` line that the parent waits for. The
end of a child is printed, and the child is not started again: developers end children on purpose.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from odradek.foundation import interpreter

_STOP_SECONDS_MAX = 30.0
_START_SECONDS_MAX = 60.0
_PROBE_SECONDS = 0.05


class ChildFailed(Exception):
    """A child ended before it was ready; the message says where its log is."""


class Child:
    """One process: `name` in the lines that are printed, `log` where it writes, `inherits` descriptors that it gets."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, inherits: Collection[int] = ()
    ) -> None:
        self.name = name
        self._inherits = tuple(inherits)
        self.command = list(command)
        self.log = log
        self.address = ""
        self.is_stopping = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "start comes first"
        return self._process.pid

    async def start(self, *, is_ready: Callable[[], bool] | None = None) -> None:
        """Start, and wait for its `ready` line, or until `is_ready`. Raises ChildFailed."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if is_ready is not None else asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=self._inherits,
                env=interpreter.environment(),
            )
        wait = self._ready_line() if is_ready is None else self._probe(is_ready)
        try:
            async with asyncio.timeout(_START_SECONDS_MAX):
                await wait
        except TimeoutError:
            raise ChildFailed(
                f"{self.name} was not ready after {_START_SECONDS_MAX:.0f} s; see {self.log}"
            ) from None

    async def _ready_line(self) -> None:
        assert self._process is not None and self._process.stdout is not None, "start comes first"
        line = (await self._process.stdout.readline()).decode(errors="replace")
        if not line.startswith("ready "):
            raise ChildFailed(f"{self.name} did not start: {self._last_words()}; see {self.log}")
        self.address = next((word for word in line.split() if "://" in word), "").partition("://")[2]

    async def _probe(self, is_ready: Callable[[], bool]) -> None:
        while not await asyncio.to_thread(is_ready):
            if not self.is_running:
                raise ChildFailed(f"{self.name} did not start: {self._last_words()}; see {self.log}")
            await asyncio.sleep(_PROBE_SECONDS)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it printed nothing")

    async def wait_for_end(self) -> int:
        """Its exit code, once it has one; negative for a signal."""
        assert self._process is not None, "start comes first"
        return await self._process.wait()

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not end it."""
        if not self.is_running or self._process is None:
            return
        self.is_stopping = True
        self._process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_SECONDS_MAX):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        if self.is_running and self._process is not None:
            self.is_stopping = True
            os.killpg(self._process.pid, signal.SIGKILL)


class Children:
    """All processes, in groups that are started one after the other and stopped in reverse order."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._groups: list[list[Child]] = []
        self._watches: list[asyncio.Task[None]] = []

    async def start(self, *children: Child, is_ready: Callable[[], bool] | None = None) -> None:
        """Start a group together. Raises ChildFailed."""
        self._groups.append(list(children))

        async def one(child: Child) -> None:
            await child.start(is_ready=is_ready)
            self._say(f"{child.name} ready {child.address}".rstrip())
            self._watches.append(asyncio.ensure_future(self._watch(child)))

        await _all(*(one(child) for child in children))

    async def _watch(self, child: Child) -> None:
        code = await child.wait_for_end()
        if not child.is_stopping:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
            self._say(f"{child.name} ended {how}; start it again with: {shlex.join(child.command)}")

    async def stop(self) -> None:
        """Stop all groups, the last one first."""
        while self._groups:
            group = self._groups.pop()
            running = [child for child in group if child.is_running]
            await _all(*(child.stop() for child in running))
            for child in running:
                self._say(f"{child.name} stopped")
        for watch in self._watches:
            watch.cancel()

    def kill(self) -> None:
        """End all at once."""
        for group in self._groups:
            for child in group:
                child.kill()


async def _all(*work: Awaitable[None]) -> None:
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
