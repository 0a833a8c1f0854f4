"""No core file of a process that has keys and passwords in its memory.

Only the present limit is taken away, so an administrator gives it back to a running process that is searched for a
fault: `prlimit --core=unlimited --pid PID`. Kernels that pipe core files to a program pass it the limit, and systemd's
and Ubuntu's programs keep to it. Left out: swap space, and programs that may read the process's memory.
"""

from __future__ import annotations

import resource


def write_no_core_file() -> None:
    """From now on, a crash of this process leaves its memory nowhere."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
