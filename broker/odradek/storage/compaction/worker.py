"""The process that compacts: `python -m odradek.storage.compaction.worker PARENT`, started by a broker.

It reads tasks from its standard input and writes its results to its standard output. Both are frames: int32 size, then
the message by pickle. After each run it waits for the broker, which alone renames files and swaps segments.

    in    CleaningTask, then bool for each run: continue or stop
    out   CleanedRun for each run that is written; at the end CleaningSummary, or WorkFailed

It is a process and not a thread. Python's own loops over records would hold the interpreter's lock for milliseconds at
a time, in which no client is answered. It ends with the broker that started it.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO, Final

from odradek.foundation.errors import OdradekError
from odradek.foundation.linux_calls import c_library
from odradek.foundation.scheduling import yield_to_others
from odradek.storage.compaction.cleaning import Means, clean
from odradek.storage.compaction.frames import SIZE, WorkFailed, encode_frame
from odradek.storage.compaction.offset_map import OffsetMap, PlainOffsetMap
from odradek.storage.compaction.task import CleaningSummary, CleaningTask
from odradek.storage.files import SystemDisk

_SIGNAL_OF_PARENTS_DEATH: Final = 1  # prctl's PR_SET_PDEATHSIG


class ThroughputThrottle:
    """Keeps bytes to a rate: `wait` is called with seconds after each read or write that was too early."""

    def __init__(
        self, bytes_per_second: float, *, seconds: Callable[[], float], wait: Callable[[float], None]
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._seconds = seconds
        self._wait = wait
        self._free_at = seconds()

    def spend(self, size_bytes: int) -> None:
        """Note bytes that were read or written; waits until they fit the rate."""
        now = self._seconds()
        # Time that was not used is lost: a burst after a pause would hit the disk at full speed.
        self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
        if self._free_at > now:
            self._wait(self._free_at - now)


class _BrokerGoneError(Exception):
    """The pipe has no reader: the broker was killed, and this process will be."""


def main(parent: int, source: BinaryIO, target: BinaryIO) -> None:
    """Work for the process `parent` until `source` ends."""
    _end_with(parent)
    yield_to_others()
    try:
        while (task := _read(source)) is not None:
            if not _work(task, parent, source, target):
                return
    except _BrokerGoneError:
        # The interpreter flushes at its exit what could not be written. No broker is left to read it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), target.fileno())


def _end_with(parent: int) -> None:
    """Take care that no files are written once another process may own the directory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    library = c_library()
    if library is not None:
        library.prctl(_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)
    # Elsewhere each read and each write checks for it.
    if os.getppid() != parent:
        sys.exit(0)


def _work(task: CleaningTask, parent: int, source: BinaryIO, target: BinaryIO) -> bool:
    """One round; whether the broker is still there."""
    throttle = ThroughputThrottle(task.bytes_per_second, seconds=time.monotonic, wait=time.sleep)

    def spend(size_bytes: int) -> None:
        if os.getppid() != parent:
            sys.exit(0)
        throttle.spend(size_bytes)

    summary = CleaningSummary()
    offset_map: OffsetMap | None = None
    try:
        offset_map = _best_map(task)
        for run in clean(task, Means(disk=SystemDisk(), offset_map=offset_map, spend=spend), summary):
            _write(target, run)
            answer = _read(source)
            if answer is None:
                return False
            if not answer:
                break
    except (OdradekError, OSError, ValueError, MemoryError) as error:
        number = error.errno if isinstance(error, OSError) else None
        _write(
            target,
            WorkFailed(
                is_disk=isinstance(error, OSError),
                error_number=number or 0,
                message=f"{type(error).__name__}: {error}",
            ),
        )
        return True
    finally:
        if offset_map is not None:
            offset_map.close()
    _write(target, summary)
    return True


def _best_map(task: CleaningTask) -> OffsetMap:
    """The fastest map that can be had here: by vectors where numpy is. Raises OSError when its file cannot be made."""
    if importlib.util.find_spec("numpy") is None:
        return PlainOffsetMap(
            capacity_bytes=task.map_bytes,
            load_factor=task.map_load_factor,
            records_max=task.offset_range,
            keys_directory=os.path.dirname(task.directory),
        )
    from odradek.storage.compaction.vector_map import VectorOffsetMap

    return VectorOffsetMap(
        capacity_bytes=task.map_bytes,
        load_factor=task.map_load_factor,
        records_max=task.offset_range,
        # Beside the logs and not among one's files, which a start would read.
        keys_directory=os.path.dirname(task.directory),
    )


def _read(source: BinaryIO) -> Any:
    front = source.read(SIZE.size)
    if len(front) < SIZE.size:
        return None
    (size,) = SIZE.unpack(front)
    data = source.read(size)
    return pickle.loads(data) if len(data) == size else None


def _write(target: BinaryIO, message: object) -> None:
    try:
        target.write(encode_frame(message))
        target.flush()
    except BrokenPipeError as error:
        raise _BrokerGoneError from error


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer)
