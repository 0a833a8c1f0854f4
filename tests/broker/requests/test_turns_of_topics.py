"""Topics of many partitions, and many quotas, are planned and taken over in parts. Turns are counted and not timed."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import uuid
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from odradek.broker.process import quota_watch
from odradek.broker.quotas import keys, precedence
from odradek.broker.replication import hosted_partitions, housekeeping
from odradek.broker.replication.partition import Partition
from odradek.broker.requests import describe_log_dirs, encoded_topics
from odradek.broker.requests.throttling import ClientThrottling
from odradek.foundation.errors import UnknownTopicOrPartition
from odradek.foundation.turn_limits import (
    PARTITIONS_OPENED_PER_TURN_MAX,
    PARTITIONS_THAT_A_DELETION_COUNTS,
    PARTITIONS_THAT_SETTINGS_COUNT,
)
from odradek.foundation.turns import Turn
from odradek.metadata.controller import registry_writer, topic_plans
from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image import image_building, paths
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image import ClusterImage
from odradek.metadata.image.image_building import apply
from odradek.metadata.registry.store import Create
from odradek.storage.directories.log_manager import LogManager
from odradek.storage.log import Log
from odradek.storage.producers import ProducerStates
from odradek.wire.protocol.api import ApiKey
from tests.support.large_requests import ROWS
from tests.support.thread_work import where_called
from tests.support.whole_broker import WholeBroker

_SOON: dict[str, Any] = {"timeout": 1000, "validate_only": False}


async def test_a_topic_of_many_partitions_is_planned_and_opened_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned_max, opened_max = 100, 50
    monkeypatch.setattr(topic_plans, "PARTITIONS_PLANNED_PER_TURN_MAX", planned_max)
    monkeypatch.setattr(hosted_partitions, "PARTITIONS_OPENED_PER_TURN_MAX", opened_max)
    turn = [0]
    planned, opened = Counter[int](), Counter[int]()
    new_partition, take_role = topic_plans.new_partition, Partition.take_role

    def noted_plan(*arguments: Any, **named: Any) -> Any:
        planned[turn[0]] += 1
        return new_partition(*arguments, **named)

    def noted_role(self: Partition, state: Any) -> None:
        opened[turn[0]] += 1
        take_role(self, state)

    monkeypatch.setattr(topic_plans, "new_partition", noted_plan)
    monkeypatch.setattr(Partition, "take_role", noted_role)
    whole = await WholeBroker.start()

    async def asked(api: ApiKey, version: int, **fields: Any) -> Any:
        asking = asyncio.ensure_future(whole.ask(api, version, **fields))
        while not asking.done():
            await asyncio.sleep(0)
            turn[0] += 1
        return asking.result()

    for count in (400, 800):
        if count == 400:
            topic: dict[str, Any] = {"name": "t", "num_partitions": count, "replication_factor": 1}
            made = (await asked(ApiKey.CREATE_TOPICS, 7, topics=[topic], **_SOON)).topics
        else:
            grown = {"name": "t", "count": count, "assignments": None}
            made = (await asked(ApiKey.CREATE_PARTITIONS, 3, topics=[grown], **_SOON)).results
        assert made[0].error_code == 0
        assert all(whole.broker.partitions.get("t", number).leader for number in range(count))
    assert max(planned.values()) <= planned_max
    assert max(opened.values()) <= opened_max
    assert sum(planned.values()) == 800


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_change_opens_first_what_was_put_off(
    is_deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hosted_partitions, "PARTITIONS_OPENED_PER_TURN_MAX", 5 + PARTITIONS_THAT_SETTINGS_COUNT
    )
    whole = await WholeBroker.start()
    images, hosted = whole.broker.images, whole.broker.partitions
    before = images.current
    plan = await topic_plans.plan_topic(
        NewTopic("t", partition_count=20),
        image=before,
        collisions={},
        settings=whole.broker.settings,
        rng=random.Random(1),
        turn=Turn(),
    )
    operations = [one for group in topic_plans.creation_operations(plan, controller_epoch=1) for one in group]
    with_topic = apply(
        before, [NodeChange(one.path, one.data, 0) for one in operations if isinstance(one, Create)]
    )
    await images.prepare(with_topic)
    images.replace(with_topic)
    assert sum(hosted.find("t", number) is not None for number in range(20)) == 5
    images.replace(before if is_deleted else dataclasses.replace(with_topic, controller_id=7))
    assert sum(hosted.find("t", number) is not None for number in range(20)) == (0 if is_deleted else 20)
    await images.complete()
    assert sum(hosted.find("t", number) is not None for number in range(20)) == (0 if is_deleted else 20)


async def test_quotas_are_read_in_parts_however_few_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are read with each change."""
    at_once = 40
    for module in (precedence, quota_watch, registry_writer):
        monkeypatch.setattr(module, "NODE_CHANGES_PER_TURN_MAX", at_once)
    turn = [0]
    read = Counter[int]()
    values = keys.quota_values

    def noted(texts: Any) -> Any:
        read[turn[0]] += 1
        return values(texts)

    monkeypatch.setattr(precedence, "quota_values", noted)
    whole = await WholeBroker.start()
    for count in (300, 1):
        fields = ROWS["alter client quotas"].fields(count)
        fields["entries"][0]["ops"] = [{"key": "producer_byte_rate", "value": count + 1.0, "remove": False}]
        asking = asyncio.ensure_future(whole.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, **fields))
        while not asking.done():
            await asyncio.sleep(0)
            turn[0] += 1
        assert [one.error_code for one in asking.result().entries] == [0] * count
        throttling = whole.broker.parts.fetch.throttling
        assert isinstance(throttling, ClientThrottling)
        meter = throttling.produce.find("User:n0000000", "client")
        assert meter is not None and meter.limit == count + 1.0
    assert sum(read.values()) == 600
    assert max(read.values()) <= at_once


