"""Runbooks tried on real faults: the alert is raised by what the broker shows, and what its page says to type works.

Each fault is made on a broker or a cluster of the test's own. Promtool evaluates the alert on two scrapes of /metrics:
before the fault, and under it. Then the commands of the page are played one by one, as far as they need no Kubernetes.
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from odradek import ShareRecord
from odradek.cli.exit_codes import ExitCode
from odradek.sync import Client, Producer, ShareConsumer
from tests.support.broker_process import Broker, free_port
from tests.support.cluster_processes import Cluster
from tests.support.command_line import run_command
from tests.support.local_process import running
from tests.support.plain_client import PlainClient
from tests.support.polling import wait_until
from tests.support.runbooks import commands
from tests.support.scraped_alerts import Scrape, is_raised, scrape, value_of
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.thorough]

KAFKA_STORAGE_ERROR: Final = 56
BLOCK: Final = b"x" * 100_000
LOCK_MS: Final = 1_000


class Patient:
    """A broker, or a cluster, that gets a fault."""

    def __init__(self, bootstrap: str, ports: dict[str, int], folder: Path) -> None:
        self.bootstrap = bootstrap
        self._ports = ports
        self._folder = folder

    def scrape(self) -> Scrape:
        return scrape(self._ports)

    def odradek(self, *words: str, input: bytes = b"", codes: tuple[int, ...] = (0,)) -> str:
        """What a command prints. AssertionError where it ends with another code than one of `codes`."""
        done = run_command(words, environment={"ODRADEK_BOOTSTRAP": self.bootstrap}, input=input)
        printed = (done.out + done.error).decode()
        assert done.code in codes, f"`odradek {' '.join(words)}` ended with {done.code}\n{printed}"
        return printed

    def play(self, name: str) -> dict[str, str]:
        """What the commands of a page print, one by one. A cluster with a fault is not healthy, and may refuse."""
        codes = (0, ExitCode.DEGRADED, ExitCode.UNHEALTHY)
        played = [words for words in commands(name) if words[0] == "odradek" and "--watch" not in words]
        assert played
        return {" ".join(words): self.odradek(*words[1:], codes=codes) for words in played}

    def raises(self, name: str, before: Scrape, *, continues: bool = False, rises: bool = False) -> bool:
        """Whether the alert is raised by what is shown now, where it was not `before`."""
        folder = self._folder / name
        assert not is_raised(name, before, before, folder / "before"), f"{name} is raised without a fault"
        return is_raised(name, before, self.scrape(), folder / "after", continues=continues, rises=rises)


@contextmanager
def broker_of(
    folder: Path, settings: Mapping[str, str] | None = None, *, data: Path | None = None
) -> Iterator[Patient]:
    admin = free_port()
    broker = Broker(folder / "broker", settings=settings, arguments=("--admin", f"127.0.0.1:{admin}"))
    broker.data = data or broker.data
    with running(broker):
        yield Patient(broker.bootstrap, {"b-0": admin}, folder)


def test_a_full_directory(small_disk: Path, tmp_path: Path) -> None:
    # Files of a topic that is deleted go a minute later, unless this says otherwise.
    with broker_of(tmp_path, {"log.segment.delete.delay.ms": "100"}, data=small_disk / "data") as patient:
        patient.odradek("topics", "create", "orders", "--config", "segment.bytes=1048576", codes=(0, 9))
        before = patient.scrape()
        with PlainClient(int(patient.bootstrap.rpartition(":")[2])) as client:
            codes = [client.produce("orders", [BLOCK])[0] for _ in range(100)]
        assert codes[0] == 0 and codes[-1] == KAFKA_STORAGE_ERROR
        assert patient.raises("OdradekLogDirectoryFull", before)
        assert is_raised("OdradekLogDirectoryLow", before, patient.scrape(), tmp_path / "low")
        for name in ("OdradekLogDirectoryFull", "OdradekLogDirectoryLow"):
            printed = patient.play(name)
            assert "orders" in printed["odradek brokers disk"]
        assert "full" in printed["odradek brokers disk --by broker"]
        patient.odradek("topics", "delete", "orders", "--execute")
        full = "odradek_log_directory_full"
        wait_until("the directory has room", lambda: value_of(patient.scrape(), full), lambda seen: seen == 0)


def test_a_failed_directory(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    with broker_of(tmp_path, {"log.dirs": f"{good},{bad}"}) as patient:
        patient.odradek("topics", "create", "orders", "-p", "4", "-c", "segment.bytes=1048576")
        before = patient.scrape()
        shutil.rmtree(bad)
        number = next(n for n in range(4) if not (good / f"orders-{n}").exists())
        with PlainClient(int(patient.bootstrap.rpartition(":")[2])) as client:
            codes = [client.produce("orders", [BLOCK], partition=number)[0] for _ in range(30)]
        assert codes[-1] == KAFKA_STORAGE_ERROR
        assert patient.raises("OdradekLogDirectoryFailed", before)
        assert patient.raises("OdradekPartitionsOffline", before)
        printed = patient.play("OdradekLogDirectoryFailed")
        assert "failed" in printed["odradek brokers disk --by broker,directory"]
        patient.play("OdradekPartitionsOffline")


def test_a_group_that_is_behind(tmp_path: Path) -> None:
    with broker_of(tmp_path) as patient:
        patient.odradek("topics", "create", "orders")
        patient.odradek("produce", "orders", input=b"first\n")
        patient.odradek(
            "consume", "orders", "--group", "billing", "--from-beginning", "--max", "1", "--idle-exit", "20"
        )
        before = patient.scrape()
        an_hour_ago = int((time.time() - 3600) * 1000)
        with Client(patient.bootstrap) as client, Producer(client) as producer:
            producer.send_and_wait("orders", b"waits", timestamp_ms=an_hour_ago)
        assert patient.raises("OdradekGroupBehind", before)
        printed = patient.play("OdradekGroupBehind")
        assert "orders" in printed["odradek groups describe billing"]
        # What the page says of the end: consumers that run.
        patient.odradek("consume", "orders", "--group", "billing", "--max", "1", "--idle-exit", "20")
        assert value_of(patient.scrape(), "odradek_group_lag_seconds") == 0


@contextmanager
def queue(patient: Patient) -> Iterator[ShareConsumer]:
    """A member of the queue resize of the topic images, which answers for each record."""
    patient.odradek("topics", "create", "images", "--if-not-exists")
    patient.odradek("configs", "set", "group", "resize", "share.auto.offset.reset=earliest")
    with (
        Client(patient.bootstrap) as client,
        ShareConsumer(client, "resize", ["images"], is_explicit=True) as member,
    ):
        yield member


def poll(member: ShareConsumer) -> list[ShareRecord]:
    """The next records, once there are some."""
    return list(wait_until("the queue delivers records", member.poll))


def test_a_queue_that_grows(tmp_path: Path) -> None:
    with broker_of(tmp_path) as patient, queue(patient) as member:
        patient.odradek("perf", "produce", "images", "--records", "110000", "--size", "10")
        # Nothing is known of a queue at its coordinator until its first answer.
        for record in poll(member)[:1]:
            member.acknowledge(record, "accept")
        member.commit()
        before = patient.scrape()
        assert value_of(before, "odradek_share_partition_lag_messages") == 109_999
        patient.odradek("perf", "produce", "images", "--records", "5000", "--size", "10")
        assert patient.raises("OdradekQueueGrows", before, rises=True)
        printed = patient.play("OdradekQueueGrows")
        assert "114999" in printed["odradek queues describe resize"].replace(",", "")


def test_locks_that_end_by_time(tmp_path: Path) -> None:
    settings = {
        "group.share.record.lock.duration.ms": str(LOCK_MS),
        "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    }
    with broker_of(tmp_path, settings) as patient, queue(patient) as member:
        patient.odradek("produce", "images", input=b"a\nb\nc\n")
        poll(member)
        before = patient.scrape()
        timeouts = "odradek_share_partition_acquisition_lock_timeouts_total"
        wait_until("locks end", lambda: value_of(patient.scrape(), timeouts) > value_of(before, timeouts))
        assert patient.raises("OdradekQueueLocksEnd", before, continues=True)
        patient.play("OdradekQueueLocksEnd")
        assert "60000" in patient.odradek("configs", "describe", "group", "resize")


def reject_all(patient: Patient, member: ShareConsumer, value: bytes, metric: str) -> None:
    """A record that the member rejects; waits until the broker has counted it."""
    before = value_of(patient.scrape(), metric)
    patient.odradek("produce", "images", input=value + b"\n")
    for record in poll(member):
        member.acknowledge(record, "reject")
    member.commit()
    wait_until("the broker gives it up", lambda: value_of(patient.scrape(), metric) > before)


WRITTEN: Final = "odradek_share_group_dead_letter_queue_records_total"
LOST: Final = "odradek_share_group_dead_letter_queue_refused_records_total"


def test_dead_letters(tmp_path: Path) -> None:
    with broker_of(tmp_path) as patient, queue(patient) as member:
        allows = "errors.deadletterqueue.group.enable=true"
        patient.odradek("topics", "create", "dlq.images", "--config", allows)
        patient.odradek("configs", "set", "group", "resize", "errors.deadletterqueue.topic.name=dlq.images")
        patient.odradek("produce", "images", input=b"good\n")
        for record in poll(member):
            member.acknowledge(record, "accept")
        member.commit()
        before = patient.scrape()
        reject_all(patient, member, b"bad", WRITTEN)
        assert patient.raises("OdradekDeadLetters", before)
        printed = patient.play("OdradekDeadLetters")
        assert "images" in printed["odradek queues dead-letters resize"]
        # The page gives the record back: it is delivered again.
        assert [record.value for record in poll(member)] == [b"bad"]


def test_dead_letters_that_are_lost(tmp_path: Path) -> None:
    with (
        broker_of(tmp_path) as patient,
        queue(patient) as member,
    ):
        patient.odradek("configs", "set", "group", "resize", "errors.deadletterqueue.topic.name=dlq.images")
        patient.odradek("topics", "create", "dlq.images")
        patient.odradek("produce", "images", input=b"good\n")
        for record in poll(member):
            member.acknowledge(record, "accept")
        member.commit()
        before = patient.scrape()
        reject_all(patient, member, b"lost", LOST)
        assert patient.raises("OdradekDeadLettersLost", before)
        patient.play("OdradekDeadLettersLost")
        reject_all(patient, member, b"kept", WRITTEN)
        assert "images" in patient.odradek("queues", "dead-letters", "resize")


def test_connections_that_are_refused(tmp_path: Path) -> None:
    with broker_of(tmp_path, {"max.connections.per.ip": "4"}) as patient:
        before = patient.scrape()
        address = ("127.0.0.1", int(patient.bootstrap.rpartition(":")[2]))
        with ExitStack() as stack:
            for _ in range(12):
                stack.enter_context(socket.create_connection(address))
            refused = "odradek_connections_refused_total"
            wait_until("connections are refused", lambda: value_of(patient.scrape(), refused) >= 8)
            assert patient.raises("OdradekConnectionsRefused", before, continues=True)
        open_ones = "odradek_connections"
        wait_until("they are closed", lambda: value_of(patient.scrape(), open_ones) == 0)
        patient.play("OdradekConnectionsRefused")
        with ExitStack() as stack:
            for _ in range(12):
                stack.enter_context(socket.create_connection(address))
            wait_until("as the page says, all fit", lambda: value_of(patient.scrape(), open_ones) == 12)


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[tuple[Cluster, Patient]]:
    """Two brokers and a controller: the topic orders on both, and one on broker 2 alone."""
    found = Cluster(tmp_path, zookeeper.connect, brokers=2, controllers=1)
    ports = {}
    for number, member in {**found.controllers, **found.brokers}.items():
        ports[f"p-{number}"] = free_port()
        member.arguments = ["--admin", f"127.0.0.1:{ports[f'p-{number}']}"]
    with running(found):
        patient = Patient(found.brokers[1].bootstrap, ports, tmp_path)
        create: Callable[..., str] = patient.odradek
        create("topics", "create", "orders", "-r", "2", "-c", "min.insync.replicas=2")
        create("topics", "create", "alone", "-p", "2", "-r", "1")
        yield found, patient


def test_a_broker_that_is_killed(cluster: tuple[Cluster, Patient]) -> None:
    found, patient = cluster
    before = patient.scrape()
    found.brokers[2].kill()
    names = ("leaderless", "under_replicated", "below_min_in_sync")

    def counts() -> list[float]:
        seen = patient.scrape()
        return [value_of(seen, f"odradek_partitions_{name}") for name in names]

    wait_until("the controller sees it", counts, all)
    for alert in (
        "OdradekProcessDown",
        "OdradekPartitionsLeaderless",
        "OdradekPartitionsUnderReplicated",
        "OdradekPartitionsBelowMinInSync",
    ):
        assert patient.raises(alert, before)
    shown = patient.play("OdradekProcessDown")
    assert "alone" in shown["odradek status"]
    shown = patient.play("OdradekPartitionsBelowMinInSync")
    assert "orders" in shown["odradek topics describe --under-min-isr"]
    shown = patient.play("OdradekPartitionsUnderReplicated")
    assert "orders" in shown["odradek topics describe --under-replicated"]
    assert "alone" in patient.odradek("topics", "describe", "--unavailable")
    found.brokers[2].start()
    wait_until("all is as before", lambda: not any(counts()))


def test_a_controller_that_is_killed(cluster: tuple[Cluster, Patient]) -> None:
    found, patient = cluster
    before = patient.scrape()
    found.controllers[101].kill()
    assert patient.raises("OdradekNoActiveController", before)
    shown = patient.play("OdradekNoActiveController")
    assert "controller" in shown["odradek status"]
    found.controllers[101].start()
    healthy = (0, ExitCode.DEGRADED)
    wait_until(
        "a controller is active", lambda: patient.odradek("status", codes=healthy), not_yet=AssertionError
    )
