"""A client of one event loop in another: an error says why, and what to do. Nothing waits for ever."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from odradek import Admin, Client, Consumer, Producer

pytestmark = pytest.mark.integration

CLOSED = r"the event loop that it was first used in, which is closed now\. Make a Client.* within each asyncio\.run"


async def connect(bootstrap: str, topic: str) -> tuple[Client, Producer, Consumer]:
    """Everything, started and left open."""
    client = Client(bootstrap)
    await Admin(client).topics.create(topic, partitions=1)
    producer = Producer(client)
    await producer.start()
    consumer = Consumer(client, topic, auto_offset_reset="earliest")
    await consumer.start()
    return client, producer, consumer


def use_in_other_runs(bootstrap: str, unique: str) -> None:
    client, producer, consumer = asyncio.run(connect(bootstrap, unique))
    calls: list[Callable[[], Awaitable[object]]] = [
        client.connect,
        Admin(client).topics.list,
        lambda: producer.send(unique, b"tea"),
        lambda: producer.send_many(unique, [b"tea"]),
        producer.flush,
        producer.close,
        consumer.poll,
        consumer.__anext__,
        consumer.close,
        lambda: Producer(client).start(),
        lambda: Consumer(client, unique).start(),
    ]

    async def call(one: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(RuntimeError, match=CLOSED):
            await one()

    for one in calls:
        asyncio.run(call(one))
    asyncio.run(client.close())  # nothing of it is open any more


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_second_run_is_told_that_its_client_is_of_the_first(bootstrap: str, unique: str) -> None:
    use_in_other_runs(bootstrap, unique)
    gc.collect()  # here, where the warnings of its sockets are expected


def test_a_loop_beside_it_is_told_too(bootstrap: str, unique: str) -> None:
    async def main() -> None:
        client, producer, consumer = await connect(bootstrap, unique)
        delivery = await producer.send(unique, b"tea")

        def in_a_loop_of_its_own() -> None:
            async def use() -> None:
                with pytest.raises(RuntimeError, match="another one than that of this call"):
                    await Admin(client).topics.list()
                with pytest.raises(RuntimeError, match="belongs to the event loop of its send"):
                    await delivery
                with pytest.raises(RuntimeError, match="another one than that of this call"):
                    await client.close()

            asyncio.run(use())

        await asyncio.to_thread(in_a_loop_of_its_own)
        await delivery
        await consumer.close()
        await producer.close()
        await client.close()

    asyncio.run(main())