def _logs_of_t(whole: WholeBroker) -> list[str]:
    """Directories of the topic's partitions that are not renamed for deletion."""
    names = [entry.name for entry in whole.disk.entries("/logs")]
    return [name for name in names if name.startswith("t-") and not name.endswith("-delete")]


class _Turns:
    """Counts calls by the turn of the loop that they are in, while requests are answered."""

    def __init__(self, whole: WholeBroker) -> None:
        self._whole = whole
        self._number = 0

    def count(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> Counter[int]:
        found = Counter[int]()
        called = getattr(owner, name)

        def noted(*arguments: Any, **named: Any) -> Any:
            found[self._number] += 1
            return called(*arguments, **named)

        monkeypatch.setattr(owner, name, noted)
        return found

    async def ask(self, api: ApiKey, version: int, **fields: Any) -> Any:
        return await self.until(self._whole.ask(api, version, **fields))

    async def until(self, work: Coroutine[Any, Any, Any]) -> Any:
        asking = asyncio.ensure_future(work)
        while not asking.done():
            await asyncio.sleep(0)
            self._number += 1
        return asking.result()


async def test_a_topic_of_many_partitions_is_deleted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=600)
    turns = _Turns(whole)
    renamed = turns.count(monkeypatch, LogManager, "delete")
    deleted = await turns.ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": "t", "topic_id": None}], timeout=1000)
    assert deleted.responses[0].error_code == 0
    # The client is answered when all files are renamed.
    assert sum(renamed.values()) == 600
    at_once = PARTITIONS_OPENED_PER_TURN_MAX // PARTITIONS_THAT_A_DELETION_COUNTS
    assert max(renamed.values()) <= at_once
    assert not _logs_of_t(whole)


async def _deletion_under_way(whole: WholeBroker) -> tuple[ClusterImage, list[Partition]]:
    """The image without the topic, and its partitions, of which some are closed."""
    images, hosted = whole.broker.images, whole.broker.partitions
    before = images.current
    partitions = [hosted.get("t", number) for number in range(300)]
    without = apply(before, [NodeChange(paths.deletion("t"), b"")])
    await images.prepare(without)
    images.replace(without)
    closed = sum(partition.gone is not None for partition in partitions)
    assert 0 < closed < 300
    return before, partitions


async def test_no_partition_of_a_deleted_topic_is_found_before_it_is_closed() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=300)
    _, partitions = await _deletion_under_way(whole)
    hosted = whole.broker.partitions
    for number in range(300):
        with pytest.raises(UnknownTopicOrPartition):
            hosted.get("t", number)
    await whole.broker.images.complete()
    assert all(partition.gone is not None for partition in partitions)


async def test_a_topic_made_while_one_of_its_name_is_deleted_is_another_one() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=300)
    await whole.produce("t", b"old", partition=299)
    before, partitions = await _deletion_under_way(whole)
    topic = before.topics["t"]._replace(id=uuid.UUID(int=77))
    again = dataclasses.replace(
        before, topics={**before.topics, "t": topic}, topics_by_id={**before.topics_by_id, topic.id: topic}
    )
    whole.broker.images.replace(again)
    assert all(partition.gone is not None for partition in partitions)
    made = whole.broker.partitions.get("t", 299)
    assert (made.topic_id, made.log.log_end_offset) == (topic.id, 0)


