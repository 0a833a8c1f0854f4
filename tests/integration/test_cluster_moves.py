"""Brokers are drained, removed, put back and filled on a real ZooKeeper by the command line, while producers write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer
from confluent_kafka import TopicPartition as Partition

from odradek.wire.records.record import records
from tests.chaos.final_logs import batches_of
from tests.integration.deliveries import Deliveries
from tests.support.broker_process import CHECKOUT
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.polling import wait_until
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.clients, pytest.mark.slow, pytest.mark.thorough]

PATIENCE_SECONDS = 90.0
OK, REFUSED = 0, 7


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeper) -> Iterator[Cluster]:
    with running(Cluster(tmp_path, zookeeper.connect, settings={"min.insync.replicas": "2"})) as made:
        yield made


class Shell:
    """`odradek` against a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(CHECKOUT / "broker"),
            "ODRADEK_BOOTSTRAP": cluster.bootstrap,
        }

    def run(self, *arguments: str, code: int = OK, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "odradek", *arguments],
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == code, (
            f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
        return done.stdout

    def json(self, *arguments: str, code: int = OK, given: str = "") -> Any:
        return json.loads(self.run(*arguments, "--output", "json", code=code, given=given))


class Writer(Deliveries):
    """Writes numbers with acks=all in a thread until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        )
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        number = 0
        while not self._ended.is_set():
            self._producer.produce(
                self._topic, b"%d" % number + b"." * 500, on_delivery=self.told(number), partition=number % 6
            )
            self._producer.poll(0.002)
            number += 1

    def stop(self) -> list[int]:
        """The numbers that were acknowledged; fails when one was refused."""
        self._ended.set()
        self._thread.join(PATIENCE_SECONDS)
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert self.failed == []
        return self.acknowledged


def read_all(bootstrap: str, topic: str, *, wanted: set[int]) -> set[int]:
    """What is read until all that is wanted was, or time is up. No place is read twice."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([Partition(topic, number, OFFSET_BEGINNING) for number in range(6)])
    places: set[tuple[int, int]] = set()
    numbers: set[int] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not wanted <= numbers and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                place = (message.partition() or 0, message.offset() or 0)
                assert place not in places, f"{place} was read twice"
                places.add(place)
                numbers.add(number_in(message.value()))
    finally:
        consumer.close()
    return numbers


def number_in(value: bytes | None) -> int:
    return int((value or b"").rstrip(b"."))


def doubles(cluster: Cluster) -> list[str]:
    """What a replica has twice from the same producer in the same epoch.

    A producer that takes another epoch sends unanswered records again, and no broker can recognise them. librdkafka
    does so by itself. That brokers give it no reason to is for `tests/server/test_pipelined_producers.py`.
    """
    found: list[str] = []
    for number in sorted(cluster.brokers):
        for name in kept(cluster, number):
            seen: set[tuple[int, int, int]] = set()
            for batch in batches_of(cluster.brokers[number].data / name):
                for record in records(batch):
                    value = number_in(record.value)
                    identity = (batch.header.producer_id, batch.header.producer_epoch, value)
                    if identity in seen:
                        found.append(f"{identity} again at {record.offset} of {name} on {number}")
                    seen.add(identity)
    return found


def kept(cluster: Cluster, broker: int) -> list[str]:
    """The directories of the topic's partitions on a broker's disk, but for those that are being removed."""
    found = cluster.brokers[broker].data.glob("orders-*")
    return sorted(path.name for path in found if not path.name.endswith("-delete"))


def test_a_broker_is_drained_and_filled_again_while_the_controller_dies(cluster: Cluster) -> None:
    shell = Shell(cluster)
    shell.run("topics", "create", "orders", "-p", "6", "-r", "2")
    writer = Writer(cluster.bootstrap, "orders")
    try:
        wait_until("some records", lambda: len(writer.acknowledged) > 500)
        plan = shell.json("brokers", "drain", "3", "--dry-run")
        assert len(plan["partitions"]) == 4
        # So slow that it would take minutes.
        shell.run("brokers", "drain", "3", "--throttle", "2000")
        moving = shell.json("reassign", "list")
        assert moving
        assert not shell.json("brokers", "drained", "3", code=REFUSED)["is_done"]
        shell.run("topics", "create", "late", "-p", "6", "-r", "2")
        cluster.controllers[cluster.active_controller()].kill()
        wait_until("another controller's list", lambda: shell.json("reassign", "list") is not None)
        assert {tuple(one["move"]["removing"]) for one in shell.json("reassign", "list")} <= {(3,)}

        shell.run("brokers", "drain", "3", "--throttle", "100000000", "--wait")
        assert "can be removed" in shell.run("brokers", "drained", "3")
        (gone,) = (one for one in shell.json("brokers", "list") if one["id"] == 3)
        assert (gone["replicas"], gone["leaders"], gone["is_cordoned"]) == (0, 0, True)
        wait_until("empty disk", lambda: kept(cluster, 3) == [])
        assert cluster.brokers[3].stop() == 0

        cluster.brokers[3].start()
        shell.run("brokers", "undrain", "3")
        shell.run("brokers", "rebalance", "3", "--wait")
        loads = {one["id"]: one["replicas"] for one in shell.json("brokers", "list")}
        assert max(loads.values()) - min(loads.values()) <= 1, loads
    finally:
        acknowledged = writer.stop()
    missing = set(acknowledged) - read_all(cluster.bootstrap, "orders", wanted=set(acknowledged))
    # Shortened: to show the difference of long lists takes longer than all the rest.
    assert not missing, f"{len(missing)} of {len(acknowledged)} are missing: {sorted(missing)[:20]}"
    assert doubles(cluster) == []


def test_plans_are_executed_verified_and_cancelled_and_factors_changed(
    cluster: Cluster, tmp_path: Path
) -> None:
    shell = Shell(cluster)
    shell.run("topics", "create", "orders", "-p", "3", "-r", "1", "-c", "min.insync.replicas=1")
    # With keys, so that no partition is empty: an empty one has moved at once.
    shell.run("produce", "orders", "-K", ":", given="".join(f"{n}:{'.' * 900}\n" for n in range(600)))
    plan = tmp_path / "plan.json"
    made = shell.json("reassign", "plan", "orders", "--replication-factor", "3")
    plan.write_text(json.dumps(made))
    assert all(len(one["replicas"]) == 3 for one in made["partitions"])
    assert "replication factor is changed" in _error(shell, "reassign", "execute", str(plan), "--keep-factor")
    # Slow enough for the smallest of the partitions to be on its way for minutes.
    shell.run("reassign", "execute", str(plan), "--throttle", "10")
    results = shell.json("reassign", "verify", str(plan), code=REFUSED)
    assert {one["result"] for one in results} == {"moving"}
    assert shell.run("reassign", "cancel", str(plan)) == "cancelled  3 moves\n"
    results = shell.json("reassign", "verify", str(plan), code=REFUSED)
    assert {one["result"] for one in results} == {"not as planned"}
    shell.run("reassign", "execute", str(plan), "--wait")
    assert {one["result"] for one in shell.json("reassign", "verify", str(plan))} == {"done"}
    shell.run("topics", "alter", "orders", "--replication-factor", "2")
    (described,) = shell.json("topics", "describe", "orders")
    assert {len(one["replicas"]) for one in described["partitions"]} == {2}
    assert "no partition needs an election" in shell.run("topics", "elect-leaders")
    assert {one["result"] for one in shell.json("topics", "elect-leaders", "orders")} == {"not needed"}
    assert "no broker 9 is registered" in _error(
        shell,
        "reassign",
        "execute",
        "-",
        given='{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [9]}]}',
    )


def _error(shell: Shell, *arguments: str, given: str = "") -> str:
    with pytest.raises(AssertionError) as caught:
        shell.run(*arguments, given=given)
    assert f"ended with {REFUSED}" in str(caught.value)
    return str(caught.value)
