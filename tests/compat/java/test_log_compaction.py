"""Kafka's own judge of compaction, and Kafka on a directory that this broker has compacted.

`LogCompactionTester` writes keys many times over, waits, reads the topic, and compares with what it wrote. It passes
where nothing was compacted, so the reduction that it prints is asserted, too.
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.support.broker_process import Broker
from tests.support.java import JavaUnavailableError, java_arguments, java_environment, kafka_tests_classpath
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import QUICK, skip_or_fail, topic_creator
from tests.support.plain_reads import all_records
from tests.support.polling import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

SECONDS_MAX = 280
CLEANING = {
    "log.segment.bytes": str(1 << 20),
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
KEYS = 500
ROUNDS = 60


def test_kafkas_compaction_tester_finds_every_last_value(tmp_path: Path) -> None:
    broker = Broker(tmp_path, settings=CLEANING)
    broker.start()
    arguments = ["--bootstrap-server", broker.bootstrap, "--messages", "100000", "--duplicates", "10"]
    arguments += ["--percent-deletes", "10", "--topics", "1", "--sleep", "40"]
    try:
        command = java_arguments(
            "kafka.tools.LogCompactionTester", arguments, classpath=kafka_tests_classpath()
        )
        done = subprocess.run(
            command,
            env=java_environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    finally:
        broker.close()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    reduction = re.search(r"([\d.]+)% reduction", done.stdout)
    assert reduction is not None, done.stdout
    assert float(reduction[1]) > 30, done.stdout


def test_kafka_and_this_broker_go_on_with_what_the_other_has_compacted(tmp_path: Path) -> None:
    """Kafka writes and compacts, this broker continues, and Kafka reads, and compacts what this broker wrote."""
    settings = QUICK | {"log.cleaner.backoff.ms": "500", "log.cleaner.min.cleanable.ratio": "0.01"}
    last: dict[bytes, bytes] = {}
    try:
        kafka = KafkaPeer(tmp_path, settings=settings, heap="512m")
        kafka.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    broker = Broker(tmp_path, settings=settings)
    try:
        topic_creator(kafka.bootstrap)(1, name="table", cleanup_policy="compact", segment_bytes=1 << 20)
        last |= fill(kafka.bootstrap, "kafka")
        wait_until_compacted(kafka.bootstrap, last)
        kafka.stop()
        broker.start()
        assert dict(all_records(broker.bootstrap, "table")) == last
        last |= fill(broker.bootstrap, "here")
        wait_until_compacted(broker.bootstrap, last)
        broker.stop()
        assert "Traceback" not in broker.log()
        kafka.start()
        assert dict(all_records(kafka.bootstrap, "table")) == last
        last |= fill(kafka.bootstrap, "kafka again")
        wait_until_compacted(kafka.bootstrap, last)
    finally:
        broker.close()
        kafka.close()


def fill(bootstrap: str, name: str) -> dict[bytes, bytes]:
    """Write keys many times over; their last values."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 5})
    last = {}
    for number in range(ROUNDS):
        for key_number in range(KEYS):
            key = b"key-%d" % key_number
            last[key] = f"{name} {number} {key_number} ".encode() + bytes(range(200))
            producer.produce("table", last[key], key, partition=0)
        producer.flush(30)
    roll(bootstrap)
    # The segment is closed by the next record.
    last[b"end"] = name.encode()
    producer.produce("table", last[b"end"], b"end", partition=0)
    assert producer.flush(30) == 0
    return last


def roll(bootstrap: str) -> None:
    """Let the next append begin a segment."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource("topic", "table")
    resource.add_incremental_config(
        ConfigEntry("segment.ms", "1", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result(30)
    time.sleep(0.5)


def wait_until_compacted(bootstrap: str, last: dict[bytes, bytes]) -> None:
    def left() -> int:
        found = all_records(bootstrap, "table")
        assert dict(found) == last
        return len(found)

    wait_until(f"few records of {len(last)} keys are left", left, lambda count: count <= 2 * len(last))