async def test_a_stop_completes_the_deletion_that_is_under_way() -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=300)
    await _deletion_under_way(whole)
    whole.broker.partitions.stop()
    assert not _logs_of_t(whole)


async def test_settings_of_a_topic_of_many_partitions_reach_them_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=1200)
    turns = _Turns(whole)
    for kind, name, key in ((2, "t", "retention.ms"), (4, "", "log.segment.bytes")):
        reconfigured = turns.count(monkeypatch, Log, "reconfigure")
        change = {"name": key, "config_operation": 0, "value": "2000000"}
        asked = [{"resource_type": kind, "resource_name": name, "configs": [change]}]
        answer = await turns.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=asked, validate_only=False)
        assert answer.responses[0].error_code == 0
        # The client is answered when all have them.
        assert sum(reconfigured.values()) >= 1200
        assert max(reconfigured.values()) <= PARTITIONS_OPENED_PER_TURN_MAX
    assert whole.broker.partitions.get("t", 1199).log.config.retention_ms == 2_000_000


async def test_a_growth_reads_the_topic_in_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partitions that are there already are not planned, opened or made again."""
    at_once = 100
    for module in (image_building, registry_writer):
        monkeypatch.setattr(module, "NODE_CHANGES_PER_TURN_MAX", at_once)
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=400)
    turns = _Turns(whole)
    taken = turns.count(monkeypatch, Partition, "take_role")
    made = Counter[int]()
    partition_of = image_building._partition

    def noted(*arguments: Any) -> Any:
        made[turns._number] += 1
        return partition_of(*arguments)

    monkeypatch.setattr(image_building, "_partition", noted)
    fields: dict[str, Any] = {"name": "t", "count": 800, "assignments": None}
    grown = await turns.ask(ApiKey.CREATE_PARTITIONS, 3, topics=[fields], **_SOON)
    assert grown.results[0].error_code == 0
    assert sum(taken.values()) == 400
    assert sum(made.values()) == 800 and max(made.values()) <= at_once


async def test_metadata_of_many_partitions_are_encoded_in_the_thread_and_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoded_topics, "PARTITIONS_ENCODED_AT_ONCE_MAX", 50)
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=60)
    await whole.create_topic("few", partitions=3)
    encoded = where_called(monkeypatch, encoded_topics._TopicTable, "encode")
    for _ in range(2):
        for named in ([{"name": "t", "topic_id": None}], None, [{"name": "few", "topic_id": None}]):
            answer = await whole.ask(ApiKey.METADATA, 12, topics=named)
            counts = {one.name: len(one.partitions) for one in answer.topics}
            assert counts == {"t": 60, "few": 3} if named is None else len(counts) == 1
    # The second topic is small: the loop encodes it.
    assert encoded == [True, False]


async def test_sizes_of_many_logs_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = 40
    monkeypatch.setattr(describe_log_dirs, "LOGS_LOOKED_AT_PER_TURN_MAX", at_once)
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=200)
    turns = _Turns(whole)
    read = Counter[int]()

    def size_bytes(self: Log) -> int:
        read[turns._number] += 1
        return 5

    monkeypatch.setattr(Log, "size_bytes", property(size_bytes))
    answer = await turns.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    assert [one.partition_size for one in answer.results[0].topics[0].partitions] == [5] * 200
    assert max(read.values()) <= at_once


async def test_rounds_over_all_logs_are_done_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = 40
    monkeypatch.setattr(housekeeping, "LOGS_LOOKED_AT_PER_TURN_MAX", at_once)
    whole = await WholeBroker.start()
    await whole.create_topic("t", partitions=200)
    turns = _Turns(whole)
    looked_at = Counter[int]()

    def has_followers(self: Partition) -> bool:
        looked_at[turns._number] += 1
        return True

    monkeypatch.setattr(Partition, "has_followers", property(has_followers))
    expired = turns.count(monkeypatch, ProducerStates, "expire")
    duties = whole.broker.housekeeping
    for duty in (duties.checkpoint_high_watermarks(), duties.expire_producers()):
        await turns.until(duty)
    for found in (looked_at, expired):
        assert sum(found.values()) == 200 and max(found.values()) <= at_once
