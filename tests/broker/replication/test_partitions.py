"""Partitions follow the cluster: topics come and go, settings change, directories fail, restarts keep everything."""

import asyncio
import errno
import uuid
from dataclasses import replace

import pytest

from odradek.foundation.errors import KafkaStorageError, UnknownTopicId, UnknownTopicOrPartition
from odradek.metadata.controller.requests import AlterConfigOp, ConfigOperation, NewPartitions, Resource
from odradek.metadata.image.image import ResourceKind
from odradek.wire.protocol.api import ApiKey
from tests.support.memory_registry import MemoryStore
from tests.support.whole_broker import WholeBroker


async def alter(broker: WholeBroker, kind: ResourceKind, name: str, key: str, value: str) -> None:
    change = AlterConfigOp(key, ConfigOperation.SET, value)
    (outcome,) = await broker.broker.controller.incremental_alter_configs([(Resource(kind, name), [change])])
    assert outcome is None


async def test_a_topic_is_ready_when_its_creation_is_answered() -> None:
    broker = await WholeBroker.start()
    partitions = broker.broker.partitions
    with pytest.raises(UnknownTopicOrPartition):
        partitions.get("t", 0)
    await broker.create_topic("t", partitions=2)
    first = partitions.get("t", 0)
    topic_id = first.topic_id
    assert partitions.get_by_id(topic_id, 1) is partitions.get("t", 1)
    assert partitions.get_by_key(topic_id.bytes, 0) is partitions.get_by_key("t", 0) is first
    with pytest.raises(UnknownTopicOrPartition):
        partitions.get("t", 2)
    await broker.broker.control.controller.delete_topics(["t"])
    with pytest.raises(UnknownTopicOrPartition):
        first.require_leader().append(b"", required_acks=1)
    for key in (topic_id.bytes, uuid.UUID(int=5).bytes):
        with pytest.raises(UnknownTopicId):
            partitions.get_by_key(key, 0)


async def test_a_topic_created_again_is_another_topic() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.produce("t", b"old")
    old_id = broker.broker.partitions.get("t", 0).topic_id
    await broker.broker.control.controller.delete_topics(["t"])
    await broker.create_topic("t")
    fresh = broker.broker.partitions.get("t", 0)
    assert fresh.topic_id != old_id
    assert fresh.high_watermark == 0
    broker = await broker.restart()
    assert broker.broker.partitions.get("t", 0).high_watermark == 0


async def test_new_partitions_are_ready_and_old_ones_stay() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    first = broker.broker.partitions.get("t", 0)
    await broker.broker.control.controller.create_partitions([NewPartitions(topic="t", total_count=3)])
    assert broker.broker.partitions.get("t", 0) is first
    assert (await broker.produce("t", b"a", partition=2)).error_code == 0


async def test_settings_reach_the_logs_as_they_change() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.create_topic("own", max_message_bytes="5000")
    assert (await broker.produce("t", b"x" * 1000)).error_code == 0
    await alter(broker, ResourceKind.TOPIC, "t", "max.message.bytes", "500")
    assert (await broker.produce("t", b"x" * 1000)).error_code == 10
    await alter(broker, ResourceKind.BROKER, "", "message.max.bytes", "3000")
    await broker.create_topic("later")
    assert (await broker.produce("later", b"x" * 3500)).error_code == 10
    assert (await broker.produce("own", b"x" * 3500)).error_code == 0, "a topic's own value wins"
    await alter(broker, ResourceKind.TOPIC, "t", "min.insync.replicas", "3")
    assert broker.broker.partitions.get("t", 0).replica.min_insync_replicas == 3


async def test_a_restart_keeps_records_epochs_and_topics() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    for value in (b"a", b"b"):
        await broker.produce("t", value, partition=1)
    epoch = broker.broker.partitions.get("t", 1).leader_epoch
    broker = await broker.restart()
    found = broker.broker.partitions.get("t", 1)
    assert (found.high_watermark, found.leader_epoch) == (2, epoch)
    assert (await broker.produce("t", b"c", partition=1)).base_offset == 2


async def test_logs_without_a_registry_are_taken_in() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    await broker.produce("t", b"a", partition=1)
    topic_id = broker.broker.partitions.get("t", 1).topic_id
    await broker.broker.stop()
    broker = await WholeBroker.start(disk=broker.disk)
    found = broker.broker.partitions.get("t", 1)
    assert (found.topic_id, found.high_watermark) == (topic_id, 1)
    assert found.leader_epoch == 1, "leadership begins again"
    assert (await broker.produce("t", b"b", partition=1)).base_offset == 1


async def test_a_failed_directory_takes_its_partitions_offline() -> None:
    broker = await WholeBroker.start({"log.dirs": "/one,/two"})
    await broker.create_topic("t", partitions=2)
    partitions = [broker.broker.partitions.get("t", index) for index in range(2)]
    lost = next(partition for partition in partitions if partition.log.parent_directory == "/one")
    kept = next(partition for partition in partitions if partition.log.parent_directory == "/two")
    index = lost.topic_partition.partition
    waiting = broker.send(ApiKey.FETCH, 11, **broker.fetch_fields(("t", index, 0), max_wait_ms=60_000))
    broker.disk.fail_path("/one", errno.EIO)
    assert (await broker.produce("t", b"a", partition=index)).error_code == 56
    async with asyncio.timeout(1):
        await waiting
    with pytest.raises(KafkaStorageError):
        lost.reader.read(0, 100, at_least_one_batch=True, committed_only=False)
    assert (await broker.produce("t", b"a", partition=kept.topic_partition.partition)).error_code == 0


