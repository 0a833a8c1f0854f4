"""The share consumer against a running broker: deliveries, answers, locks, several members, and what ends a session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from typing import Any
from unittest.mock import patch

import pytest

from odradek import (
    Admin,
    Client,
    ConfigChange,
    Producer,
    ResourceType,
    ShareBounds,
    ShareConsumer,
    ShareRecord,
    TopicPartition,
    sync,
)
from odradek.client.connection import BrokerConnection
from odradek.errors import InvalidRecordState, InvalidRequest, OdradekError, UnknownServerError
from odradek.wire.protocol.api import ApiKey
from tests.client.support import with_client

pytestmark = pytest.mark.integration

SECONDS_MAX = 30.0


async def make_queue(client: Client, name: str, *values: bytes, partitions: int = 1, **settings: str) -> None:
    """A topic with these records, whose group of the same name reads from its start."""
    await Admin(client).topics.create(name, partitions=partitions)
    texts = {"share.auto.offset.reset": "earliest"}
    texts |= {f"share.{key.replace('_', '.')}": text for key, text in settings.items()}
    changes = [ConfigChange(key, text) for key, text in texts.items()]
    await Admin(client).configs.alter(ResourceType.GROUP, name, changes)
    async with Producer(client) as producer:
        for number, value in enumerate(values):
            await producer.send(name, value, partition=number % partitions)


async def poll_until(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """At least that many records, from as many polls as it takes."""
    found: list[ShareRecord] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(found) < count:
            found += await consumer.poll()
    return found


def values(records: Collection[ShareRecord]) -> list[bytes | None]:
    return [record.value for record in records]


@with_client
async def test_each_record_is_given_once_to_one_of_the_members(client: Client, unique: str) -> None:
    await make_queue(client, unique, *(b"%d" % number for number in range(300)), partitions=3)
    seen: Counter[bytes | None] = Counter()

    async def work() -> None:
        async with ShareConsumer(client, unique, [unique], bounds=ShareBounds(records_max=10)) as consumer:
            while seen.total() < 300:
                for record in await consumer.poll(timeout_ms=200):
                    assert record.delivery_count == 1
                    seen[record.value] += 1
            await consumer.commit()

    async with asyncio.timeout(SECONDS_MAX):
        await asyncio.gather(*(work() for _ in range(3)))
    assert seen == Counter(b"%d" % number for number in range(300))


@with_client
async def test_a_fetch_that_the_broker_failed_on_is_made_again(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"a")
    ask, left = BrokerConnection.request, ["the first fetch"]

    async def request(self: BrokerConnection, api: ApiKey, **fields: Any) -> Any:
        if api is ApiKey.SHARE_FETCH and left:
            left.pop()
            raise UnknownServerError("the broker failed unexpectedly")
        return await ask(self, api, **fields)

    with patch.object(BrokerConnection, "request", request):
        async with ShareConsumer(client, unique, [unique]) as consumer:
            assert values(await poll_until(consumer, 1)) == [b"a"]
    assert not left


@with_client
async def test_a_loop_accepts_what_it_has_passed_and_releases_the_rest(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"a", b"b", b"c", b"d")
    async with ShareConsumer(client, unique, [unique]) as consumer:
        async with asyncio.timeout(SECONDS_MAX):
            async for record in consumer:
                if record.value == b"c":
                    break
    async with ShareConsumer(client, unique, [unique]) as consumer:
        again = await poll_until(consumer, 2)
        assert [(record.value, record.delivery_count) for record in again] == [(b"c", 2), (b"d", 2)]


@with_client
async def test_a_commit_in_a_loop_covers_what_the_loop_has_passed(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"a", b"b", b"c")
    async with ShareConsumer(client, unique, [unique]) as consumer:
        async with asyncio.timeout(SECONDS_MAX):
            async for record in consumer:
                assert await consumer.commit() == ({TopicPartition(unique, 0): None} if record.offset else {})
                if record.value == b"b":
                    break
    async with ShareConsumer(client, unique, [unique]) as consumer:
        assert values(await poll_until(consumer, 2)) == [b"b", b"c"]


def test_a_program_without_a_loop_works_on_a_queue(bootstrap: str, unique: str) -> None:
    with sync.Client(bootstrap) as client:
        sync.Admin(client).topics.create(unique, partitions=1)
        earliest = ConfigChange("share.auto.offset.reset", "earliest")
        sync.Admin(client).configs.alter(ResourceType.GROUP, unique, [earliest])
        with sync.Producer(client) as producer:
            producer.send_many(unique, [b"good", b"bad", b"good", b"last"])
        with sync.ShareConsumer(client, unique, [unique]) as consumer:
            for record in consumer:
                if record.value == b"bad":
                    consumer.acknowledge(record, "reject")
                if record.value == b"last":
                    break
            assert consumer.assignment == (TopicPartition(unique, 0),)
        with sync.ShareConsumer(client, unique, [unique]) as consumer:
            (last,) = consumer.poll(timeout_ms=10_000)
            assert (last.value, last.delivery_count) == (b"last", 2)
            consumer.acknowledge(last, "accept")
            assert consumer.commit() == {TopicPartition(unique, 0): None}


@with_client
async def test_each_answer_means_what_it_says(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"accept", b"release", b"reject")
    reported: list[tuple[TopicPartition, list[int], OdradekError | None]] = []
    async with ShareConsumer(
        client,
        unique,
        [unique],
        is_explicit=True,
        on_acknowledged=lambda key, offsets, failure: reported.append((key, list(offsets), failure)),
    ) as consumer:
        first = await poll_until(consumer, 3)
        with pytest.raises(InvalidRequest, match="call acknowledge for each"):
            await consumer.poll()
        for record in first:
            consumer.acknowledge(record, (record.value or b"").decode())  # type: ignore[arg-type]
        with pytest.raises(InvalidRecordState, match="answered before"):
            consumer.acknowledge(first[0], "accept")
        assert await consumer.commit() == {TopicPartition(unique, 0): None}
        assert reported == [(TopicPartition(unique, 0), [0, 1, 2], None)]
        (again,) = await poll_until(consumer, 1)
        assert (again.value, again.delivery_count) == (b"release", 2)
        consumer.acknowledge(again, "accept")
        await consumer.commit()
        assert await consumer.poll(timeout_ms=300) == []


@with_client
async def test_a_record_is_renewed_and_answered_later(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"long work", b"other")
    async with ShareConsumer(client, unique, [unique], is_explicit=True) as consumer:
        first, second = await poll_until(consumer, 2)
        consumer.acknowledge(first, "renew")
        consumer.acknowledge(second, "accept")
        assert await consumer.commit() == {TopicPartition(unique, 0): None}
        assert await consumer.poll(timeout_ms=300) == []
        consumer.acknowledge(first, "accept")
        assert await consumer.commit() == {TopicPartition(unique, 0): None}
    async with ShareConsumer(client, unique, [unique]) as consumer:
        with pytest.raises(InvalidRequest, match="is_explicit=True"):
            consumer.acknowledge(first, "renew")
        assert await consumer.poll(timeout_ms=500) == []


@with_client
async def test_what_a_member_left_behind_is_given_to_another_at_once(client: Client, unique: str) -> None:
    await make_queue(client, unique, *(b"%d" % number for number in range(5)))
    async with ShareConsumer(client, unique, [unique]) as gone:
        assert len(await poll_until(gone, 5)) == 5
    async with ShareConsumer(client, unique, [unique]) as consumer:
        again = await poll_until(consumer, 5)
        assert [record.delivery_count for record in again] == [2] * 5


@with_client
async def test_a_record_is_given_up_after_its_deliveries(client: Client, unique: str) -> None:
    await make_queue(client, unique, b"poison", delivery_count_limit="2")
    counts: list[int] = []
    async with ShareConsumer(client, unique, [unique], is_explicit=True) as consumer:
        async with asyncio.timeout(SECONDS_MAX):
            while len(counts) < 2:
                for record in await consumer.poll():
                    counts.append(record.delivery_count)
                    consumer.acknowledge(record, "release")
        assert await consumer.poll(timeout_ms=500) == []
    assert counts == [1, 2]


@with_client
async def test_new_partitions_and_new_records_come_to_a_member_that_waits(
    client: Client, unique: str
) -> None:
    await make_queue(client, unique)
    async with ShareConsumer(client, unique, [unique]) as consumer, Producer(client) as producer:
        waiting = asyncio.create_task(poll_until(consumer, 1))
        await asyncio.sleep(0.2)
        await producer.send(unique, b"late")
        assert values(await waiting) == [b"late"]
        assert consumer.assignment == (TopicPartition(unique, 0),)


@with_client
async def test_a_strict_member_gets_no_more_than_it_asks_for(client: Client, unique: str) -> None:
    await make_queue(client, unique)
    async with Producer(client) as producer:
        await producer.send_many(unique, [b"%d" % number for number in range(20)], partition=0)
    bounds = ShareBounds(records_max=3, is_strict=True)
    async with ShareConsumer(client, unique, [unique], bounds=bounds) as consumer:
        async with asyncio.timeout(SECONDS_MAX):
            while not (found := await consumer.poll()):
                pass
        assert values(found) == [b"0", b"1", b"2"]


@with_client
async def test_a_closed_consumer_and_a_wrong_topic_are_refused(client: Client, unique: str) -> None:
    with pytest.raises(TypeError, match="topics is a list of names"):
        ShareConsumer(client, unique, unique)
    consumer = ShareConsumer(client, unique, [unique])
    assert await consumer.poll(timeout_ms=200) == []
    await consumer.close()
    await consumer.close()
    with pytest.raises(OdradekError, match="is closed"):
        await consumer.poll()
