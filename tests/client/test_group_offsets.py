"""Offsets of many groups, and producers of many partitions, take one request for each broker."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from odradek import Admin, Client, Producer, TopicPartition
from odradek.client.admin.group_offsets import fetch_offsets_of_groups
from odradek.client.connection import BrokerConnection
from odradek.client.results import CommittedOffset
from odradek.foundation.client_limits import GROUPS_PER_OFFSET_FETCH_MAX
from odradek.wire.protocol.api import ApiKey
from tests.client.support import with_client

pytestmark = pytest.mark.integration


class Requests:
    """Counts what is asked, by API, while it is entered."""

    def __init__(self) -> None:
        self.counts: Counter[ApiKey] = Counter()
        request = BrokerConnection.request

        async def count(connection: BrokerConnection, api: ApiKey, **fields: Any) -> Any:
            self.counts[api] += 1
            return await request(connection, api, **fields)

        self.patch = patch.object(BrokerConnection, "request", count)


@with_client
async def test_a_hundred_groups_are_asked_for_at_once(client: Client, unique: str) -> None:
    admin = Admin(client)
    await admin.topics.create(unique, partitions=2)
    groups = [f"{unique}-{number}" for number in range(3)]
    for number, group in enumerate(groups):
        await admin.groups.alter_offsets(group, {TopicPartition(unique, number % 2): CommittedOffset(number)})
    unknown = [f"{unique}-unknown-{number}" for number in range(GROUPS_PER_OFFSET_FETCH_MAX)]
    (broker_id,) = (await client.refresh(())).brokers
    requests = Requests()
    with requests.patch:
        found = await fetch_offsets_of_groups(client, {broker_id: [*groups, *unknown]})
    assert requests.counts == {ApiKey.OFFSET_FETCH: 2}
    assert {group: found[group] for group in groups} == {
        group: await admin.groups.offsets(group) for group in groups
    }
    assert [found[group] for group in unknown] == [{}] * len(unknown)


@with_client
async def test_a_broker_that_is_not_there_leaves_its_groups_out(client: Client, unique: str) -> None:
    assert await fetch_offsets_of_groups(client, {99: [unique]}) == {}


@with_client
async def test_producers_of_all_partitions_are_asked_for_at_once(client: Client, unique: str) -> None:
    await Admin(client).topics.create(unique, partitions=3)
    async with Producer(client) as producer:
        for number in (0, 2):
            await producer.send_and_wait(unique, b"1", partition=number)
    keys = [TopicPartition(unique, number) for number in range(3)]
    requests = Requests()
    with requests.patch:
        found = await Admin(client).logs.describe_producers_of(keys)
    assert requests.counts[ApiKey.DESCRIBE_PRODUCERS] == 1
    assert [len(found[key]) for key in keys] == [1, 0, 1]
    assert await Admin(client).logs.describe_producers_of([]) == {}
