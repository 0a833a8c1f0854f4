"""`odradek.Consumer` against a running broker: alone, in a group, by hand; what it commits and where it continues."""

from __future__ import annotations

import asyncio

import pytest

from odradek import Admin, Client, Consumer, ConsumerRecord, Producer, ResourceType, TopicPartition
from odradek.client.consumer import topics as module
from odradek.errors import InvalidRequest, UnknownTopicOrPartition
from tests.client.support import run, with_client

pytestmark = pytest.mark.integration


async def fill(client: Client, topic: str, count: int, *, partitions: int = 1) -> None:
    """A topic with `count` records, numbered."""
    await Admin(client).topics.create(topic, partitions=partitions)
    async with Producer(client) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % partitions)


async def first(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """The next `count` records, one by one."""
    seen = []
    async for record in consumer:
        seen.append(record)
        if len(seen) == count:
            break
    return seen


@with_client
async def test_all_partitions_are_read_one_record_at_a_time(client: Client, unique: str) -> None:
    await fill(client, unique, 3000, partitions=3)
    async with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
        seen = await first(consumer, 3000)
        assert sorted(int(record.value or b"") for record in seen) == list(range(3000))
        for partition in range(3):
            assert consumer.position(TopicPartition(unique, partition)) == 1000
            offsets = [record.offset for record in seen if record.partition == partition]
            assert offsets == list(range(1000))
        assert await consumer.poll(timeout_ms=100) == []


@with_client
async def test_a_commit_covers_what_was_handed_out_and_no_more(client: Client, unique: str) -> None:
    await fill(client, unique, 10)
    key = TopicPartition(unique, 0)
    async with Consumer(client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in await first(consumer, 3)] == [b"0", b"1", b"2"]
        await consumer.commit()
        assert (await Admin(client).groups.offsets(unique, [key]))[key].offset == 3
        await first(consumer, 4)
        await consumer.commit({key: 5})
        with pytest.raises(InvalidRequest, match="is not assigned"):
            await consumer.commit({TopicPartition(unique, 9): 5})
    async with Consumer(client, unique, group_id=unique) as consumer:
        assert (await consumer.poll(timeout_ms=10_000))[0].value == b"5"


@with_client
async def test_two_members_share_and_one_goes_on_alone(client: Client, unique: str) -> None:
    await fill(client, unique, 0, partitions=2)
    shares: dict[str, int] = {}
    polled = asyncio.Event()

    async def until(expected: dict[str, int]) -> None:
        while shares != expected:
            polled.clear()
            await polled.wait()

    async def member(name: str) -> None:
        async with Consumer(client, unique, group_id=unique, heartbeat_interval_ms=100) as consumer:
            while True:
                await consumer.poll(timeout_ms=100)
                shares[name] = len(consumer.assignment)
                polled.set()

    one, two = asyncio.create_task(member("one")), asyncio.create_task(member("two"))
    await until({"one": 1, "two": 1})
    two.cancel()
    await asyncio.wait([two])
    await until({"one": 2, "two": 1})
    one.cancel()
    await asyncio.wait([one])


@with_client
async def test_partitions_by_hand_from_names_and_numbers(client: Client, unique: str) -> None:
    await fill(client, unique, 20, partitions=2)
    zero, one = TopicPartition(unique, 0), TopicPartition(unique, 1)
    async with Consumer(client) as consumer:
        await consumer.assign({zero: "latest", one: 7})
        assert [record.offset for record in await first(consumer, 3)] == [7, 8, 9]
        assert consumer.position(zero) == 10
        await consumer.seek(zero, "earliest")
        assert (await first(consumer, 1))[0][:3] == (unique, 0, 0)
        assert consumer.high_watermark(zero) == 10


@with_client
async def test_a_topic_that_is_not_there_is_an_error_at_the_start(client: Client, unique: str) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        async with Consumer(client, unique):
            pass


@with_client
async def test_partitions_that_are_added_are_read_from_their_beginning(
    client: Client, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NEW_PARTITIONS_SECONDS", 0.0)
    await fill(client, unique, 1)
    async with Consumer(client, unique) as consumer:
        await Admin(client).topics.create_partitions(unique, total=2)
        async with Producer(client) as producer:
            await producer.send_and_wait(unique, b"new", partition=1)
        assert (await first(consumer, 1))[0].value == b"new"


def test_a_loop_that_awaits_nothing_lets_others_run(bootstrap: str, unique: str) -> None:
    async def work(client: Client) -> None:
        await fill(client, unique, 2000)
        async with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
            await first(consumer, 1)  # all of it is here now
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            running = asyncio.create_task(other())
            await first(consumer, 1990)
            running.cancel()
            assert turns >= 2

    run(bootstrap, work)


@with_client
async def test_settings_of_a_topic_may_be_numbers_and_bools(client: Client, unique: str) -> None:
    admin = Admin(client)
    wanted = {"retention.ms": 60_000, "preallocate": False, "min.cleanable.dirty.ratio": 0.25}
    await admin.topics.create(unique, partitions=1, configs=wanted)
    found = await admin.configs.describe(ResourceType.TOPIC, unique, keys=list(wanted))
    assert {entry.name: entry.value for entry in found} == {
        "retention.ms": "60000",
        "preallocate": "false",
        "min.cleanable.dirty.ratio": "0.25",
    }
    with pytest.raises(TypeError, match="name has to be a str, not a bytes"):
        await admin.topics.create(b"t")  # type: ignore[arg-type]


@with_client
async def test_buffers_are_written_and_a_sent_record_is_waited_for(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, compression="gzip") as producer:
        written = await producer.send_and_wait(
            unique, bytearray(b"value"), key=memoryview(b"key"), headers=[("a", bytearray(b"b"))]
        )
    assert (written.topic, written.partition, written.offset) == (unique, 0, 0)
    async with Consumer(client, unique, auto_offset_reset="earliest") as consumer:
        record = (await first(consumer, 1))[0]
    assert (record.key, record.value, record.headers) == (b"key", b"value", (("a", b"b"),))


@with_client
async def test_a_commit_for_a_topic_that_is_gone_names_it(client: Client, unique: str) -> None:
    await fill(client, unique, 1)
    async with Consumer(client, unique, group_id=unique, auto_offset_reset="earliest") as consumer:
        await first(consumer, 1)
        await Admin(client).topics.delete(unique)
        with pytest.raises(UnknownTopicOrPartition, match=f"group '{unique}', topic '{unique}'"):
            await consumer.commit()
