"""A cluster to be hurt: ZooKeeper, two controllers and three brokers, each in its place of the network.

Brokers' disks are small file systems of their own where those can be mounted. Elsewhere a limit of the files' sizes
stands for a full disk.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from odradek.metadata.image import nodes, paths
from tests.chaos.error_log import new_errors
from tests.chaos.history import ErrorLogged, Event, HistoryFile, now
from tests.chaos.in_force import Undo
from tests.chaos.isolation import is_isolated
from tests.chaos.network import Namespaces, Network
from tests.chaos.processes import Process, odradek
from tests.chaos.proxies import Proxies
from tests.chaos.sessions import end_session
from tests.chaos.warden import SETTINGS as GUARDED_SETTINGS
from tests.support.zookeeper import ZooKeeper

BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (101, 102)
ZOOKEEPER: Final = "zookeeper"
DISK_BYTES: Final = 96 * 1024 * 1024
START_SECONDS_MAX: Final = 120.0

# A dead process is noticed after four seconds, as in the other tests of clusters. That is three times as long as a
# process on a busy machine is silent. A start waits for a ZooKeeper that is away.
SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": "4000",
    "zookeeper.connection.timeout.ms": "60000",
    "replica.lag.time.max.ms": "4000",
    "replica.socket.timeout.ms": "4000",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "log.segment.bytes": "1048576",
    "log.segment.delete.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "leader.imbalance.check.interval.seconds": "5",
    "leader.imbalance.per.broker.percentage": "0",
}


def broker(number: int) -> str:
    return f"broker-{number}"


def controller(number: int) -> str:
    return f"controller-{number}"


class ChaosCluster:
    """Make it, `start`, hurt it, `close`. `folder` keeps logs; data are in it too where nothing can be mounted."""

    def __init__(
        self,
        folder: Path,
        history: HistoryFile,
        *,
        is_guarded: bool = False,
        settings: Mapping[str, str] | None = None,
        disk_bytes: int = DISK_BYTES,
    ) -> None:
        """With `is_guarded` brokers and controllers have an authorizer. `settings` are more than those of all."""
        self.is_guarded = is_guarded
        self._settings = {**SETTINGS, **(GUARDED_SETTINGS if is_guarded else {}), **(settings or {})}
        self._disk_bytes = disk_bytes
        self.folder = folder
        self.history = history
        self.network: Network = Namespaces() if is_isolated() else Proxies()
        self.processes: dict[str, Process] = {}
        self.is_zookeeper_paused = False
        self._zookeeper_runs = False
        self._read_up_to: dict[str, int] = {}
        place = self.network.add(ZOOKEEPER, 2181)
        host, _, port = place.listen.rpartition(":")
        self.zookeeper = ZooKeeper(
            folder / ZOOKEEPER, host=host, port=int(port), wrapper=self.network.wrapper(ZOOKEEPER)
        )
        self.registry_address = place.advertised
        self.connect = f"{place.advertised}/chaos"
        self._addresses: list[str] = []
        controllers = [self._add("controller", number, 9093) for number in CONTROLLERS]
        for number in BROKERS:
            self._mount(self.data(number))
            self._addresses.append(self._add("broker", number, 9092, "--data", str(self.data(number))))
        self.addresses = [*self._addresses, *controllers]
        """HOST:PORT of all brokers, then of all controllers."""
        self._client: KazooClient | None = None

    def _add(self, verb: str, number: int, port: int, *more: str) -> str:
        name = f"{verb}-{number}"
        place = self.network.add(name, port)
        arguments = ["--id", str(number), "--zookeeper", self.connect, "--listen", place.listen]
        arguments += ["--advertise", place.advertised, *more]
        for key, value in self._settings.items():
            arguments += ["--set", f"{key}={value}"]
        self.processes[name] = Process(
            name,
            [*self.network.wrapper(name), *odradek(verb, *arguments)],
            log=self.folder / f"{name}.log",
            on_started=self.network.runs_as,
        )
        return place.advertised

    @property
    def bootstrap(self) -> str:
        return ",".join(self._addresses)

    def data(self, number: int) -> Path:
        return self.folder / f"data-{number}"

    def _mount(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        if is_isolated():
            command = ("mount", "-t", "tmpfs", "-o", f"size={self._disk_bytes}", "none", str(folder))
            subprocess.run(command, check=True)

    # --- its life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """All at once. Raises AssertionError when something does not come up."""
        self.start_zookeeper()
        for process in self.processes.values():
            process.start()
        deadline = time.monotonic() + START_SECONDS_MAX
        for process in self.processes.values():
            while not process.is_ready.wait(0.1):
                if not process.is_running or time.monotonic() > deadline:
                    raise AssertionError(f"{process.name} did not get ready\n{process.said()[-4000:]}")

    def start_zookeeper(self) -> None:
        if not self._zookeeper_runs:
            self.zookeeper.start()
            self._zookeeper_runs = True
            self.network.runs_as(ZOOKEEPER, self.zookeeper.pid)

    def kill_zookeeper(self) -> None:
        if self._zookeeper_runs:
            self.zookeeper.kill()
            self._zookeeper_runs = False

    def pause(self, name: str) -> tuple[str, Undo]:
        """Stop a process as SIGSTOP does: what it is, and what lets it continue."""
        process = self.processes[name]
        process.pause()
        return f"SIGSTOP of {name}", process.go_on

    def pause_zookeeper(self) -> tuple[str, Undo]:
        """As `pause`. It may be dead just now, and again when it is to continue."""
        with contextlib.suppress(AssertionError):
            self.zookeeper.pause()

        def undo() -> None:
            with contextlib.suppress(AssertionError):
                self.zookeeper.go_on()

        return "SIGSTOP of ZooKeeper", undo

    def look(self) -> list[Event]:
        """Start again what gave up; returns what was learned from the processes since the last look."""
        events: list[Event] = []
        for process in self.processes.values():
            if (ended := process.look()) is not None:
                events.append(ended)
            events += self._new_errors(process)
        return events

    def _new_errors(self, process: Process) -> list[Event]:
        """Errors that the process has written since the last look, and no fault explains."""
        found = new_errors(process.log, self._read_up_to.get(process.name, 0))
        self._read_up_to[process.name] = found.read_up_to
        return [ErrorLogged(at=now(), process=process.name, text=text) for text in found.errors]

    def close(self) -> None:
        for process in self.processes.values():
            with contextlib.suppress(AssertionError):
                if process.is_running:
                    process.kill()
        if self._client is not None:
            with contextlib.suppress(KazooException):
                self._client.stop()
            self._client.close()
        self.zookeeper.close()
        self.network.close()
        if is_isolated():
            for number in BROKERS:
                subprocess.run(("umount", "-l", str(self.data(number))), check=False, capture_output=True)

    # --- the registry, as the test sees it -----------------------------------------------------------------------

    def registry(self) -> KazooClient:
        """A client that outlives ZooKeeper's restarts. Its calls raise KazooException while it is away."""
        if self._client is None:
            self._client = KazooClient(hosts=self.connect, timeout=4.0, connection_retry={"max_tries": -1})
            self._client.start(timeout=60)
        return self._client

    def active_controller(self) -> str | None:
        """The name of the active controller; None while there is none, or no server answers."""
        with contextlib.suppress(KazooException, self.registry().handler.timeout_exception):
            data, _ = self.registry().get_async(paths.CONTROLLER).get(timeout=2)
            return controller(nodes.read_controller(paths.CONTROLLER, data))
        return None

    def leader_of(self, topic: str, partition: int) -> int | None:
        path = f"{paths.TOPICS}/{topic}/partitions/{partition}/state"
        with contextlib.suppress(KazooException, self.registry().handler.timeout_exception):
            data, _ = self.registry().get_async(path).get(timeout=2)
            leader = int(nodes.read_json(path, data)["leader"])
            return leader if leader >= 0 else None
        return None

    def expire(self, path: str) -> bool:
        """End the session of an ephemeral node; returns whether there was one."""
        host, _, port = self.registry_address.rpartition(":")
        with contextlib.suppress(KazooException, OSError, self.registry().handler.timeout_exception):
            stat = self.registry().exists_async(path).get(timeout=2)
            return stat is not None and end_session(host, int(port), stat.ephemeralOwner)
        return False

    # --- disks ---------------------------------------------------------------------------------------------------

    def fill_disk(self, number: int) -> None:
        """Not a byte more can be written by a broker until `free_disk`."""
        if is_isolated():
            with (
                contextlib.suppress(OSError),
                (self.data(number) / "filler").open("wb", buffering=0) as filler,
            ):
                for size in (1 << 20, 4096):
                    with contextlib.suppress(OSError):
                        while filler.write(bytes(size)):
                            pass
            return
        process = self.processes[broker(number)]
        if process.is_running:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    def free_disk(self, number: int) -> None:
        (self.data(number) / "filler").unlink(missing_ok=True)
        process = self.processes[broker(number)]
        if not is_isolated() and process.is_running:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(
                    process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )
