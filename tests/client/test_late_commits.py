"""A commit that is tried again after its member lost its place in the group does not count."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.admin.groups import GroupAdmin
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.client.consumer.group import GroupConsumer
from odradek.client.producer.producer import Producer
from odradek.client.results import CommittedOffset
from odradek.foundation.errors import NotCoordinator
from odradek.foundation.ids import TopicPartition
from odradek.wire.protocol.api import ApiKey


def test_a_commit_stays_that_of_its_member_and_generation(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with Client(bootstrap) as client, Producer(client) as producer:
            for value in (b"a", b"b"):
                await (await producer.send(unique, value))
            key = TopicPartition(unique, 0)
            late = GroupConsumer(client, unique, [unique], on_no_offset="earliest")
            async with late:
                assert len(await late.poll(records_max=1, timeout_ms=10_000)) == 1
                # Another has taken over since, and is gone.
                membership = late._membership
                member_id = membership.member_id
                await membership.leave()
                membership.member_id, membership.generation = member_id, 1
                await GroupAdmin(client).alter_offsets(unique, {key: CommittedOffset(2, -1)})
                tries = 0
                request = BrokerConnection.request

                async def refused_once(self: BrokerConnection, api: ApiKey, **fields: object) -> object:
                    nonlocal tries
                    if api is ApiKey.OFFSET_COMMIT:
                        tries += 1
                        if tries == 1:
                            # At the same time a heartbeat is answered that the member is unknown.
                            membership.forget(is_member=False)
                            raise NotCoordinator("the coordinator moves")
                    return await request(self, api, **fields)  # type: ignore[arg-type]

                monkeypatch.setattr(BrokerConnection, "request", refused_once)
                await late.commit()
                assert tries == 2
            assert (await GroupAdmin(client).offsets(unique))[key].offset == 2

    asyncio.run(story())
