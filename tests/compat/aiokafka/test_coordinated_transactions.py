"""Transactions of aiokafka, which speaks the first generation."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.compat.aiokafka.test_client import read
from tests.support.stories import in_real_time

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@in_real_time
async def test_transactions_commit_abort_and_fence(bootstrap: str, topic: str) -> None:
    old = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await old.start()
    async with old.transaction():
        await old.send_and_wait(topic, b"committed", partition=0)
    await old.begin_transaction()
    await old.send_and_wait(topic, b"aborted", partition=0)
    await old.abort_transaction()
    await old.begin_transaction()
    await old.send_and_wait(topic, b"of a zombie", partition=0)
    new = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await new.start()
    with pytest.raises(ProducerFenced):
        await old.commit_transaction()
    async with new.transaction():
        await new.send_and_wait(topic, b"the last", partition=0)
    for level, values in (
        ("read_committed", [b"committed", b"the last"]),
        ("read_uncommitted", [b"committed", b"aborted", b"of a zombie", b"the last"]),
    ):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level=level
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        assert [one.value for one in await read(consumer, len(values))] == values
        await consumer.stop()
    await new.stop()
    await old.stop()
