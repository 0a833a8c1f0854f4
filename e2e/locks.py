"""Locks between processes that run tests beside each other."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, seconds_max: float) -> Iterator[None]:
    """Hold a file's lock alone; the kernel releases it when the process ends. Raises TimeoutError."""
    deadline = time.monotonic() + seconds_max
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{path} is still locked by another process after {seconds_max:.0f} s"
                    ) from None
                time.sleep(1)
            else:
                break
        yield
