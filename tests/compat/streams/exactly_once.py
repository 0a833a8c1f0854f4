"""The programs of Kafka's system tests of Streams, with exactly_once_v2 on three brokers that are stopped and killed.

StreamsEosTest writes random numbers by key until it is stopped. Its processors copy them, keep their minimum and their
sum by key. Its verifier reads inputs and outputs as committed, and compares record by record. StreamsSmokeTest writes
a known set of numbers, over which its processors keep windows, joins and counts; its driver checks the results.
Kafka Streams 4.2.1 runs with Streams groups (KIP-1071), older versions in the classic protocol.

python -m tests.compat.streams.exactly_once              three rounds of all faults, and one
python -m tests.compat.streams.exactly_once --rounds 20 --version 4.1.1
python -m tests.compat.streams.exactly_once --peer kafka
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka.admin import AdminClient

from odradek.sync import Admin, Client
from tests.support.cluster_processes import Cluster
from tests.support.java import (
    KAFKA_OLD_VERSION,
    KAFKA_STREAMS_GROUPS_VERSION,
    KAFKA_VERSION,
    streams_tests_classpath,
)
from tests.support.java_program import JavaProgram
from tests.support.kafka_peer import KafkaCluster
from tests.support.peers import topic_creator
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

PARTITIONS = 5
REPLICAS = 3
PATIENCE_SECONDS = 240.0
FAULTS = ("broker stopped", "broker killed", "processor stopped", "processor killed")
# The coordinators' topics are small, so that they are made and loaded in little time. Records of the future are taken,
# as Kafka 3.9 took them by default: StreamsSmokeTest ends its windows by records from two days ahead.
SETTINGS = {
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "min.insync.replicas": "2",
}
_EOS_TOPICS = ("data", "echo", "min", "sum", "repartition", "max", "cnt")
_SMOKE_TOPICS = (
    *("echo", "data", "min", "min-suppressed", "min-raw", "max", "sum", "sws-raw", "sws-suppressed"),
    *("dif", "cnt", "avg", "wcnt", "tagg"),
)
_PROPERTIES = {
    "processing.guarantee": "exactly_once_v2",
    "acceptable.recovery.lag": "9223372036854775807",  # one rebalance assigns for good
}
_PROPERTIES_OF_PROTOCOL = {
    "classic": {"session.timeout.ms": "6000"},
    "streams": {"group.protocol": "streams"},
}
# Of Streams groups brokers decide what their members' properties decide else.
_SETTINGS_OF_STREAMS_GROUPS = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.num.standby.replicas": "1",
}
_SMOKE_PROPERTIES = {
    "num.stream.threads": "2",
    "replication.factor": str(REPLICAS),
    "num.standby.replicas": "1",
    "buffered.records.per.partition": "100",
    "commit.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "acks": "all",
}

Brokers = Cluster | KafkaCluster


class Programs:
    """The programs of one of the two tests, on one cluster, and what is done to them."""

    def __init__(self, cluster: Brokers, folder: Path, *, version: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.protocol = "streams" if version == KAFKA_STREAMS_GROUPS_VERSION else "classic"
        self.classpath = streams_tests_classpath(version)
        self.processors: list[JavaProgram] = []
        self._all: list[JavaProgram] = []

    def program(self, test: str, command: str, name: str, **properties: str) -> JavaProgram:
        """`command` of `test`; a processor's state goes to a directory of its own."""
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        settings = {
            "bootstrap.servers": self.cluster.bootstrap,
            "state.dir": str(home / "state"),
            **_PROPERTIES,
            **_PROPERTIES_OF_PROTOCOL[self.protocol],
            **properties,
        }
        file = home / "streams.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        made = JavaProgram(
            home / "output",
            f"org.apache.kafka.streams.tests.{test}",
            [str(file), command],
            classpath=self.classpath,
            keeps_classes=command.startswith("verify") or (test == "StreamsSmokeTest" and command == "run"),
        )
        self._all.append(made)
        return made

    def start_processor(self, processor: JavaProgram) -> None:
        """Start it, and wait until all its tasks are restored and process."""
        begin = processor.start()
        processor.wait_for("REBALANCING -> RUNNING", since=begin, seconds_max=PATIENCE_SECONDS)

    def fault(self, kind: str, chance: random.Random) -> None:
        """One of FAULTS, after which all run again."""
        what, _, how = kind.partition(" ")
        if what == "processor":
            processor = chance.choice(self.processors)
            if how == "killed":
                processor.kill()
            else:
                processor.stop()
            self.start_processor(processor)
            return
        broker = chance.choice(sorted(self.cluster.brokers))
        self.cluster.brokers[broker].restart(crash=how == "killed")
        await_in_sync(self.cluster.bootstrap)

    def close(self) -> None:
        for program in self._all:
            program.close()


