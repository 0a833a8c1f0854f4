"""A real ensemble on loopback: each server is begun by the operator's own start script, in a folder of its own.

The script's paths are those of a pod. Here they are replaced by the server's folder, and host names by addresses.
`jars` is the class path: another version's jars may stand first.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from odradek_operator.desired.zookeeper_files import zookeeper_files
from odradek_operator.foundation.zookeeper_login import SERVERS_FILE, ZookeeperLogin
from odradek_operator.gateways.zookeeper_members import EnsembleConfiguration
from tests.support.broker_process import free_port
from tests.support.java import java_arguments, java_environment, pyspark_jars
from tests.support.polling import wait_until

SECONDS_MAX = 90


class Server:
    """One server; `id` from 1. Its volume is `folder/data`, what its ConfigMap holds `folder/conf`."""

    def __init__(self, folder: Path, id: int, jars: str) -> None:
        self.folder, self.id, self._jars = folder, id, jars
        self.client, self.peer, self.election = free_port(), free_port(), free_port()
        self.patience_seconds = 60
        """For how long it waits for another that serves, where it has no data."""
        self._process: subprocess.Popen[bytes] | None = None
        self.data.mkdir(parents=True)
        (folder / "conf").mkdir()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def line(self) -> str:
        return f"server.{self.id}=127.0.0.1:{self.peer}:{self.election}:participant;127.0.0.1:{self.client}"

    @property
    def connect(self) -> str:
        return f"127.0.0.1:{self.client}"

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(
        self,
        *,
        servers: Sequence[str],
        members: Sequence[str],
        version: str,
        founders: Sequence[int] = (),
        login: ZookeeperLogin | None = None,
    ) -> None:
        """Start it with a ConfigMap that says this, and the Secret of a `login`; returns at once."""
        assert not self.is_running
        conf = self.folder / "conf"
        files = zookeeper_files(login_folder=None if login is None else "/conf")
        if login is not None:
            (conf / SERVERS_FILE).write_text(login.files()[SERVERS_FILE])
        quick = files["zoo.cfg"].replace("tickTime=2000", "tickTime=200").replace("/data", str(self.data))
        start = files["start"].replace("/data", str(self.data)).replace("/conf", str(conf))
        for name, text in {
            "zoo.cfg": quick,
            "start": start.replace("/usr/share/zookeeper", str(self.folder / "nowhere")),
            "servers": "".join(f"{one}\n" for one in servers),
            "members": "".join(f"{one}\n" for one in members),
            "version": version,
            "founders": "".join(f"{one}\n" for one in founders),
        }.items():
            (conf / name).write_text(text)
        program = conf / "zkServer.sh"
        java = java_arguments(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            ["$2"],
            classpath=self._jars,
            heap="96m",
            log_level="info",
            options=(
                "-Dzookeeper.forceSync=no",
                "-Dzookeeper.preAllocSize=64",
                "-Dzookeeper.fastleader.maxNotificationInterval=5000",
            ),
        )
        program.write_text("#!/bin/sh\nexec " + " ".join(f'"{one}"' for one in java) + "\n")
        program.chmod(0o755)
        environment = {
            **java_environment(),
            "PATH": f"{conf}:{os.environ['PATH']}",
            "POD_INDEX": str(self.id - 1),
            "OTHERS_SECONDS_MAX": str(self.patience_seconds),
        }
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", str(conf / "start")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=self.folder,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ended(self) -> int:
        """The exit status of a server that ends by itself."""
        assert self._process is not None
        return self._process.wait(SECONDS_MAX)

    def answer(self, word: str) -> str:
        """Its answer to a four-letter word; empty when no server listens."""
        try:
            with socket.create_connection(("127.0.0.1", self.client), timeout=5) as asked:
                asked.sendall(word.encode())
                answer = b""
                while more := asked.recv(65_536):
                    answer += more
                return answer.decode()
        except OSError:
            return ""

    @property
    def serves(self) -> bool:
        return self.answer("isro") == "rw"

    @property
    def mode(self) -> str:
        return next(
            (line[6:] for line in self.answer("srvr").splitlines() if line.startswith("Mode: ")), "none"
        )

    def wait(self, mode: str | None = None) -> None:
        """Until it serves, and in this mode where one is given."""

        def serves_so() -> bool:
            assert self.is_running, f"server {self.id}: {self.mode}\n{self.log[-5000:]}"
            return self.serves and (mode is None or self.mode == mode)

        self._until(serves_so)

    def wait_for_words(self, words: str) -> None:
        """Until its log has these words."""
        self._until(lambda: words in self.log)

    def wait_until_it_stops_serving(self) -> None:
        self._until(lambda: not self.serves)

    def watch_for_seconds(self, seconds: float) -> None:
        """It must keep running, and not serve, for that long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.is_running and not self.serves, self.log[-3000:]
            time.sleep(0.1)

    def _until(self, holds: Callable[[], bool]) -> None:
        wait_until(f"server {self.id} is so", holds, more=lambda: self.log)

    def lose_volume(self) -> None:
        """Its next start finds an empty volume."""
        shutil.rmtree(self.data)
        self.data.mkdir()

    def copy_volume(self) -> Path:
        """A copy of its volume, taken while it runs."""
        copy = self.folder / "copy"
        shutil.copytree(self.data, copy)
        return copy

    def kill(self) -> None:
        if self._process is not None:
            if self.is_running:
                self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class Ensemble:
    """Up to `count` servers; those that are started learn of each other as under the operator."""

    def __init__(self, folder: Path, count: int, *, jars: str | None = None) -> None:
        found = jars or f"{pyspark_jars()}/*"
        self.servers = [Server(folder / f"server-{number}", number, found) for number in range(1, count + 1)]
        self.voters: tuple[int, ...] = ()
        self.version = "0"
        self.login: ZookeeperLogin | None = None
        """With it servers check access lists, from their next start on."""

    def __getitem__(self, id: int) -> Server:
        return self.servers[id - 1]

    @property
    def connect(self) -> str:
        return ",".join(one.connect for one in self.servers)

    def start(self, *ids: int, founders: Sequence[int] = ()) -> None:
        for id in ids:
            self[id].start(
                servers=[one.line for one in self.servers],
                members=[self[voter].line for voter in self.voters],
                version=self.version,
                founders=founders,
                login=self.login,
            )

    def found(self, *ids: int) -> None:
        """Begin an ensemble of these, as a new Cluster's."""
        self.voters = ids
        self.start(*ids, founders=ids)
        for id in ids:
            self[id].wait()

    def configure(self, found: EnsembleConfiguration) -> None:
        """Servers that start from now on get this configuration."""
        self.voters, self.version = found.voters, found.version

    def close(self) -> None:
        for one in self.servers:
            one.kill()