async def test_retention_deletes_old_segments_and_fails_their_readers() -> None:
    broker = await WholeBroker.start({"log.retention.check.interval.ms": "1000", "log.retention.ms": "60000"})
    await broker.create_topic("t", internal_segment_bytes="1000")
    clock = broker.broker.clock
    for _ in range(4):
        await broker.produce("t", b"x" * 600, timestamp_ms=clock.wall_ms())
    await asyncio.sleep(120)
    partition = broker.broker.partitions.get("t", 0)
    assert partition.log.log_start_offset > 0
    answer = await broker.ask(ApiKey.FETCH, 11, **broker.fetch_fields(("t", 0, 0)))
    assert answer.responses[0].partitions[0].error_code == 1


async def test_records_are_flushed_when_their_time_has_come() -> None:
    broker = await WholeBroker.start({"log.flush.interval.ms": "2000", "log.initial.task.delay.ms": "0"})
    await broker.create_topic("t")
    await broker.produce("t", b"a")
    log = broker.broker.partitions.get("t", 0).log
    assert log.recovery_point == 0
    await asyncio.sleep(4)
    assert log.recovery_point == 1
    assert broker.broker.flusher.flushes == 1


async def power_lost(broker: WholeBroker) -> WholeBroker:
    """The machine loses power; the same broker on what its disk then has."""
    broker.disk.crash()
    store = broker.broker.control._store
    assert isinstance(store, MemoryStore)
    store.expire()
    return await WholeBroker.start(disk=broker.disk, registry=broker.registry)


async def test_a_lost_topic_id_does_not_take_the_partition_offline() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    topic_id = broker.broker.partitions.get("t", 0).topic_id
    metadata = "/logs/t-0/partition.metadata"
    assert broker.disk.read(metadata)
    broker = await power_lost(broker)
    assert broker.broker.partitions.get("t", 0).log.topic_id == topic_id
    broker = await broker.restart()
    broker = await power_lost(broker)
    assert broker.broker.partitions.get("t", 0).log.topic_id == topic_id
    assert broker.disk.read(metadata).startswith(b"version: 0\ntopic_id: ")
    assert (await broker.produce("t", b"a")).error_code == 0


async def test_a_power_failure_after_a_clean_start_is_no_clean_stop() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t")
    await broker.produce("t", b"a")
    broker = await broker.restart()
    broker = await power_lost(broker)
    (log,) = broker.broker.log_manager.logs()
    assert broker.broker.log_manager.may_have_lost(log)


async def test_a_partition_unopened_on_a_full_disk_opens_with_room() -> None:
    broker = await WholeBroker.start({"log.initial.task.delay.ms": "0"})
    await broker.create_topic("before")
    broker.disk.capacity_bytes = broker.disk.used_bytes
    await broker.create_topic("t", partitions=2)
    for partition in (0, 1):
        with pytest.raises(KafkaStorageError, match="offline"):
            broker.broker.partitions.get("t", partition)
    await asyncio.sleep(300)
    assert broker.broker.partitions.retry_offline() == 2, "there is no room yet"
    assert (await broker.produce("t", b"a")).error_code == 56
    broker.disk.capacity_bytes = None
    await asyncio.sleep(31)
    assert broker.broker.partitions.retry_offline() == 0
    for partition in (0, 1):
        assert (await broker.produce("t", b"a", partition=partition)).error_code == 0
    broker = await broker.restart()
    assert broker.broker.partitions.get("t", 0).high_watermark == 1


async def test_what_a_full_disk_kept_away_is_not_made_once_its_topic_is_gone() -> None:
    broker = await WholeBroker.start({"log.initial.task.delay.ms": "0"})
    broker.disk.capacity_bytes = broker.disk.used_bytes
    await broker.create_topic("t")
    await broker.broker.control.controller.delete_topics(["t"])
    broker.disk.capacity_bytes = None
    assert broker.broker.partitions.retry_offline() == 0
    assert list(broker.broker.log_manager.logs()) == []
    with pytest.raises(UnknownTopicOrPartition):
        broker.broker.partitions.get("t", 0)


async def test_a_leader_that_could_not_store_its_epoch_leads_with_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await WholeBroker.start({"log.initial.task.delay.ms": "0"})
    await broker.create_topic("t")
    partitions = broker.broker.partitions
    partition = partitions.get("t", 0)
    (state,) = broker.broker.images.current.topics["t"].partitions
    # A second replica, on a broker that is not there.
    moved = state._replace(leader_epoch=state.leader_epoch + 1, replicas=(*state.replicas, 99))
    topic = broker.broker.images.current.topics["t"]._replace(partitions=(moved,))
    image = replace(broker.broker.images.current, topics={"t": topic})
    notified: list[int] = []
    monkeypatch.setattr(partitions.callbacks, "role_changed", lambda one: notified.append(one.leader_epoch))
    broker.disk.capacity_bytes = broker.disk.used_bytes
    broker.broker.images.replace(image)
    assert not partitions.get("t", 0).is_leader
    assert notified == [moved.leader_epoch], "followers and consumers learn of the epoch in any case"
    assert partitions.retry_offline() == 1
    broker.disk.capacity_bytes = None
    assert partitions.retry_offline() == 0
    assert partitions.get("t", 0).is_leader
    assert partition.require_leader().followers is not None
    assert partition.log.epochs.entries[-1].epoch == moved.leader_epoch