def eos_test(programs: Programs, *, faults: Sequence[str], chance: random.Random) -> str:
    """StreamsEosTest with two processors while `faults` happen; what its verifier prints in the end."""
    create = topic_creator(programs.cluster.bootstrap)
    for name in _EOS_TOPICS:
        create(PARTITIONS, name, replicas=REPLICAS)
    driver = programs.program("StreamsEosTest", "run", "driver")
    programs.processors = [
        programs.program("StreamsEosTest", "process-complex", f"processor-{number}") for number in (1, 2)
    ]
    driver.start()
    for processor in programs.processors:
        programs.start_processor(processor)
    produced = 0
    for kind in faults:
        produced = _await_records(driver, more_than=produced)
        programs.fault(kind, chance)
    _await_records(driver, more_than=produced)
    kind = group_kind(programs.cluster.bootstrap)
    assert kind == programs.protocol, f"the group is of the {kind} protocol"
    for program in (driver, *programs.processors):
        program.stop()
    verifier = programs.program("StreamsEosTest", "verify-complex", "verifier")
    verifier.start()
    verifier.wait(seconds_max=PATIENCE_SECONDS)
    return verifier.said()


def _await_records(driver: JavaProgram, *, more_than: int) -> int:
    """Until the driver has sent another thousand records; how many thousands it has."""

    def produced() -> int:
        assert driver.is_running, f"the driver ended:\n{driver.said()[-4000:]}"
        return driver.said().count("000 records produced")

    return wait_until(
        "the driver sends more", produced, lambda found: found > more_than, seconds_max=PATIENCE_SECONDS
    )


def group_kind(bootstrap: str) -> str:
    """The protocol of the processors' group."""
    with Client(bootstrap) as client:
        (group,) = Admin(client).groups.list()
    return group.type


def smoke_test(programs: Programs, *, faults: Sequence[str], chance: random.Random) -> str:
    """StreamsSmokeTest with two processors while `faults` happen; what its driver prints in the end."""
    create = topic_creator(programs.cluster.bootstrap)
    for name in _SMOKE_TOPICS:
        create(PARTITIONS, name, replicas=REPLICAS)
    driver = programs.program("StreamsSmokeTest", "run", "driver")
    programs.processors = [
        programs.program("StreamsSmokeTest", "process", f"processor-{number}", **_SMOKE_PROPERTIES)
        for number in (1, 2)
    ]
    for processor in programs.processors:
        programs.start_processor(processor)
    begin = driver.start()
    for number, kind in enumerate(faults, 1):
        driver.wait_for(f" {number * 1000} records produced", since=begin, seconds_max=PATIENCE_SECONDS)
        programs.fault(kind, chance)
    # Its verifier gives up after six minutes.
    driver.wait(seconds_max=2 * PATIENCE_SECONDS)
    for processor in programs.processors:
        processor.stop()
    return driver.said()


