"""Compaction of a running broker: its process, its swaps, its checkpoint, and what clients read before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.broker_process import Broker
from tests.support.local_process import running
from tests.support.plain_reads import read_partition
from tests.support.polling import SECONDS_MAX, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.clients]

CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "65536",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "1000",
}
KEYS = 100


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "1000",
    }
    with running(Broker(tmp_path, settings=settings)) as started:
        yield started


def create(broker: Broker, topic: str, **more: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=CONFIG | more)])[topic].result(SECONDS_MAX)


def write(broker: Broker, topic: str, rounds: range, **settings: str) -> dict[bytes, bytes | None]:
    """Each key once in each round; every tenth key is deleted in the last. What is to be read in the end."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})
    last: dict[bytes, bytes | None] = {}
    for number in rounds:
        for key_number in range(KEYS):
            key = b"key-%d" % key_number
            is_deleted = number == rounds[-1] and key_number % 10 == 0
            last[key] = None if is_deleted else b"%d-%d " % (number, key_number) * 20
            producer.produce(topic, key=key, value=last[key], partition=0)
        producer.poll(0)
        assert producer.flush(30) == 0
    return last


def read(broker: Broker, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    found = []
    for message in read_partition(broker.bootstrap, topic):
        offset, key = message.offset(), message.key()
        assert offset is not None and key is not None
        found.append((offset, key, message.value()))
    return found


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "gzip", "snappy"])
def test_a_consumer_reads_the_last_value_of_each_key(broker: Broker, codec: str) -> None:
    create(broker, "tables")
    last = write(broker, "tables", range(40), **{"compression.type": codec})
    # Closes the segment of the last round.
    time.sleep(1.1)
    write(broker, "tables", range(1))
    full = 40 * KEYS + KEYS
    wait_until(
        "most is compacted",
        lambda: len(read(broker, "tables")),
        lambda count: count < full / 5,
        more=broker.log,
    )
    first_of_more = 40 * KEYS
    found = read(broker, "tables")
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert {key: value for offset, key, value in found if offset < first_of_more} == last
    for is_crash in (False, True):
        broker.restart(crash=is_crash)
        again = read(broker, "tables")
        assert {key: value for offset, key, value in again if offset < first_of_more} == last
        assert again[-1][0] == full - 1
    assert (broker.data / "cleaner-offset-checkpoint").exists()
    assert "Traceback" not in broker.log()
