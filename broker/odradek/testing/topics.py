"""Creates and deletes topics for a test, each call with a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from odradek.client.admin.topics import TopicAdmin
from odradek.client.client import Client
from odradek.testing.fixture_client import FIXTURE_CLIENT_ID


def create_topic(
    bootstrap: str, name: str, *, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> None:
    """Create a topic and wait until the broker leads its partitions. Raises the broker's error."""

    async def work() -> None:
        async with Client(bootstrap, client_id=FIXTURE_CLIENT_ID) as client:
            await TopicAdmin(client).create(
                name, partitions=partitions, replication_factor=replication_factor, configs=dict(configs)
            )

    asyncio.run(work())


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic. Raises the broker's error."""

    async def work() -> None:
        async with Client(bootstrap, client_id=FIXTURE_CLIENT_ID) as client:
            await TopicAdmin(client).delete(name)

    asyncio.run(work())
