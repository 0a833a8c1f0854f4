"""Apache Kafka 4.1.1 judges our files, and we open its manager."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.foundation.clock import SystemClock
from odradek.foundation.ids import TopicPartition
from odradek.storage.config import LogConfig
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.files import SystemDisk
from odradek.storage.log import Log
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_peer import KafkaPeer
from tests.support.kafka_tools import run_kafka_tool
from tests.support.local_process import running
from tests.support.logs import START_MS, StillClock, end_transaction, load, stored_records

pytestmark = [pytest.mark.java, pytest.mark.thorough]

CONFIG = LogConfig(segment_bytes=40_000, index_interval_bytes=500)


@pytest.fixture(scope="module", autouse=True)
def kafka() -> None:
    try:
        kafka_classpath()
    except JavaUnavailableError as why:
        pytest.skip(str(why))


def _open(path: Path, *, clean: bool, clock: StillClock) -> Log:
    log = Log.open(
        str(path),
        TopicPartition("topic", 0),
        config=CONFIG,
        disk=SystemDisk(),
        clock=clock,
        clean=clean,
        topic_id=uuid.UUID(int=77),
    )
    log.producers.rules.must_verify = False
    return log


def _fill(log: Log, *, seed: int, count: int) -> None:
    """Batches of all codecs, some idempotent, some transactional, times that go back and forth, new epochs."""
    rng = random.Random(seed)
    sequences = {1: 0, 2: 0}
    for number in range(count):
        timestamp_ms = START_MS + number * 10 + rng.randint(-500, 500)
        values = [
            (timestamp_ms + rng.randint(0, 5), b"k%d" % number, rng.randbytes(rng.randint(0, 300)))
            for _ in range(rng.randint(1, 6))
        ]
        fields = {}
        producer_id = rng.choice((-1, 1, 2))
        if producer_id > 0:
            fields = {
                "producer_id": producer_id,
                "producer_epoch": 0,
                "base_sequence": sequences[producer_id],
                "is_transactional": producer_id == 2,
            }
            sequences[producer_id] += len(values)
        batch = build_batch(values, compression=rng.choice(list(Compression)), **fields)
        log.append(batch, leader_epoch=number // 60)
        if number % 40 == 39:
            end_transaction(
                log, 2, is_commit=number % 80 == 39, leader_epoch=number // 60, timestamp_ms=timestamp_ms
            )


def _dump(directory: Path, pattern: str, *options: str) -> str:
    files = ",".join(str(path) for path in sorted(directory.glob(pattern)))
    assert files, f"no {pattern} in {directory}"
    return run_kafka_tool("kafka.tools.DumpLogSegments", "--files", files, *options).stdout


def _require_sound(directory: Path, log_end_offset: int) -> None:
    dumped = _dump(directory, "*.log", "--print-data-log", "--deep-iteration")
    assert "isvalid: false" not in dumped
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
    assert offsets == list(range(log_end_offset))
    for pattern in ("*.index", "*.timeindex"):
        for option in ("--index-sanity-check", "--verify-index-only"):
            said = _dump(directory, pattern, option)
            assert not re.search(r"mismatch|Found|not found|out of order|corrupt|Error", said), said
            if option == "--index-sanity-check":
                assert said.count("passed sanity check") == len(list(directory.glob(pattern))), said


def test_kafka_reads_and_verifies_what_we_write(tmp_path: Path) -> None:
    clock = StillClock()
    directory = tmp_path / "topic-0"
    log = _open(directory, clean=False, clock=clock)
    _fill(log, seed=1, count=200)
    log.truncate_to(log.log_end_offset - 5)
    _fill_more = build_batch([(START_MS + 5000, b"k", b"after the truncation")])
    log.append(_fill_more, leader_epoch=9)
    end = log.log_end_offset
    assert len(log.segments) > 3
    log.close()

    _require_sound(directory, end)
    snapshots = _dump(directory, "*.snapshot")
    assert "producerId: 1" in snapshots and "corrupt" not in snapshots
    aborted = _dump(directory, "*.txnindex")
    assert "producerId: 2" in aborted


def test_kafka_verifies_what_recovery_rebuilt(tmp_path: Path) -> None:
    clock = StillClock()
    directory = tmp_path / "topic-0"
    log = _open(directory, clean=False, clock=clock)
    _fill(log, seed=2, count=200)
    last = log.segments.active.path
    log.mark_deleted()
    for index in directory.glob("*index"):
        index.write_bytes(b"\0" * 12_345)
    with open(f"{last}.log", "ab") as torn:
        torn.write(b"torn" * 100)
    log = _open(directory, clean=False, clock=clock)
    assert log.truncated_bytes == 400
    end = log.log_end_offset
    log.close()
    _require_sound(directory, end)


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[KafkaPeer]:
    peer = KafkaPeer(
        tmp_path / "kafka",
        settings={"log.segment.bytes": "1048576", "log.index.interval.bytes": "1000", "num.partitions": "2"},
        heap="512m",
    )
    with running(peer):
        yield peer


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_a_directory_of_kafka_opens_here(peer: KafkaPeer, stop: str) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "enable.idempotence": True, "compression.type": "lz4"}
    )
    sent = [b"%d-" % number + random.Random(number).randbytes(600) for number in range(5000)]
    for number, value in enumerate(sent):
        producer.produce("from-kafka", value, key=b"%d" % number, partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0
    del producer
    _ = peer.stop() if stop == "clean" else peer.kill()

    manager = LogManager([str(peer.data)], disk=SystemDisk(), clock=SystemClock(), broker_id=1)
    manager.directories.open()
    assert manager.directories.cluster_id is not None
    load(manager, lambda _: LogConfig(segment_bytes=1048576, index_interval_bytes=1000))
    for partition in range(2):
        log = manager.get(TopicPartition("from-kafka", partition))
        assert log is not None and log.topic_id is not None
        assert (log.recovered_bytes == 0) == (stop == "clean")
        assert log.truncated_bytes == 0
        assert [record.value for record in stored_records(log)] == sent[partition::2]
        assert len(log.segments) > 1
        found = log.offset_of_max_timestamp()
        assert found is not None and found.timestamp_ms == log.highest_timestamp
        assert log.offset_for_timestamp(found.timestamp_ms) is not None
        assert log.producers.entries()
        for offset in (0, 17, 1200, 2499):
            assert stored_records(log, from_offset=offset)[0].offset == offset
    manager.close()
    # And Kafka takes its own directory back.
    before = len(peer.log())
    peer.start()
    loading = [line for line in peer.log()[before:].splitlines() if "partition=from-kafka" in line]
    assert loading
    assert not [line for line in loading if "Recovering" in line or "WARN" in line or "ERROR" in line]
    log_of_partition = _dump(peer.data / "from-kafka-0", "*.log")
    assert "isvalid: false" not in log_of_partition
