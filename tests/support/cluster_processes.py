"""A cluster as users run it: controllers and brokers as processes on loopback, on a real ZooKeeper that runs already.

Left out: ZooKeeper itself (`tests.support.zookeeper`), and anything inside the processes.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from odradek.metadata.image import nodes
from tests.support.broker_process import Broker

# Three times what a process on a busy machine may be silent.
SESSION_MS = 4_000


class Member(Broker):
    """One process: `verb` is broker or controller."""

    def __init__(
        self, folder: Path, verb: str, number: int, *, connect: str, settings: Mapping[str, str]
    ) -> None:
        super().__init__(
            folder / f"{verb}-{number}",
            settings={
                "zookeeper.session.timeout.ms": str(SESSION_MS),
                # Without it the first connection has only a session's time.
                "zookeeper.connection.timeout.ms": "60000",
                **settings,
            },
        )
        self.verb = verb
        self.number = number
        self.connect = connect

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "odradek", self.verb, "--id", str(self.number)]
        command += ["--zookeeper", self.connect, "--listen", self.bootstrap]
        if self.verb == "broker":
            command += ["--data", str(self.data)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command + self.arguments


class Cluster:
    """Brokers 1, 2, … and controllers 101, 102, …; `start` first, `close` at the end."""

    name = "odradek"

    def __init__(
        self,
        folder: Path,
        zookeeper: str,
        *,
        brokers: int = 3,
        controllers: int = 2,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.connect = f"{zookeeper}/{uuid.uuid4()}"
        given = settings or {}
        self.controllers = {
            number: Member(folder, "controller", number, connect=self.connect, settings=given)
            for number in range(101, 101 + controllers)
        }
        self.brokers = {
            number: Member(folder, "broker", number, connect=self.connect, settings=given)
            for number in range(1, brokers + 1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def pids(self) -> Sequence[int]:
        """The processes that serve, but for ZooKeeper's."""
        members = [*self.controllers.values(), *self.brokers.values()]
        return [member.pid for member in members if member.is_running]

    def start(self) -> None:
        """All at once: each waits for those it needs."""
        members = [*self.controllers.values(), *self.brokers.values()]
        with ThreadPoolExecutor(len(members)) as threads:
            list(threads.map(Member.start, members))

    def active_controller(self) -> int:
        """The controller that /controller names; -1 for none, as between two."""
        client = KazooClient(hosts=self.connect)
        client.start()
        try:
            data, _ = client.get("/controller")
            return nodes.read_controller("/controller", data)
        except NoNodeError:
            return -1
        finally:
            client.stop()
            client.close()

    def close(self) -> None:
        for member in (*self.brokers.values(), *self.controllers.values()):
            member.close()
