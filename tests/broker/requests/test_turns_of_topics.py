"""Topics of many partitions, and many quotas, are planned and taken over in parts. Turns are counted and not timed."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections import Counter
from typing import Any

import pytest

from odradek.broker.process import quota_watch
from odradek.broker.quotas import keys, precedence
from odradek.broker.replication import hosted_partitions
from odradek.broker.replication.partition import Partition
from odradek.broker.requests.throttling import ClientThrottling
from odradek.foundation.turns import Turn
from odradek.metadata.controller import registry_writer, topic_plans
from odradek.metadata.controller.requests import NewTopic
from odradek.metadata.image.change_log import NodeChange
from odradek.metadata.image.image_building import apply
from odradek.metadata.registry.store import Create
from odradek.wire.protocol.api import ApiKey
from tests.support.large_requests import ROWS
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
    monkeypatch.setattr(hosted_partitions, "PARTITIONS_OPENED_PER_TURN_MAX", 5)
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
        throttling = whole.broker.parts.throttling
        assert isinstance(throttling, ClientThrottling)
        meter = throttling.produce.find("User:n0000000", "client")
        assert meter is not None and meter.limit == count + 1.0
    assert sum(read.values()) == 600
    assert max(read.values()) <= at_once