def await_in_sync(bootstrap: str) -> None:
    """Until each partition of each topic has a leader and all its replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    wait_until(
        "all replicas are in sync",
        lambda: [
            f"{topic}-{number}"
            for topic, found in admin.list_topics(timeout=30).topics.items()
            for number, one in found.partitions.items()
            if one.leader < 1 or len(one.isrs) < len(one.replicas)
        ],
        lambda behind: not behind,
        seconds_max=PATIENCE_SECONDS,
    )


@contextmanager
def running(folder: Path, *, peer: str = "odradek", **settings: str) -> Iterator[Brokers]:
    """Three brokers of one's own: with two controllers and a ZooKeeper, or Apache Kafka's."""
    wanted = (
        SETTINGS
        | _SETTINGS_OF_STREAMS_GROUPS
        | {key.replace("_", "."): value for key, value in settings.items()}
    )
    zookeeper = ZooKeeper(folder / "zookeeper")
    cluster: Brokers
    if peer == "kafka":
        cluster = KafkaCluster(folder, settings=wanted, heap="512m")
    else:
        zookeeper.start()
        cluster = Cluster(
            folder, zookeeper.connect, settings=wanted | {"zookeeper.session.timeout.ms": "3000"}
        )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
        zookeeper.close()


@contextmanager
def started(cluster: Brokers, folder: Path, *, version: str) -> Iterator[Programs]:
    """Programs that are ended with the block."""
    programs = Programs(cluster, folder, version=version)
    try:
        yield programs
    finally:
        programs.close()


def failed_brokers(cluster: Brokers) -> list[int]:
    """Those whose log has a traceback: a handler or a task of theirs failed."""
    return [number for number, broker in cluster.brokers.items() if "Traceback" in broker.log()]


def is_passed(test: str, said: str) -> bool:
    """Whether the last program's output has what Kafka's system test looks for, and nothing against it."""
    wanted = "SUCCESS" if test == "smoke" else "ALL-RECORDS-DELIVERED"
    is_found = re.search(rf"^{wanted}$", said, re.MULTILINE) is not None
    return is_found and "FAIL" not in said and "PROCESSED-MORE" not in said


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["eos", "smoke"], help="one of the two tests (default: both)")
    parser.add_argument("--rounds", type=int, default=3, help="of all faults in StreamsEosTest (default: 3)")
    parser.add_argument(
        "--version",
        choices=[KAFKA_OLD_VERSION, KAFKA_VERSION, KAFKA_STREAMS_GROUPS_VERSION],
        default=KAFKA_OLD_VERSION,
        help=f"of Kafka Streams; {KAFKA_STREAMS_GROUPS_VERSION} has Streams groups (default: {KAFKA_OLD_VERSION})",
    )
    parser.add_argument("--peer", choices=["odradek", "kafka"], default="odradek")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where outputs and logs stay (default: removed)")
    arguments = parser.parse_args()
    passed = True
    with suppress(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="odradek-streams-") as made:
        for test in [arguments.only] if arguments.only else ["eos", "smoke"]:
            folder = (arguments.folder or Path(made)) / test
            folder.mkdir(parents=True)
            chance = random.Random(arguments.seed)
            faults = [kind for _ in range(arguments.rounds if test == "eos" else 1) for kind in FAULTS]
            began = time.monotonic()
            with (
                running(folder, peer=arguments.peer) as cluster,
                started(cluster, folder, version=arguments.version) as programs,
            ):
                play = eos_test if test == "eos" else smoke_test
                said = play(programs, faults=faults, chance=chance)
            passed = passed and is_passed(test, said)
            print(
                f"{test} with Streams {arguments.version} on {arguments.peer}, seed {arguments.seed}, "
                f"{len(faults)} faults, {time.monotonic() - began:.0f} s: "
                f"{'passed' if is_passed(test, said) else 'FAILED'}",
                flush=True,
            )
            if not is_passed(test, said):
                print(said[-6000:])
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
