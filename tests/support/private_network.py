"""A network namespace with a loopback of its own: well-known ports such as 9092 are always free in it.

A process holds the namespace and ends with the test's (its stdin closes). Commands enter it by `nsenter`.
As root it needs nothing else; other users need user namespaces. Where neither is allowed `available` is False.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final

# Brings `lo` up (SIOCSIFFLAGS with IFF_UP), says so, and waits for the end of stdin.
_HOLD: Final = """
import fcntl, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))
print("up", flush=True)
sys.stdin.read()
"""


class PrivateNetwork:
    """`with PrivateNetwork() as network: subprocess.run([*network.enter, "curl", …])`."""

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None
        self.enter: list[str] = []
        """What to put before a command to run it inside."""

    def __enter__(self) -> PrivateNetwork:
        unshare, inside = ["unshare", "--net"], ["nsenter"]
        if os.geteuid() != 0:
            unshare += ["--user", "--map-root-user"]
            inside += ["--user", "--preserve-credentials"]
        self._holder = subprocess.Popen(
            [*unshare, sys.executable, "-I", "-c", _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self._holder.stdout is not None and self._holder.stderr is not None
        if self._holder.stdout.readline() != b"up\n":
            said = self._holder.stderr.read().decode(errors="replace").strip()
            self._close_holder()
            raise OSError(f"no network namespace can be made: {said}")
        self.enter = [*inside, "--target", str(self._holder.pid), "--net"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._close_holder()

    def processes(self) -> list[int]:
        """The processes inside, but for the one that holds the namespace: all of them were started through `enter`."""
        assert self._holder is not None
        namespace = os.readlink(f"/proc/{self._holder.pid}/ns/net")
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self._holder.pid:
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "ns/net") == namespace:
                        found.append(int(entry.name))
        return found

    def _close_holder(self) -> None:
        assert self._holder is not None
        self._holder.kill()
        self._holder.wait()
        for pipe in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            if pipe is not None:
                pipe.close()


@cache
def available() -> bool:
    """Whether a namespace can be made here."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return False
    try:
        with PrivateNetwork() as network:
            return subprocess.run([*network.enter, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False
