"""The most memory that a process has had resident, as Linux counts it: no sampling, so no peak is missed."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Final

# The value that makes the count begin again, in /proc/PROCESS/clear_refs.
_RESET_PEAK: Final = "5"


def are_counted(process: int | str = "self") -> bool:
    """Whether this system counts peaks."""
    return Path(f"/proc/{process}/clear_refs").exists()


def give_back_free() -> None:
    """Let this process keep no freed memory, from which the next allocations would take theirs unseen (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def reset_peak(process: int | str = "self") -> None:
    """Let the count begin again, from what is resident now."""
    Path(f"/proc/{process}/clear_refs").write_text(_RESET_PEAK)


def peak_bytes(process: int | str = "self") -> int:
    return _status(process, "VmHWM")


def resident_bytes(process: int | str = "self") -> int:
    return _status(process, "VmRSS")


def _status(process: int | str, name: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"/proc/{process}/status has no {name}")
