"""Memory that a virtual machine's host has backed already, handed over as a log grows.

A guest's memory often returns to the host seconds after it is freed. The next touch of each page then costs a fault in
the host: up to 2.5 s of system time a gigabyte, where writing takes 0.5 s. It affects every program that writes to
fresh memory, and hides what a benchmark measures. So as much memory as a log will take is touched before a measurement.
It is released in step with the log's growth, for both brokers alike. On a machine of one's own it changes nothing.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEGABYTE = 1 << 20
FRAMING_BYTES = 12  # of a record in its batch, and its share of the batch's header
AHEAD_BYTES = 64 * _MEGABYTE  # released before it is requested
TICK_SECONDS = 0.01  # a log that grows by 1 GB/s takes 10 MB in that time


def log_bytes(*, records: int, record_bytes: int) -> int:
    """About what records take in a log, with what frames them and a tenth to spare."""
    return int(records * (record_bytes + FRAMING_BYTES) * 1.1)


@contextmanager
def touched(size_bytes: int) -> Iterator[None]:
    """Hold `size_bytes` of touched memory, and release as much as others take within the block."""
    with tempfile.TemporaryFile(dir="/dev/shm") as held:
        block = b"x" * _MEGABYTE
        for _ in range(size_bytes // _MEGABYTE):
            held.write(block)
        held.flush()
        is_over = threading.Event()
        releasing = threading.Thread(
            target=_release, args=(held.fileno(), is_over), name="memory", daemon=True
        )
        releasing.start()
        try:
            yield
        finally:
            is_over.set()
            releasing.join()


def _release(descriptor: int, is_over: threading.Event) -> None:
    """Shrink the file whenever less memory is free than there was, until nothing is left of it."""
    size = os.fstat(descriptor).st_size
    kept_free = _free_bytes() + AHEAD_BYTES
    while size and not is_over.wait(TICK_SECONDS):
        lacking = kept_free - _free_bytes()
        if lacking > 0:
            size = max(size - lacking, 0)
            os.ftruncate(descriptor, size)


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemFree:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/meminfo names no MemFree")
