"""Space in a log directory: which errors mean a shortage, what is logged of one, and when it ends.

A shortage begins with the first write that is refused. It ends when a file of LOG_DIRECTORY_ROOM_BYTES_MIN bytes can be
written and synced in the directory (`LogDirectory.has_space`). An append that succeeds does not end it. A small batch
may fit where the next one does not, and each such pair would be two log lines. Failures that are no shortage take the
directory offline instead (`storage.directories.directory_set`).
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final

from odradek.foundation.private_files import LINK_REFUSED
from odradek.storage.files import SyncFailed

# The disk or the process lacks something that may become available: the write is refused, and the log stays usable.
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHORTAGES: Final = _FULL | {errno.EFBIG, errno.EMFILE, errno.ENFILE}
# A small file cannot show that these are over. They are when nothing was refused for a while.
_UNSEEN_BY_A_CHECK: Final = frozenset({errno.EFBIG, errno.EMFILE, errno.ENFILE})
_QUIET_SECONDS: Final = 60.0

_MAKE_ROOM: Final = (
    "make room (delete topics, lower their retention with `odradek configs set topic NAME retention.ms=MS`, or "
    "enlarge the volume)"
)
_ADVICE: Final = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: f"{_MAKE_ROOM}, or raise the quota",
    errno.EFBIG: "raise the limit on the size of a file (`ulimit -f`), or lower segment.bytes",
    errno.EMFILE: "raise the limit on open files of this process (`ulimit -n`)",
    errno.ENFILE: "raise the limit on open files of this machine (fs.file-max)",
}
_START_ADVICE: Final = {
    errno.ENOSPC: "nothing in it was lost: delete other files there, or enlarge the volume",
    errno.EDQUOT: "nothing in it was lost: delete other files there, or raise the quota",
    errno.EROFS: "mount it writable, or name another directory with --data or log.dirs",
    errno.EACCES: "give the broker's user the right to write there, or name another directory with --data or log.dirs",
    errno.EPERM: "give the broker's user the right to write there, or name another directory with --data or log.dirs",
    errno.ENOENT: "make the directory, or name another one with --data or log.dirs",
    errno.ENOTDIR: "it must be a directory: name another one with --data or log.dirs",
    errno.ELOOP: "put the file or the folder itself there",
    errno.EEXIST: "it must be a directory: name another one with --data or log.dirs",
}
_START_ADVICE_OTHERWISE: Final = "repair the disk"


def is_shortage(error: OSError) -> bool:
    """Whether what was written before is as safe as it was, and there may be room for more later."""
    return error.errno in _SHORTAGES and not isinstance(error, SyncFailed)


def shortage_advice(error: OSError) -> str:
    return _ADVICE.get(error.errno or 0, _MAKE_ROOM)


def start_advice(error: Exception) -> str:
    """The advice for a log directory that cannot be used when the broker starts."""
    number = error.errno if isinstance(error, OSError) else None
    return _START_ADVICE.get(number or 0, _START_ADVICE_OTHERWISE)


def error_text(error: Exception) -> str:
    """The failure of a directory for people: the reason and the path, without the number of the error."""
    if isinstance(error, OSError) and error.errno:
        reason = LINK_REFUSED if error.errno == errno.ELOOP else os.strerror(error.errno)
        return f"{reason}: {error.filename}" if error.filename else reason
    return str(error)


@dataclass(slots=True)
class Shortage:
    """The lack that refuses the writes of one log directory."""

    error: OSError
    """The first refusal."""
    began_seconds: float
    """By the monotonic clock."""
    last_seconds: float
    """The latest refusal, by the same clock."""
    refused: int = 0
    """The writes that were refused since it began."""

    @property
    def is_full(self) -> bool:
        """Whether the directory lacks bytes; else single files may not grow, or no more may be open."""
        return self.error.errno in _FULL

    @property
    def reason(self) -> str:
        """The operating system's words."""
        return os.strerror(self.error.errno or 0)

    def refuse(self, now_seconds: float) -> None:
        """Count one more refused write."""
        self.refused += 1
        self.last_seconds = now_seconds

    def may_end(self, now_seconds: float) -> bool:
        """Whether a check that finds space now means that the shortage is over."""
        if self.error.errno in _UNSEEN_BY_A_CHECK:
            return now_seconds - self.last_seconds >= _QUIET_SECONDS
        return True

    def sentence(self, path: str, free_bytes: int, now_seconds: float) -> str:
        state = "has been full" if self.is_full else "has refused writes"
        return (
            f"the log directory {path} {state} for {now_seconds - self.began_seconds:.0f} s ({self.reason}, "
            f"{free_bytes} bytes free): records, new partitions and group commits are refused, reads continue; "
            f"{shortage_advice(self.error)}"
        )

    def begin_line(self, path: str, free_bytes: int) -> str:
        """The log's line when it begins."""
        state = "is full" if self.is_full else "refuses writes"
        return (
            f"the log directory {path} {state} ({self.reason}, {free_bytes} bytes free). Records, new partitions and "
            f"group commits are refused there; reads continue. What to do: {shortage_advice(self.error)}; "
            "writes continue by themselves then"
        )

    def end_line(self, path: str, free_bytes: int, now_seconds: float) -> str:
        """The log's line when it ends."""
        return (
            f"the log directory {path} takes writes again after {now_seconds - self.began_seconds:.0f} s "
            f"({free_bytes} bytes free); refused writes: {self.refused}"
        )
