"""What a start makes of the logs on disk: leaderships after an unclean stop, topics that the registry does not know."""

import asyncio
from pathlib import Path

import pytest

from odradek.broker.process.broker_process import BrokerProcess
from odradek.broker.process.environment import REGISTRY_FILE
from odradek.broker.process.local_control import LocalControl
from odradek.broker.replication.transactional_writes import append_marker
from odradek.foundation.clock import SystemClock
from odradek.foundation.settings.broker_settings import Settings
from odradek.metadata.controller.requests import NewPartitions, NewTopic
from odradek.wire.records.builder import build_batch
from odradek.wire.records.control import Marker

pytestmark = pytest.mark.integration


def _settings(path: Path) -> Settings:
    return Settings({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(path)})


def _epochs(broker: BrokerProcess[LocalControl]) -> dict[str, list[int]]:
    return {
        name: [partition.leader_epoch for partition in topic.partitions]
        for name, topic in broker.images.current.topics.items()
    }


def test_leaderships_begin_anew_after_an_unclean_stop_only(tmp_path: Path) -> None:
    async def first() -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.control.controller.create_topics([NewTopic(name="t", partition_count=2)])
        await broker.stop()

    async def again(*, expected: int) -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        assert _epochs(broker) == {"t": [expected, expected]}
        assert {partition.leader_epoch for partition in broker.partitions} == {expected}
        await broker.stop()

    asyncio.run(first())
    asyncio.run(again(expected=0))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    asyncio.run(again(expected=1))
    asyncio.run(again(expected=1))


def test_topics_without_a_registry_are_taken_in_with_their_ids(tmp_path: Path) -> None:
    async def write() -> dict[str, object]:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.control.controller.create_topics(
            [NewTopic(name="t", partition_count=2), NewTopic(name="u")]
        )
        await broker.control.controller.create_partitions([NewPartitions(topic="t", total_count=3)])
        ids: dict[str, object] = {name: topic.id for name, topic in broker.images.current.topics.items()}
        await broker.stop()
        return {**ids, "cluster": broker.images.current.cluster_id}

    async def adopt() -> dict[str, object]:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        topics = broker.images.current.topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"t": 3, "u": 1}
        ids: dict[str, object] = {name: topic.id for name, topic in topics.items()}
        await broker.stop()
        return {**ids, "cluster": broker.images.current.cluster_id}

    before = asyncio.run(write())
    for path in tmp_path.glob(f"{REGISTRY_FILE}*"):
        path.unlink()
    assert asyncio.run(adopt()) == before
    assert asyncio.run(adopt()) == before


def test_producer_ids_in_logs_are_not_allocated_again(tmp_path: Path) -> None:
    async def write() -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.control.controller.create_topics([NewTopic(name="t")])
        now_ms = SystemClock().wall_ms()  # A producer that was silent for a day is forgotten.
        records = build_batch([(now_ms, None, b"v")], producer_id=4321, producer_epoch=0, base_sequence=0)
        broker.partitions.get("t", 0).require_leader().append(bytes(records), required_acks=-1)
        await broker.stop()

    async def adopt() -> int:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        first, _ = await broker.controller.allocate_producer_ids()
        await broker.stop()
        return first

    asyncio.run(write())
    for path in tmp_path.glob(f"{REGISTRY_FILE}*"):
        path.unlink()
    assert asyncio.run(adopt()) > 4321


def test_producer_ids_of_transactional_ids_are_not_allocated_again(tmp_path: Path) -> None:
    # A transactional id that has not written, or not for a day, is in the transaction log alone.
    async def write() -> int:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.coordinators.transactions.ensure_topic()
        await broker.coordinators.transactions.runtime.wait_until_loaded()
        for name in ("a", "b", "c"):
            producer = await broker.coordinators.transactions.initialize(name, timeout_ms=1000, given=None)
        await broker.stop()
        return producer.producer_id

    async def adopt() -> tuple[int, int, int]:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        first, _ = await broker.controller.allocate_producer_ids()
        transactions = broker.coordinators.transactions
        await transactions.runtime.wait_until_loaded()
        again = await transactions.initialize("c", timeout_ms=1000, given=None)
        await broker.stop()
        return first, again.producer_id, again.producer_epoch

    used = asyncio.run(write())
    assert used >= 2
    for path in tmp_path.glob(f"{REGISTRY_FILE}*"):
        path.unlink()
    first, producer_id, epoch = asyncio.run(adopt())
    assert first > used
    assert (producer_id, epoch) == (used, 1), "the id continues as it was"


def test_a_coordinator_begins_above_the_epochs_of_markers_in_all_logs(tmp_path: Path) -> None:
    # A coordinator stopped after its marker and before its own record: the transaction log does not have its epoch.
    async def write() -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.control.controller.create_topics([NewTopic(name="t")])
        await broker.coordinators.transactions.ensure_topic()
        marker = Marker(
            producer_id=7,
            producer_epoch=1,
            is_commit=True,
            coordinator_epoch=40,
            timestamp_ms=SystemClock().wall_ms(),
        )
        append_marker(broker.partitions.get("t", 0).require_leader(), marker, transaction_version=2)
        await broker.stop()

    async def adopt() -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        assert set(_epochs(broker)["__transaction_state"]) == {41}
        assert _epochs(broker)["t"] == [1]
        await broker.stop()

    asyncio.run(write())
    for path in tmp_path.glob(f"{REGISTRY_FILE}*"):
        path.unlink()
    asyncio.run(adopt())


def test_settings_that_kafka_left_rule_from_the_first_moment(tmp_path: Path) -> None:
    async def write() -> None:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        await broker.control.controller.create_topics([NewTopic(name="t")])
        await broker.stop()

    async def adopt() -> tuple[bool, int]:
        broker = BrokerProcess(_settings(tmp_path), control=LocalControl())
        await broker.start()
        config = broker.partitions.get("t", 0).log.config
        await broker.stop()
        return config.cleanup_delete, config.segment_bytes

    asyncio.run(write())
    for path in tmp_path.glob(f"{REGISTRY_FILE}*"):
        path.unlink()
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    # A record of kind 4 is a setting; the second is one that this broker lacks.
    settings = [("cleanup.policy", "compact"), ("no.such.key", "1"), ("segment.bytes", "2000000")]
    values = [
        b"\1\4\0\2\2t" + bytes([len(key) + 1]) + key.encode() + bytes([len(text) + 1]) + text.encode() + b"\0"
        for key, text in settings
    ]
    (metadata / f"{0:020}.log").write_bytes(build_batch([(0, None, value) for value in values]))
    assert asyncio.run(adopt()) == (False, 2_000_000)
