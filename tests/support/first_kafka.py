"""Apache Kafka 1.1.1 on loopback, with a ZooKeeper that others may use too.

It is the oldest broker that our clients work against, and the last with consumers that share partitions through
ZooKeeper. Its ZooKeeper is the tests' own (`zookeeper.ZooKeeper`), a newer one than its release had.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.broker_process import free_port
from tests.support.java import first_kafka_classpath, java_arguments, java_environment
from tests.support.local_process import LocalProcess
from tests.support.polling import SECONDS_MAX
from tests.support.zookeeper import ZooKeeper

START_SECONDS_MAX = 90
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.Target=System.err
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "6000",
    "auto.create.topics.enable": "false",
    "num.partitions": "2",
    "log.cleaner.enable": "false",
}


def first_kafka_command(folder: Path, main_class: str, arguments: Sequence[str], *, heap: str) -> list[str]:
    """A program among Kafka 1.1.1's jars. Its log goes to standard error."""
    log4j = folder / "log4j.properties"
    log4j.write_text(_LOG4J)
    return java_arguments(
        main_class,
        arguments,
        classpath=first_kafka_classpath(),
        heap=heap,
        options=(f"-Dlog4j.configuration=file:{log4j}",),
    )


class FirstKafka(LocalProcess):
    """One broker and its ZooKeeper, below `folder`."""

    def __init__(self, folder: Path, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder / "kafka.log")
        self.folder = folder
        self.port = free_port()
        self.zookeeper = ZooKeeper(folder / "zookeeper")
        self._settings = dict(settings or {})

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start ZooKeeper and the broker, and wait until it is registered. Raises JavaUnavailableError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.zookeeper.start()
        self.start_broker()

    def start_broker(self) -> None:
        """Start the broker alone."""
        values = {
            **_SETTINGS,
            "broker.id": "0",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": self.zookeeper.connect,
            "log.dirs": str(self.folder / "data"),
            **self._settings,
        }
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        before = len(self.log())
        command = first_kafka_command(self.folder, "kafka.Kafka", [str(properties)], heap="384m")
        self.spawn(command, env=java_environment(), cwd=self.folder)
        started = "started (kafka.server.KafkaServer)"
        self.await_start(
            lambda: started in self.log()[before:] and self._answers(), seconds_max=START_SECONDS_MAX
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False

    def stop_broker(self) -> None:
        """SIGTERM, and wait until it has ended."""
        super().stop(seconds_max=SECONDS_MAX)

    def kill_broker(self) -> None:
        """SIGKILL. Its registration is there until its session ends, and refuses a start before."""
        super().kill()

    def close(self) -> None:
        """End both if they run."""
        super().close()
        self.zookeeper.close()


class OldConsumer:
    """Kafka's own consumer that shares partitions through ZooKeeper, as its console program with one stream."""

    def __init__(self, folder: Path, kafka: FirstKafka, *, group: str, topic: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._output, self._log = folder / "output", folder / "log"
        properties = folder / "consumer.properties"
        properties.write_text(
            f"group.id={group}\nzookeeper.connect={kafka.zookeeper.connect}\nrebalance.backoff.ms=1000\n"
            "zookeeper.session.timeout.ms=4000\nauto.commit.interval.ms=200\n"
            "rebalance.max.retries=20\n"
        )
        arguments = ["--zookeeper", kafka.zookeeper.connect, "--topic", topic]
        arguments += ["--consumer.config", str(properties)]
        command = first_kafka_command(folder, "kafka.tools.ConsoleConsumer", arguments, heap="128m")
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=log, stdin=subprocess.DEVNULL, env=java_environment()
            )

    def lines(self) -> list[str]:
        """The messages that it has consumed."""
        return self._output.read_text().split()

    def stop(self) -> None:
        """End it; it commits and leaves its group."""
        self._process.terminate()
        self._process.wait(SECONDS_MAX)

    def kill(self) -> None:
        """SIGKILL; its session ends by its timeout."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it if it runs, as `kill`."""
        if self._process.poll() is None:
            self.kill()
