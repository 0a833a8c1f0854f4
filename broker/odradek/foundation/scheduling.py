"""Asks Linux for short time slices, so that a broker does not wait behind programs that compute.

A record that passes three brokers needs a core a dozen times, for a tenth of a millisecond each. Since 6.12 a thread
can request a shorter slice. It then runs sooner after it slept, gets no larger share, and is preempted sooner too. The
compacting process requests the longest ones: a thread that wakes preempts it at once, and its share stays.

The request needs no privilege. Older kernels accept and ignore it. Other systems and processors are left as they are.

Sources: sched_setattr(2); Linux, "sched/eevdf: Use sched_attr::sched_runtime to set request/slice suggestion".
"""

from __future__ import annotations

import logging
import os
import platform
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.foundation.linux_calls import c_library

if TYPE_CHECKING:
    from ctypes import CDLL

logger = logging.getLogger(__name__)

# Longer than the event loop usually needs for a record, shorter than the kernel's default; the minimum is 0.1 ms.
SHORT_NANOSECONDS: Final = 400_000
# The kernel's maximum.
LONG_NANOSECONDS: Final = 100_000_000

# sched_setattr and sched_getattr, for which few C libraries have names yet.
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
_ATTRIBUTES: Final = Struct("=IIQiIQQQ")
_NICENESS: Final = 10
# ioprio_set has no wrapper in the C library. Its first argument says that the second one is a process, 0: this one.
_IOPRIO_SET: Final = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS: Final = 1
_IOPRIO_IDLE: Final = 3 << 13
# SCHED_OTHER and SCHED_BATCH: another policy was set on purpose, and stays.
_POLICIES: Final = (0, 3)


class _Attributes(NamedTuple):
    size: int
    policy: int
    flags: int
    nice: int
    priority: int
    runtime: int
    deadline: int
    period: int


def ask_for_slices(nanoseconds: int) -> bool:
    """Request slices of this length for all threads of this process, and those that they start.

    Returns whether the system accepted.
    """
    call_numbers = _CALLS.get(platform.machine())
    library = c_library()
    if library is None or call_numbers is None:
        return False
    try:
        for thread in os.listdir("/proc/self/task"):
            # A thread may have ended since the listing.
            with suppress(ProcessLookupError):
                _ask(library, call_numbers, int(thread), nanoseconds)
    except OSError as failure:
        logger.info(
            "the system grants no time slices of another length, and all works without them: %s", failure
        )
        return False
    return True


def yield_to_others() -> None:
    """Take processor and disk only as far as nothing else asks for them."""
    os.nice(_NICENESS)
    ask_for_slices(LONG_NANOSECONDS)
    number = _IOPRIO_SET.get(platform.machine())
    library = c_library()
    if library is not None and number is not None:
        # Where the kernel refuses it, the work is done all the same.
        library.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def _ask(library: CDLL, call_numbers: tuple[int, int], thread: int, nanoseconds: int) -> None:
    set_number, get_number = call_numbers
    known = bytearray(_ATTRIBUTES.size)
    _call(library, get_number, thread, known, _ATTRIBUTES.size, 0)
    attributes = _Attributes(*_ATTRIBUTES.unpack(known))
    if attributes.policy in _POLICIES:
        wished = attributes._replace(size=_ATTRIBUTES.size, runtime=nanoseconds)
        _call(library, set_number, thread, bytearray(_ATTRIBUTES.pack(*wished)), 0)


def _call(library: CDLL, number: int, thread: int, attributes: bytearray, *more: int) -> None:
    import ctypes

    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    if library.syscall(number, thread, ctypes.byref(buffer), *more):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
