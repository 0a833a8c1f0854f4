"""Transactions of the client against a running broker, in both generations of the protocol."""

from __future__ import annotations

from typing import TypeVar

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.consumer.consumer import PartitionConsumer
from odradek.client.consumer.topics import Consumer
from odradek.client.errors import NoTransaction, TransactionAborted
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation import errors, transaction_errors
from odradek.foundation.ids import TopicPartition
from odradek.foundation.transaction_errors import InvalidTransactionTimeout
from tests.client.support import in_both_generations, with_client

pytestmark = pytest.mark.integration

T = TypeVar("T")


async def committed_values(client: Client, topic: str, *, partitions: int = 1) -> list[bytes | None]:
    """What a reader of committed records sees up to the end of each partition."""
    keys = [TopicPartition(topic, number) for number in range(partitions)]
    ends = await Admin(client).logs.offsets_at(keys, -1, read_committed=True)
    seen: list[bytes | None] = []
    async with PartitionConsumer(client, is_read_committed=True) as consumer:
        consumer.assign(dict.fromkeys(keys, 0))
        while any(consumer.position(key) < ends[key] for key in keys):
            seen += [record.value for record in await consumer.poll(timeout_ms=500)]
    return seen


@in_both_generations
async def test_all_or_nothing_of_a_transaction_is_read(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=2)
    async with Producer(client, transactional_id=unique) as producer:
        for number in range(3):
            async with producer.transaction():
                for partition in (0, 1):
                    await producer.send(unique, b"kept %d" % number, partition=partition)
            await producer.begin_transaction()
            await producer.send_and_wait(unique, b"aborted %d" % number, partition=number % 2)
            unsent = await producer.send(unique, b"aborted too", partition=0)
            await producer.abort_transaction()
            with pytest.raises(TransactionAborted):
                await unsent
    seen = await committed_values(client, unique, partitions=2)
    assert sorted(seen, key=str) == sorted([b"kept %d" % n for n in range(3)] * 2, key=str)


@in_both_generations
async def test_an_exception_aborts_and_the_producer_goes_on(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, transactional_id=unique) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(unique, b"lost")
                raise ZeroDivisionError
        with pytest.raises(errors.RecordTooLarge):
            async with producer.transaction():
                await producer.send_and_wait(unique, b"before")
                await producer.send(unique, b"x" * 3_000_000)
        assert producer.is_usable
        async with producer.transaction():
            await producer.send(unique, b"kept")
        with pytest.raises(NoTransaction):
            await producer.send(unique, b"outside")
        async with producer.transaction():
            pass  # an empty one
    assert await committed_values(client, unique) == [b"kept"]


@in_both_generations
async def test_what_send_refuses_keeps_the_rest_from_being_committed(client: Client, unique: str) -> None:
    """As in Kafka's producer: a program that does not look at one failure must not commit a part."""
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, transactional_id=unique) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(unique, b"a part", partition=0)
        with pytest.raises(errors.UnknownTopicOrPartition):
            await producer.send(unique, b"of no partition", partition=7)
        with pytest.raises(errors.UnknownTopicOrPartition, match="has to be aborted"):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(unique, b"whole")
    assert await committed_values(client, unique) == [b"whole"]


@in_both_generations
async def test_a_second_producer_of_the_id_fences_the_first(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    zombie = Producer(client, transactional_id=unique)
    await zombie.start()
    await zombie.begin_transaction()
    await zombie.send_and_wait(unique, b"of the zombie")
    async with Producer(client, transactional_id=unique) as producer:
        async with producer.transaction():
            await producer.send(unique, b"kept")
        with pytest.raises(transaction_errors.ProducerFenced):
            await zombie.commit_transaction()
        assert not zombie.is_usable
        with pytest.raises(transaction_errors.ProducerFenced):
            await zombie.begin_transaction()
        await zombie.close()
        async with producer.transaction():
            await producer.send(unique, b"kept too")
    assert await committed_values(client, unique) == [b"kept", b"kept too"]


@in_both_generations
async def test_offsets_count_with_the_transaction(client: Client, unique: str) -> None:
    source, target = f"{unique}-in", f"{unique}-out"
    admin = Admin(client)
    await admin.topics.create(source, partitions=1)
    await admin.topics.create(target, partitions=1)
    async with Producer(client) as producer:
        await producer.send_many(source, [b"%d" % number for number in range(10)])
    key = TopicPartition(source, 0)
    consumer = Consumer(client, source, group_id=unique, auto_offset_reset="earliest", is_read_committed=True)
    async with consumer, Producer(client, transactional_id=unique) as producer:
        is_first = True
        while consumer.positions.get(key, 0) < 10:
            records = await consumer.poll(records_max=4, timeout_ms=500)
            if not records:
                continue
            await producer.begin_transaction()
            for record in records:
                await producer.send(target, record.value)
            await producer.send_offsets_to_transaction(consumer.positions, consumer.group_metadata())
            if is_first:
                is_first = False
                await producer.abort_transaction()
                await consumer.seek_to_committed()
                assert consumer.position(key) == 0
                continue
            await producer.commit_transaction()
    assert await committed_values(client, target) == [b"%d" % number for number in range(10)]
    assert await admin.groups.offsets(unique, [key]) == {key: CommittedOffset(10)}


@with_client
async def test_a_consumer_that_is_no_member_has_no_metadata_for_offsets(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Consumer(client, unique, group_id=unique) as consumer:
        with pytest.raises(errors.IllegalGeneration, match="the next poll joins"):
            consumer.group_metadata()
        await consumer.poll(timeout_ms=100)
        assert consumer.group_metadata().generation == 1
    async with Consumer(client, unique) as alone:
        with pytest.raises(errors.InvalidRequest, match="only a member of a group"):
            alone.group_metadata()


@in_both_generations
async def test_closing_aborts_what_is_open(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Producer(client, transactional_id=unique) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(unique, b"open")
    assert await committed_values(client, unique) == []
    key = TopicPartition(unique, 0)
    # The record and its marker: nothing is open.
    assert (await Admin(client).logs.offsets_at([key], -1, read_committed=True))[key] == 2


@with_client
async def test_what_does_not_fit_a_transaction_is_refused(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    with pytest.raises(errors.InvalidRequest, match="acks='all'"):
        Producer(client, transactional_id=unique, acks=1)
    with pytest.raises(ValueError, match="transactional_id is empty"):
        Producer(client, transactional_id="")
    async with Producer(client) as plain:
        with pytest.raises(NoTransaction, match="has no transactional id"):
            await plain.begin_transaction()
    with pytest.raises(InvalidTransactionTimeout):
        await Producer(client, transactional_id=unique, transaction_timeout_ms=10**9).start()
    async with Producer(client, transactional_id=unique) as producer:
        with pytest.raises(NoTransaction, match="begin one"):
            await producer.commit_transaction()
        await producer.begin_transaction()
        with pytest.raises(NoTransaction, match="is open"):
            await producer.begin_transaction()
        await producer.abort_transaction()
