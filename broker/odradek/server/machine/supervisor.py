"""Keeps the processes of a machine: each end is noticed, and a process that ended starts again, by `RestartRule`.

At the machine's start no process is started twice: one that ends before it was ready ends the start. A process that
ends later starts again after a pause. One that ends too often, or whose settings are wrong, ends the machine. Then all
others stop cleanly, and the machine's exit code shows it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from odradek.foundation.machine_limits import (
    PROCESS_ENDS_MAX,
    PROCESS_ENDS_SECONDS,
    PROCESS_PAUSE_SECONDS,
    PROCESS_PAUSE_SECONDS_MAX,
)
from odradek.foundation.tasks import TaskOwner
from odradek.server.machine.process import Process, describe_end
from odradek.server.start import EXIT_CLEAN, EXIT_FAILED, EXIT_FORCED, EXIT_SETTINGS

logger = logging.getLogger(__name__)


class RestartRule:
    """The ends of one process. `now` is a clock that only goes forward."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._ends: deque[float] = deque(maxlen=PROCESS_ENDS_MAX)

    def note_end(self) -> float | None:
        """The pause in seconds before the process starts again. None when it has ended too often in a short time."""
        now = self._now()
        while self._ends and now - self._ends[0] > PROCESS_ENDS_SECONDS:
            self._ends.popleft()
        if len(self._ends) == PROCESS_ENDS_MAX:
            return None
        pause: float = PROCESS_PAUSE_SECONDS * 2 ** len(self._ends)
        self._ends.append(now)
        return min(pause, PROCESS_PAUSE_SECONDS_MAX)


class Supervisor:
    """Runs processes until `stop` is called, or one of them cannot be kept."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes
        self._stopping = asyncio.Event()
        self._ready: dict[int, str] = {}
        self._is_started = False
        self._exit_code = EXIT_CLEAN

    async def run(self, on_ready: Callable[[Mapping[int, str]], None]) -> int:
        """Returns the machine's exit code. `on_ready` gets the ready lines by process once, when all have one."""
        tasks = TaskOwner("machine", on_failure=lambda name, failure: self._end_with(EXIT_FAILED))
        kept = [
            tasks.start(self._keep(process, on_ready), name=f"process-{process.number}")
            for process in self._processes
        ]
        await asyncio.wait(kept)
        return self._exit_code

    def stop(self) -> None:
        """Let all processes stop cleanly."""
        self._stopping.set()
        for process in self._processes:
            process.terminate()

    def kill(self) -> None:
        """End all processes at once."""
        self._exit_code = EXIT_FORCED
        self._stopping.set()
        for process in self._processes:
            process.kill()

    async def _keep(self, process: Process, on_ready: Callable[[Mapping[int, str]], None]) -> None:
        rule = RestartRule(asyncio.get_running_loop().time)
        while not self._stopping.is_set():
            await process.start()
            if self._stopping.is_set():
                # The signal came while it was being started.
                process.terminate()
            line = await process.wait_until_ready()
            if line is not None:
                self._note_ready(process, line, on_ready)
            code = await process.wait_for_end()
            if self._stopping.is_set():
                # One that was about to start does not follow signals yet, and has nothing open.
                is_clean = code == EXIT_CLEAN or (line is None and code == -signal.SIGTERM)
                if not is_clean and self._exit_code == EXIT_CLEAN:
                    logger.error("process %d ended %s at the stop", process.number, describe_end(code))
                    self._exit_code = EXIT_FAILED
                return
            if not await self._may_start_again(process, code, rule, was_ready=line is not None):
                return

    def _note_ready(self, process: Process, line: str, on_ready: Callable[[Mapping[int, str]], None]) -> None:
        self._ready[process.number] = line
        if self._is_started:
            logger.info("process %d serves again", process.number)
        elif len(self._ready) == len(self._processes):
            self._is_started = True
            on_ready(self._ready)

    async def _may_start_again(
        self, process: Process, code: int, rule: RestartRule, *, was_ready: bool
    ) -> bool:
        """Wait for the pause before another start. False when the machine ends instead."""
        how = describe_end(code)
        if not self._is_started and not was_ready:
            logger.error(
                "process %d ended %s before it was ready; the machine does not start", process.number, how
            )
            self._end_with(code if code > 0 else EXIT_FAILED)
            return False
        pause_seconds = rule.note_end()
        if pause_seconds is None or code == EXIT_SETTINGS:
            why = "it has ended too often" if pause_seconds is None else "its settings are wrong"
            logger.error("process %d ended %s; the machine stops, since %s", process.number, how, why)
            self._end_with(code if code > 0 else EXIT_FAILED)
            return False
        logger.error("process %d ended %s; it starts again in %g s", process.number, how, pause_seconds)
        try:
            async with asyncio.timeout(pause_seconds):
                await self._stopping.wait()
        except TimeoutError:
            return True
        return False

    def _end_with(self, exit_code: int) -> None:
        if self._exit_code == EXIT_CLEAN:
            self._exit_code = exit_code
        self.stop()
