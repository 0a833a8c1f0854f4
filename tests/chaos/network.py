"""The network between processes: a namespace for each, and firewall rules that drop what one sends to another.

    clients (this process) ── bridge ──┬── broker-1
                                       ├── controller-101
                                       └── zookeeper …

A fault drops packets in one direction, as a broken switch does. No process is notified: connections stay open and time
out. `proxies` offers the same where there are no namespaces. Left out: delay and loss of single packets, which the
simulation has.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

CLIENTS: Final = "clients"
_BRIDGE: Final = "hub"
_PREFIX: Final = "10.77.0."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a process listens, and the address that it advertises: HOST:PORT each."""

    listen: str
    advertised: str


class Network(Protocol):
    """The network between named processes; `CLIENTS` is everything that has no name of its own."""

    def add(self, name: str, port: int) -> Endpoint:
        """Make a place for a process; `port` is what it listens on where ports are free to choose."""
        ...

    def wrapper(self, name: str) -> Sequence[str]:
        """What a command begins with to run in its place."""
        ...

    def runs_as(self, name: str, pid: int) -> None:
        """The process of this name has this pid now."""
        ...

    def cut(self, source: str, target: str) -> None:
        """Lose what `source` sends to `target`."""
        ...

    def mend(self, source: str, target: str) -> None: ...

    def close(self) -> None: ...


class Namespaces:
    """Only for a process that `isolation` has put into namespaces of its own."""

    def __init__(self) -> None:
        self._addresses = {CLIENTS: f"{_PREFIX}1"}
        self._cuts: set[tuple[str, str]] = set()
        _run("mount", "-t", "tmpfs", "none", "/run")
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", _BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{_PREFIX}1/24", "dev", _BRIDGE)
        _run("ip", "link", "set", _BRIDGE, "up")

    def add(self, name: str, port: int) -> Endpoint:
        number = 10 + len(self._addresses)
        address = self._addresses[name] = f"{_PREFIX}{number}"
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", f"to{number}", "master", _BRIDGE, "up")
        inside = ("ip", "-n", name)
        _run(*inside, "addr", "add", f"{address}/24", "dev", "eth0")
        _run(*inside, "link", "set", "eth0", "up")
        _run(*inside, "link", "set", "lo", "up")
        return Endpoint(f"{address}:{port}", f"{address}:{port}")

    def wrapper(self, name: str) -> Sequence[str]:
        return () if name == CLIENTS else ("nsenter", f"--net=/run/netns/{name}")

    def runs_as(self, name: str, pid: int) -> None:
        """Names are by place here."""

    def cut(self, source: str, target: str) -> None:
        if (source, target) not in self._cuts:
            self._cuts.add((source, target))
            self._rule("-A", source, target)

    def mend(self, source: str, target: str) -> None:
        if (source, target) in self._cuts:
            self._rule("-D", source, target)
            self._cuts.discard((source, target))

    def _rule(self, what: str, source: str, target: str) -> None:
        rule = ("iptables", "-w", what, "INPUT", "-s", self._addresses[source], "-j", "DROP")
        _run(*self.wrapper(target), *rule)

    def close(self) -> None:
        """The kernel removes it all with the last process."""


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(command)} -> {done.returncode}: {done.stderr}"
