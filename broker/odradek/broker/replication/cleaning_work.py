"""Where rounds of compaction run: in a process of their own, or inline on a simulated disk.

Either way the caller gets the runs one after the other, each when its files are on the device. It swaps each in before
it requests the next one. The module is loaded for a broker's first round.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import AsyncGenerator
from typing import Any, Final

from odradek.broker.replication.cleaner import WorkerDied
from odradek.foundation import interpreter
from odradek.foundation.errors import KafkaStorageError
from odradek.storage.compaction.cleaning import Means, clean
from odradek.storage.compaction.frames import SIZE, WorkFailed, encode_frame
from odradek.storage.compaction.offset_map import PlainOffsetMap
from odradek.storage.compaction.task import CleanedRun, CleaningSummary, CleaningTask
from odradek.storage.files import Disk

_MODULE: Final = "odradek.storage.compaction.worker"


class InlineWork:
    """Works on the event loop: for tests, whose disk is in memory."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def runs(self, task: CleaningTask, summary: CleaningSummary) -> AsyncGenerator[CleanedRun, None]:
        offset_map = PlainOffsetMap(
            capacity_bytes=task.map_bytes,
            load_factor=task.map_load_factor,
            records_max=task.offset_range,
            keys_directory=None,
        )
        means = Means(disk=self._disk, offset_map=offset_map)
        for run in clean(task, means, summary):
            await asyncio.sleep(0)
            yield run
            await asyncio.sleep(0)

    async def close(self) -> None:
        pass


class ProcessWork:
    """Works in a process, which is started for the first round and stays for those after it."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def runs(self, task: CleaningTask, summary: CleaningSummary) -> AsyncGenerator[CleanedRun, None]:
        is_over = False
        try:
            process = await self._ensure_process()
            assert process.stdin is not None
            process.stdin.write(encode_frame(task))
            while True:
                message = await self._read(process)
                if not isinstance(message, CleanedRun):
                    is_over = True
                    break
                yield message
                process.stdin.write(encode_frame(True))
        finally:
            if not is_over:
                await self.close()
        if isinstance(message, WorkFailed):
            if message.is_disk:
                raise OSError(message.error_number, message.message)
            raise KafkaStorageError(message.message)
        for name in CleaningSummary.__slots__:
            setattr(summary, name, getattr(message, name))

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            process.kill()
        # Until it has ended it may write.
        await asyncio.shield(process.wait())

    async def _ensure_process(self) -> asyncio.subprocess.Process:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *interpreter.command(_MODULE, str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=interpreter.environment(),
            )
        return process

    async def _read(self, process: asyncio.subprocess.Process) -> Any:
        assert process.stdout is not None
        try:
            (size,) = SIZE.unpack(await process.stdout.readexactly(SIZE.size))
            return pickle.loads(await process.stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise WorkerDied("the process that compacts ended in the middle of a round") from error
