"""A transaction that one producer leaves open and another process ends, in both generations of the protocol."""

from __future__ import annotations

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.errors import NoTransaction
from odradek.client.producer.handover import PreparedTransaction, end_prepared, start_epoch
from odradek.client.producer.producer import Producer
from odradek.foundation.transaction_errors import InvalidProducerEpoch, InvalidTxnState, ProducerFenced
from tests.client.support import in_both_generations, with_client
from tests.client.test_transactions import committed_values

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


async def left_open(client: Client, topic: str, name: str, value: bytes) -> PreparedTransaction:
    """A record in a transaction of a producer that is closed since."""
    async with Producer(client, transactional_id=name) as producer:
        await producer.begin_transaction()
        await producer.send(topic, value)
        return await producer.prepare_transaction()


@in_both_generations
async def test_another_process_ends_what_was_left_open(
    client: Client, kind: type[Client], bootstrap: str, unique: str
) -> None:
    topic = unique
    await Admin(client).topics.create(topic, partitions=1)
    kept = await left_open(client, topic, unique, b"kept")
    dropped = await left_open(client, topic, f"{unique}-2", b"dropped")
    assert await committed_values(client, topic) == []
    async with kind(bootstrap) as other:
        await end_prepared(other, kept, is_commit=True)
        await end_prepared(other, kept, is_commit=True)  # the first answer was lost
        await end_prepared(other, dropped, is_commit=False)
    assert await committed_values(client, topic) == [b"kept"]
    with pytest.raises((InvalidTxnState, ProducerFenced)):
        await end_prepared(client, dropped, is_commit=True)
    assert await committed_values(client, topic) == [b"kept"]


@in_both_generations
async def test_a_new_epoch_drops_what_is_open_and_fences_its_end(client: Client, unique: str) -> None:
    topic = unique
    await Admin(client).topics.create(topic, partitions=1)
    prepared = await left_open(client, topic, unique, b"dropped")
    first = await start_epoch(client, unique, timeout_ms=60_000)
    with pytest.raises(ProducerFenced):
        await end_prepared(client, prepared, is_commit=True)
    again = await start_epoch(client, unique, timeout_ms=60_000, identity=first)
    assert again.epoch > first.epoch
    await start_epoch(client, unique, timeout_ms=60_000)
    with pytest.raises(ProducerFenced):
        await start_epoch(client, unique, timeout_ms=60_000, identity=again)
    assert await committed_values(client, topic) == []


@in_both_generations
async def test_a_producer_goes_on_from_an_epoch_that_it_is_given(
    client: Client, kind: type[Client], bootstrap: str, unique: str
) -> None:
    topic = unique
    await Admin(client).topics.create(topic, partitions=1)
    begun = await start_epoch(client, unique, timeout_ms=60_000)
    async with (
        kind(bootstrap) as other,
        Producer(other, transactional_id=unique, identity=begun) as producer,
    ):
        for value in (b"1", b"2"):
            async with producer.transaction():
                await producer.send(topic, value)
        assert producer.identity.id == begun.id
    assert await committed_values(client, topic) == [b"1", b"2"]
    await start_epoch(client, unique, timeout_ms=60_000)
    with pytest.raises((ProducerFenced, InvalidProducerEpoch)):
        async with Producer(client, transactional_id=unique, identity=begun) as late, late.transaction():
            await late.send(topic, b"3")
    assert await committed_values(client, topic) == [b"1", b"2"]


@with_client
async def test_a_transaction_without_records_cannot_be_left(client: Client, unique: str) -> None:
    topic = unique
    await Admin(client).topics.create(topic, partitions=1)
    async with Producer(client, transactional_id=unique) as producer:
        await producer.begin_transaction()
        with pytest.raises(NoTransaction, match="nothing was sent"):
            await producer.prepare_transaction()
        async with Producer(client, transactional_id=f"{unique}-2") as other:
            await other.begin_transaction()
            await other.send(topic, b"x")
            await other.prepare_transaction()
            assert not other.is_usable
            with pytest.raises(NoTransaction, match="left for another process"):
                await other.send(topic, b"y")
