"""Makes every Python that finds this folder on its path look as macOS's does: what only Linux has is gone from modules.

Python imports a module of this name when it starts, before anything of ours. Two parts that macOS has are taken away
too, so that their portable forms are used: `os.sendfile` and uvloop. Left as they are: `sys.platform`, by which the
standard library chooses modules that are not here, and /proc.
"""

from __future__ import annotations

import os
import sys

# What the tests' own means need here: psutil, which is Linux's, and tests.support.costs.
_KEPT = {"socket.AF_PACKET", "os.waitid"}

with open(os.path.join(os.path.dirname(__file__), "linux_names.txt"), encoding="ascii") as _listed:
    _hidden = {*_listed.read().split(), "os.sendfile"} - _KEPT

for _module, _, _name in (_entry.partition(".") for _entry in sorted(_hidden)):
    vars(__import__(_module)).pop(_name, None)

if hasattr(os, "process_cpu_count"):
    # Python 3.13's own, which would use os.sched_getaffinity.
    os.process_cpu_count = os.cpu_count

# An import of it fails as if it was not installed.
sys.modules["uvloop"] = None  # type: ignore[assignment]
