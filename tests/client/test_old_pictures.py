"""A picture of the cluster that was asked for before something happened does not answer for what is after it."""

from __future__ import annotations

import asyncio

import pytest

from odradek.client.admin.admin import Admin
from odradek.client.client import Client
from odradek.client.connection import BrokerConnection
from odradek.wire.protocol.api import ApiKey
from tests.support.stories import in_real_time


@in_real_time
async def test_new_partitions_are_seen_although_an_older_answer_arrives_late(
    bootstrap: str, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Client(bootstrap) as client, Client(bootstrap) as other:
        admin = Admin(client)
        await admin.topics.create(unique, partitions=1)
        await client.refresh((unique,))
        is_asked, may_answer = asyncio.Event(), asyncio.Event()
        request = BrokerConnection.request

        async def held(self: BrokerConnection, api: ApiKey, **fields: object) -> object:
            answer = await request(self, api, **fields)  # type: ignore[arg-type]
            if api is ApiKey.METADATA and not is_asked.is_set():
                is_asked.set()
                await may_answer.wait()
            return answer

        monkeypatch.setattr(BrokerConnection, "request", held)
        late = asyncio.create_task(client.refresh((unique,)))
        await is_asked.wait()
        await Admin(other).topics.create_partitions(unique, total=3)
        fresh = asyncio.create_task(client.refresh((unique,)))
        await asyncio.sleep(0)
        may_answer.set()
        assert len((await late).topic(unique).partitions) == 1
        assert len((await fresh).topic(unique).partitions) == 3
