"""What makes a file last beyond a loss of power: one function for each kind of sync, on every system.

macOS answers fsync once the drive has the bytes, which may be in the drive's own memory. F_FULLFSYNC waits for the
medium. Java uses it for FileChannel.force, and so does Kafka. A file system that does not know it gets fsync, as there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

_NOT_KNOWN: Final = (errno.ENOTSUP, errno.EOPNOTSUPP)


def sync(descriptor: int) -> None:
    """Return once the file or directory is on the device, with its times. Raises OSError."""
    if not _sync_fully(descriptor):
        os.fsync(descriptor)


def sync_data(descriptor: int) -> None:
    """Return once the file's bytes and its size are on the device. Raises OSError."""
    if _sync_fully(descriptor):
        return
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _sync_fully(descriptor: int) -> bool:
    """Whether the system has F_FULLFSYNC for this file, which is then synced."""
    if not hasattr(fcntl, "F_FULLFSYNC"):
        return False
    try:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    except OSError as failure:
        if failure.errno not in _NOT_KNOWN:
            raise
        return False
    return True
