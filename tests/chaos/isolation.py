"""Runs chaos in namespaces of its own (network, mounts, processes), where the machine lets us.

The kernel then always cleans up. When the first process in there ends, even by SIGKILL, every other one is killed. With
the last one, interfaces, firewall rules and mounts are gone. Nothing of it can be seen outside. Root may make
namespaces, others may where user namespaces are allowed; elsewhere chaos runs without them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

ISOLATED: Final = "CHAOS_ISOLATED"
_UNSHARE: Final = (
    *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc"),
    *("--propagation", "private"),
)
# What a run needs: names for network namespaces, links between them, rules that drop packets, small file systems.
_PROBE: Final = (
    "mount -t tmpfs none /run && ip netns add probe && ip link add l0 type veth peer name l1 netns probe"
    " && ip link add b0 type bridge && ip link set l0 master b0 && iptables -w -A INPUT -s 10.1.1.1 -j DROP"
)


def is_isolated() -> bool:
    """Whether this process is in namespaces that `enter` made."""
    return os.environ.get(ISOLATED) == "1"


def enter(module: str = "tests.chaos") -> None:
    """Begin this program, `module`, again in namespaces of its own; returns only where there are none to be had."""
    if is_isolated() or os.environ.get(ISOLATED) == "0":
        return
    for unshare in (_UNSHARE, (*_UNSHARE, "--user", "--map-root-user")):
        if _works((*unshare, "sh", "-c", _PROBE)):
            os.environ[ISOLATED] = "1"
            arguments = [*unshare, sys.executable, "-m", module, *sys.argv[1:]]
            os.execvp(arguments[0], arguments)


def _works(command: tuple[str, ...]) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
