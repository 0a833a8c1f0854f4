"""The C library of Linux, for the few calls that Python has no function for; other systems have none of them.

This module alone loads it. A caller takes None for an answer and works without what it would have asked for.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctypes import CDLL


def c_library() -> CDLL | None:
    """The C library, which notes `errno`; None where the system is another."""
    # A Python without Linux's own functions is one that a test makes look like another system's.
    if sys.platform == "linux" and hasattr(os, "sched_setscheduler"):
        # Imported after the start, which it does not slow.
        import ctypes

        return ctypes.CDLL(None, use_errno=True)
    return None
