"""What a client says of a group of another kind."""

from __future__ import annotations

import pytest

from odradek import Admin, Client, Consumer, ShareConsumer
from odradek.errors import GroupIdNotFound, InconsistentGroupProtocol
from tests.client.support import with_client

pytestmark = pytest.mark.integration


@with_client
async def test_a_consumer_of_a_queue_is_referred_to_a_share_consumer(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with ShareConsumer(client, unique, [unique]) as member:
        await member.poll(timeout_ms=500)
        async with Consumer(client, unique, group_id=unique) as consumer:
            with pytest.raises(
                InconsistentGroupProtocol, match=r"is a queue .* a ShareConsumer reads from it"
            ):
                await consumer.poll()


@with_client
async def test_a_share_consumer_of_a_group_is_referred_to_a_consumer(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=1)
    async with Consumer(client, unique, group_id=unique) as member:
        await member.poll(timeout_ms=500)
        async with ShareConsumer(client, unique, [unique]) as consumer:
            with pytest.raises(GroupIdNotFound, match=r"is a group of consumers .* a Consumer reads with it"):
                await consumer.poll(timeout_ms=10_000)
