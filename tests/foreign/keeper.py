"""Starts the clusters that Java's tests ask for, in this process, and says where they listen.

A connection has one cluster, which ends with it. A request is a line of JSON, and so is its answer. One ZooKeeper
serves all clusters, each below a node of its own; a single broker needs none.
"""

from __future__ import annotations

import json
import shutil
import socket
import socketserver
import struct
import sys
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

from tests.support.broker_process import Broker, free_port
from tests.support.zookeeper import ZooKeeper

_CONTROLLER: Final = 3000  # Kafka's test kit numbers controllers from here, and brokers from 0
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SESSION_MS: Final = 4_000
_ERROR_CHARACTERS_MAX: Final = 3_000
_ANSWER_SECONDS_MAX: Final = 5.0
# ApiVersions version 0, which is answered before a login: API, version, correlation id, no client id.
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class Node(Broker):
    """A process of a cluster; `verb` is start, broker or controller."""

    def __init__(self, folder: Path, verb: str, number: int, settings: Mapping[str, str]) -> None:
        super().__init__(folder / f"{verb}-{number}")
        self._verb = verb
        self._number = number
        self.settings = dict(settings)

    def command(self) -> list[str]:
        config = self.write_properties(self.settings)
        # With the fault handler, `abort` writes the stacks of all threads to the log.
        command = [sys.executable, "-X", "faulthandler", "-m", "odradek", self._verb, "--config", str(config)]
        return [*command, *(["--id", str(self._number)] if self._verb != "start" else [])]

    def end(self, *, answer_seconds_max: float = _ANSWER_SECONDS_MAX) -> None:
        """End the process. One that accepts or answers nothing in that time is aborted: its log says where it hangs."""
        if self.is_running and hangs(self.port, seconds_max=answer_seconds_max):
            self.abort()
        self.close()


def hangs(port: int, *, seconds_max: float) -> bool:
    """Whether the process that listens at `port` gives no answer in that time. One that refuses does not hang."""
    try:
        with socket.create_connection(("localhost", port), timeout=seconds_max) as connection:
            connection.sendall(_API_VERSIONS)
            connection.recv(1)
    except TimeoutError:
        return True
    except OSError:
        return False
    return False


class AskedCluster:
    """The cluster of one request `start`."""

    def __init__(self, folder: Path, asked: Mapping[str, Any], connect: str) -> None:
        """`connect` is ZooKeeper's address with the cluster's node, for more than one broker."""
        self._folder = folder
        self._asked = asked
        is_alone = asked["brokers"] == 1
        self.brokers = {
            number: self._node("start" if is_alone else "broker", number, connect)
            for number in range(asked["brokers"])
        }
        self._controllers = [] if is_alone else [self._node("controller", _CONTROLLER, connect)]

    @property
    def addresses(self) -> dict[int, str]:
        return {number: f"localhost:{broker.port}" for number, broker in self.brokers.items()}

    @property
    def directories(self) -> dict[int, list[str]]:
        """Of each broker, where it keeps its logs."""
        return {number: broker.settings["log.dirs"].split(",") for number, broker in self.brokers.items()}

    def _node(self, verb: str, number: int, connect: str) -> Node:
        asked = self._asked
        listener, kind, port = asked["listener"], asked["protocol"], free_port()
        is_secured = kind.startswith("SASL")
        settings = {**asked["settings"], **asked["own_settings"].get(str(number), {})}
        settings["node.id"] = str(number)
        between = "CONTROLLER:SASL_PLAINTEXT" if is_secured else "CONTROLLER:PLAINTEXT"
        if verb == "controller":
            settings["listeners"] = f"CONTROLLER://localhost:{port}"
            settings["listener.security.protocol.map"] = between
        else:
            settings.setdefault("listeners", f"{listener}://localhost:{port}")
            settings.setdefault("listener.security.protocol.map", f"{listener}:{kind},{between}")
            settings.setdefault("inter.broker.listener.name", listener)
            folder = self._folder / f"{verb}-{number}"
            settings["log.dirs"] = ",".join(str(folder / f"data-{disk}") for disk in range(asked["disks"]))
        if verb != "start":
            settings["zookeeper.connect"] = connect
            settings["zookeeper.session.timeout.ms"] = str(_SESSION_MS)
            settings["controller.listener.names"] = "CONTROLLER"
        if is_secured:
            names = {"start": [listener], "broker": ["CONTROLLER", listener], "controller": ["CONTROLLER"]}
            for name in map(str.lower, names[verb]):
                settings[f"listener.name.{name}.plain.sasl.jaas.config"] = f"{_PLAIN} {asked['users']};"
        node = Node(self._folder, verb, number, settings)
        node.port = port
        return node

    def start(self) -> None:
        """All at once: each waits for those it needs. Raises AssertionError with what the process said."""
        nodes = [*self._controllers, *self.brokers.values()]
        with ThreadPoolExecutor(len(nodes)) as threads:
            for start in as_completed([threads.submit(node.start) for node in nodes]):
                if start.exception() is not None:
                    self.close()  # the others would wait for this one
                    start.result()

    def close(self) -> None:
        """End all, and remove what they stored; what they logged stays."""
        for node in (*self.brokers.values(), *self._controllers):
            node.end()
            for data in node.folder.glob("data-*"):
                shutil.rmtree(data, ignore_errors=True)


class Keeper:
    """Serves requests at `port` of 127.0.0.1 within the block; `folder` keeps what clusters log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._zookeeper = ZooKeeper(folder / "zookeeper")
        self._lock = threading.Lock()
        self.clusters = 0
        keeper = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                keeper.serve(self)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = False  # `server_close` waits for them, and they end their clusters
        self._thread = threading.Thread(target=self._server.serve_forever, name="keeper")

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def last_folder(self) -> Path:
        """Where the processes of the last cluster log."""
        return self._folder / f"cluster-{self.clusters}"

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._zookeeper.close()

    def serve(self, connection: socketserver.StreamRequestHandler) -> None:
        """Answer one connection until it ends."""
        cluster: AskedCluster | None = None
        try:
            for line in connection.rfile:
                asked = json.loads(line)
                answer: Mapping[str, object] = {}
                try:
                    if asked["do"] == "start":
                        cluster = self._cluster(asked)
                        cluster.start()
                        answer = {"addresses": cluster.addresses, "directories": cluster.directories}
                    elif cluster is None:
                        answer = {"error": "no cluster was started on this connection"}
                    elif asked["do"] == "stop_broker":
                        if cluster.brokers[asked["id"]].is_running:
                            cluster.brokers[asked["id"]].stop()
                    elif asked["do"] == "start_broker":
                        cluster.brokers[asked["id"]].start()
                    else:
                        answer = {"error": f"no request {asked['do']!r}: start, stop_broker or start_broker"}
                except Exception as error:
                    answer = {"error": str(error)[-_ERROR_CHARACTERS_MAX:]}
                connection.wfile.write(json.dumps(answer).encode() + b"\n")
        except ConnectionError:
            pass  # the Java that asked has ended
        finally:
            if cluster is not None:
                cluster.close()

    def _cluster(self, asked: Mapping[str, Any]) -> AskedCluster:
        with self._lock:
            self.clusters += 1
            if asked["brokers"] > 1 and not self._zookeeper.is_running:
                self._zookeeper.start()
            return AskedCluster(self.last_folder, asked, f"{self._zookeeper.connect}/{uuid.uuid4()}")
