"""An Odradek broker as users run it: a process on loopback which tests stop, kill and start again.

The folder and the port stay the same over restarts, so clients find the broker again. A `Broker` here and a
`kafka_peer.KafkaPeer` answer the same calls: a test that differs between them has found something.

Left out: anything inside the process. Faults within one process belong to the simulation.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.support.certificates import Authority
from tests.support.local_process import LocalProcess

CHECKOUT = Path(__file__).resolve().parents[2]
READY_SECONDS_MAX = 60


# Below the ports that the kernel gives to outgoing connections, and those that Kubernetes gives to Services.
_PORTS = range(15_000, 30_000)


def free_port() -> int:
    """A port of 127.0.0.1 that is free, and stays so until a process takes it.

    A port that the kernel chooses may be an outgoing connection's before the process that it is for listens. So ports
    are counted in a file, which all test processes of this machine share.
    """
    with Path(tempfile.gettempdir(), f"odradek-tests-port-{os.getuid()}").open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or _PORTS.start)
        for _ in _PORTS:
            port = port + 1 if port + 1 in _PORTS else _PORTS.start
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                break
        else:
            raise OSError(f"no port of 127.0.0.1 from {_PORTS.start} to {_PORTS.stop - 1} is free")
        counter.truncate(0)
        counter.write(str(port))
        return port


class Broker(LocalProcess):
    """`odradek start` on 127.0.0.1; `settings` are Kafka's keys, given by `--set`."""

    name = "odradek"

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        wrapper: Sequence[str] = (),
        arguments: Sequence[str] = (),
    ) -> None:
        super().__init__(folder / "broker.log")
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self.settings = dict(settings or {})
        self.arguments = list(arguments)
        self._wrapper = list(wrapper)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        command = [*self._wrapper, sys.executable, "-m", "odradek", "start"]
        command += ["--listen", self.bootstrap, "--data", str(self.data)]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        return command + self.arguments

    def write_properties(self, settings: Mapping[str, str]) -> Path:
        """A file of settings for `--config`, since arguments can be seen by all users of a machine."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "server.properties"
        lines = (f"{key}={text}\n" for key, text in settings.items())
        path.write_text("".join(line.replace("\\", "\\\\").replace("\\\\n", "\\n") for line in lines))
        return path

    def start(self) -> float:
        """Start and wait for the `ready` line; seconds from exec to it."""
        started = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / "broker")}
        self.spawn(self.command(), env=environment, stdout=subprocess.PIPE)
        _await_line(self.process, b"ready", self.log)
        return time.perf_counter() - started


class SecuredBroker(Broker):
    """A `Broker` with a listener for each of `kinds`, name to security protocol, and certificates of its own authority.

    `bootstraps` has the address of each listener. The authority's certificate is `ca.pem` in the folder, and the key
    and certificate of a user `alice` are `alice.pem`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kinds: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        authority: Authority | None = None,
    ) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.authority = authority or Authority()
        self.ca_file = self.authority.write(folder / "ca.pem")
        self.server_file = self.authority.leaf("broker").write(folder / "broker.pem")
        self.alice_file = self.authority.leaf("alice").write(folder / "alice.pem")
        self.bootstraps = {name: f"127.0.0.1:{free_port()}" for name in kinds}
        self.port = int(next(iter(self.bootstraps.values())).rpartition(":")[2])
        self.entries = {
            "log.dirs": str(self.data),
            "listeners": ",".join(f"{name}://{address}" for name, address in self.bootstraps.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server_file),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            **(settings or {}),
        }

    def command(self) -> list[str]:
        base = super().command()
        config = self.write_properties(self.entries)
        return [*base[: base.index("start") + 1], "--config", str(config), *self.arguments]


def _await_line(process: subprocess.Popen[bytes], beginning: bytes, log: Callable[[], str]) -> None:
    """Wait until the process prints a line that starts with `beginning`, then let a thread read on."""
    assert process.stdout is not None
    watchdog = threading.Timer(READY_SECONDS_MAX, process.kill)
    watchdog.start()
    try:
        printed: list[bytes] = []
        for line in process.stdout:
            if line.startswith(beginning):
                # The rest is discarded: without a reader a full pipe would stop the process.
                threading.Thread(target=_drain, args=(process.stdout,), daemon=True).start()
                return
            printed.append(line)
        process.wait()
        process.stdout.close()
        raise AssertionError(
            f"the broker ended ({process.returncode}) before it was ready\n{b''.join(printed).decode()}{log()[-6000:]}"
        )
    finally:
        watchdog.cancel()


def _drain(stream: IO[bytes]) -> None:
    try:
        for _ in stream:
            pass
    except ValueError:
        return  # closed by stop(): there is no more to read
