"""Apache Kafka itself, in KRaft mode on loopback: the peer that says what is right, and how fast.

Formatting its storage takes a JVM start. The formatted folder is the same for every start with the same node id and
cluster id, so it is kept in `.cache/` and copied. The calls are those of `broker_process.Broker`.

A `KafkaCluster` is several such nodes, each broker and controller. Left out: TLS and SASL.
"""

from __future__ import annotations

import base64
import re
import shutil
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.broker_process import free_port
from tests.support.java import (
    CACHE,
    KAFKA_VERSION,
    java_arguments,
    java_environment,
    kafka_classpath,
    make_class_archive,
    run_kafka_tool,
)
from tests.support.local_process import STOP_SECONDS_MAX, LocalProcess

CLUSTER_ID = "b2RyYWRla3BlZXJrYWZrYQ"
START_SECONDS_MAX = 90
_STARTED = "Kafka Server started"

# What a single node needs, and what makes a test's waiting short; everything else is Kafka's default.
_BASE = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


# As Kafka's own start script has it; a quick start gives up peak speed instead.
_AS_KAFKA_STARTS = (
    "-server",
    "-Xms1g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)


class KafkaPeer(LocalProcess):
    """Apache Kafka 4.1.1 on 127.0.0.1; `settings` are added to its `server.properties`.

    `log.dirs` among them begins with `data`. Further directories are formatted, too.
    """

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        heap: str = "1g",
        quick: bool = True,
        version: str = KAFKA_VERSION,
        has_eligible_leader_replicas: bool = True,
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster_id: str = CLUSTER_ID,
        plug_ins: Path | None = None,
    ) -> None:
        """`plug_ins` is a folder of classes that it may load besides.

        `voters` are a cluster's controllers, by node id their ports; without them the node is its own cluster."""
        super().__init__(folder / "kafka.log")
        self.cluster_id = cluster_id
        self.folder = folder
        self.data = folder / "data"
        self.port = port or free_port()
        self.controller_port = free_port() if voters is None else voters[node_id]
        self.node_id = node_id
        self._voters = voters or {node_id: self.controller_port}
        self.settings = dict(settings or {})
        self._heap = heap
        self._quick = quick
        self._version = version
        self._plug_ins = plug_ins
        self._has_eligible_leader_replicas = has_eligible_leader_replicas

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> Path:
        """Write the settings and format a new folder; the settings' file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        if not self.data.exists():
            shutil.copytree(self._formatted(properties), self.data)
            about = self.data / "meta.properties"
            about.write_text(about.read_text().replace(CLUSTER_ID, self.cluster_id))
        for directory in self.settings.get("log.dirs", "").split(",")[1:]:
            self._format_another(Path(directory))
        return properties

    def _format_another(self, directory: Path) -> None:
        """A further log directory: Kafka starts with none that is not formatted."""
        if directory.exists():
            return
        directory.mkdir(parents=True)
        own_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        about = (self.data / "meta.properties").read_text()
        (directory / "meta.properties").write_text(
            re.sub(r"^directory\.id=.*$", f"directory.id={own_id}", about, flags=re.MULTILINE)
        )

    def start(self) -> float:
        """Format when the folder is new, start, wait until it serves; seconds from exec to then."""
        properties = self.prepare()
        if self._quick:
            make_class_archive(kafka_classpath(self._version))
        command = java_arguments(
            "kafka.Kafka",
            [str(properties)],
            classpath=self._classpath(),
            heap=self._heap,
            quick=self._quick,
            options=() if self._quick else _AS_KAFKA_STARTS,
            log_level="info",
        )
        before = len(self.log())
        started = time.perf_counter()
        self.spawn(command, env=java_environment(), cwd=self.folder)
        self.await_start(lambda: _STARTED in self.log()[before:], seconds_max=START_SECONDS_MAX)
        return time.perf_counter() - started

    def _classpath(self) -> str:
        classes = kafka_classpath(self._version)
        return classes if self._plug_ins is None else f"{classes}:{self._plug_ins}"

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM and wait; killed when that takes too long, as it may without a quorum."""
        try:
            return super().stop(seconds_max=seconds_max)
        except AssertionError:
            self._process = None
            return -signal.SIGKILL

    def _write_properties(self) -> Path:
        controller = f"127.0.0.1:{self.controller_port}"
        values = {
            **_BASE,
            "node.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.quorum.voters": ",".join(
                f"{node}@127.0.0.1:{port}" for node, port in self._voters.items()
            ),
            "log.dirs": str(self.data),
            **self.settings,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        return path

    def _formatted(self, properties: Path) -> Path:
        kept = CACHE / "kafka" / f"{self._version}-formatted"
        if self.node_id != 1:
            kept = kept.with_name(f"{kept.name}-{self.node_id}")
        features: tuple[str, ...] = ()
        if not self._has_eligible_leader_replicas:
            kept = kept.with_name(f"{kept.name}-without-elr")
            features = ("--feature", "eligible.leader.replicas.version=0")
        if kept.exists():
            return kept
        scratch = self.folder / "formatted"
        lines = re.sub(r"^log\.dirs=.*$", f"log.dirs={scratch}", properties.read_text(), flags=re.MULTILINE)
        to_format = self.folder / "format.properties"
        to_format.write_text(lines)
        run_kafka_tool(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", CLUSTER_ID, "--config", str(to_format), *features),
            version=self._version,
        )
        staged = kept.with_name(f"{kept.name}.{self.port}")
        shutil.copytree(scratch, staged)
        try:
            staged.rename(kept)
        except OSError:
            shutil.rmtree(staged)  # another run was first
        return kept


class KafkaCluster:
    """Nodes 1, 2, …, each broker and controller; the calls are those of `cluster_processes.Cluster`."""

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        heap: str = "1g",
        quick: bool = True,
    ) -> None:
        numbers = range(1, brokers + 1)
        voters = {number: free_port() for number in numbers}
        copies = {
            "offsets.topic.replication.factor": str(brokers),
            "transaction.state.log.replication.factor": str(brokers),
            "transaction.state.log.min.isr": str(min(brokers, 2)),
        }
        self.brokers = {
            number: KafkaPeer(
                folder / f"kafka-{number}",
                settings={**copies, **(settings or {})},
                heap=heap,
                quick=quick,
                node_id=number,
                voters=voters,
            )
            for number in numbers
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @property
    def pids(self) -> Sequence[int]:
        """The processes that serve."""
        return [broker.pid for broker in self.brokers.values() if broker.is_running]

    def start(self) -> None:
        """All at once: none is up before a majority is."""
        for broker in self.brokers.values():
            broker.prepare()
        with ThreadPoolExecutor(len(self.brokers)) as threads:
            list(threads.map(KafkaPeer.start, self.brokers.values()))

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.close()
