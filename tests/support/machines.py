"""Machines of several brokers as users run them: `odradek broker --processes N`, a parent and its processes."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.broker_process import free_port
from tests.support.cluster_processes import Cluster, Member
from tests.support.polling import wait_until


class Machine(Member):
    """A machine of so many processes, with a port for metrics and probes."""

    def __init__(
        self, folder: Path, number: int, *, processes: int, connect: str, settings: Mapping[str, str]
    ) -> None:
        super().__init__(folder, "broker", number, connect=connect, settings=settings)
        self.processes = processes
        self.admin = f"127.0.0.1:{free_port()}"
        self.arguments += ["--admin", self.admin]

    def command(self) -> list[str]:
        more = [] if self.processes == 1 else ["--processes", str(self.processes)]
        return super().command() + more

    @property
    def broker_ids(self) -> list[int]:
        """The ids of its brokers, by the rule."""
        return [self.number + 10_000 * place for place in range(self.processes)]

    def ask(self, path: str) -> tuple[int, str]:
        """(status, text) of a page of its admin port."""
        try:
            with urllib.request.urlopen(f"http://{self.admin}{path}", timeout=20) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def processes_by_number(self) -> dict[int, int]:
        """The process ids of the brokers that run now, by their number on this machine."""
        found: dict[int, int] = {}
        if self.processes == 1:
            return {1: self.pid}
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for child in children:
            log_dirs = _log_directories(int(child))
            if log_dirs is not None:
                found[log_dirs] = int(child)
        return found

    def kill_all(self) -> None:
        """End the parent and its processes at once, as a machine without power."""
        brokers = self.processes_by_number().values()
        for pid in {self.pid, *brokers}:
            os.kill(pid, signal.SIGSTOP)
        for pid in {*brokers} - {self.pid}:
            os.kill(pid, signal.SIGKILL)
        self.kill()


def _log_directories(pid: int) -> int | None:
    """The number of a process, by the log directory that it holds locked; None for one that holds none."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(link)
        except OSError:
            continue
        if target.endswith("/.lock"):
            folder = target.rpartition("/")[0].rpartition("/")[2]
            return int(folder.removeprefix("process.")) if folder.startswith("process.") else 1
    return None


class ClusterOfMachines(Cluster):
    """Controllers, and machines 1, 2, … of so many processes."""

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        machines: int = 3,
        processes: int = 2,
        controllers: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, zookeeper, brokers=0, controllers=controllers, settings=settings)
        self.machines = {
            number: Machine(
                folder, number, processes=processes, connect=self.connect, settings=settings or {}
            )
            for number in range(1, machines + 1)
        }
        self.brokers = dict(self.machines)

    def start(self) -> None:
        members = [*self.controllers.values(), *self.machines.values()]
        with ThreadPoolExecutor(len(members)) as threads:
            list(threads.map(Member.start, members))

    def await_ready(self) -> None:
        """Until each machine says that all of its brokers serve."""
        for machine in self.machines.values():
            wait_until("a machine is ready", lambda one=machine: one.ask("/readyz")[0] == 200)  # type: ignore[misc]
