"""One development cluster for each directory.

Two ZooKeeper servers that write into one directory destroy each other's data. The one that `odradek cluster` starts
outlives a killed parent. So the directory's lock is an open file that ZooKeeper inherits: it is held until both have
ended. Brokers have locks of their own in their log directories.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from odradek.foundation.errors import SettingError

_NAME = ".lock"
_PID_BYTES_MAX = 32


class ClusterLock:
    """Held from its creation. A child that inherits `descriptor` holds it too. Raises SettingError when another process
    holds it.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / _NAME
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self.descriptor, _PID_BYTES_MAX).decode(errors="replace").strip() or "?"
            os.close(self.descriptor)
            raise SettingError(
                f"{folder} is in use by another `odradek cluster`, or by the ZooKeeper of one that was killed "
                f"(process {holder}): end it, or give --data another directory"
            ) from None
        self.note(os.getpid())

    def note(self, pid: int) -> None:
        """Write the id of the process whose end frees the directory; a refused process shows it."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{pid}\n".encode(), 0)
