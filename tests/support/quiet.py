"""Makes room for tests on Kubernetes that bound the time clients wait: `e2e/conftest.py` has them wait for a lock.

ODRADEK_E2E_QUIET_LOCK names its file. Each process that runs tests holds it, except during tests on virtual time: those
take what processors others leave.
"""

from __future__ import annotations

import fcntl
import os

QUIET_LOCK = "ODRADEK_E2E_QUIET_LOCK"
NICENESS_MAX = 19


class BusyLock:
    """The lock of one process; without a path it does nothing."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._held: int | None = None

    def hold(self) -> None:
        """Hold it together with other processes that run tests."""
        if self._path is not None and self._held is None:
            self._held = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._held, fcntl.LOCK_SH)

    def release(self) -> None:
        """Release it, also in processes that were forked since."""
        held, self._held = self._held, None
        if held is not None:
            fcntl.flock(held, fcntl.LOCK_UN)
            os.close(held)


def give_way() -> None:
    """This process and those that it starts run when no other wants a processor. Linux groups them by session."""
    os.setsid()
    os.nice(NICENESS_MAX)
    try:
        with open("/proc/self/autogroup", "w") as group:
            group.write(str(NICENESS_MAX))
    except OSError:
        return  # a kernel without such groups looks at the niceness alone
