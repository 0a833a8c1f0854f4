"""Clients above their quota are answered with the time to wait, and their connections are muted for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.foundation.client_entities import ClientEntity
from odradek.foundation.limits import CLIENT_THROTTLE_MS_MAX
from odradek.metadata.controller.client_configs import ClientConfigChange
from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker

PRODUCE, FETCH, REQUEST = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
EVERY_CLIENT = ClientEntity(client_id="")


class MutedConnection(Connection):
    """Notes its mutes, as `muted_ms` and the last reason."""

    def __init__(self, id: int = 1) -> None:
        super().__init__(id=id, listener_name="PLAINTEXT", peer=("client.test", 5000))
        self.muted_ms: list[int] = []
        self.still_due_ms: Callable[[], int] = lambda: 0

    def mute(self, milliseconds: int, still_due_ms: Callable[[], int]) -> None:
        self.muted_ms.append(milliseconds)
        self.still_due_ms = still_due_ms


async def started() -> tuple[WholeBroker, MutedConnection]:
    broker = await WholeBroker.start()
    connection = MutedConnection()
    broker.connection = connection
    broker.dispatcher = broker.broker.listeners[0]._dispatch  # type: ignore[assignment]
    await broker.create_topic("t")
    return broker, connection


async def quota(broker: WholeBroker, entity: ClientEntity, **values: float | None) -> None:
    texts = {key: None if value is None else str(value) for key, value in values.items()}
    await broker.broker.control.controller.change_client_configs([ClientConfigChange(entity, texts)])


async def produced(
    broker: WholeBroker, size: int, *, version: int = 9, topic: str = "t", acks: int = 1
) -> Any:
    records = [{"index": 0, "records": _batch(size)}]
    return await broker.ask(
        ApiKey.PRODUCE,
        version,
        acks=acks,
        timeout=1000,
        topic_data=[{"name": topic, "partition_data": records}],
    )


def _batch(size: int) -> bytes:
    from tests.support.whole_broker import batch

    return batch([b"x" * size])


def told_ms(answer: Any) -> int:
    seconds: float = answer.throttle_time.total_seconds()
    return round(seconds * 1000)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
async def test_a_producer_above_its_quota_waits(version: int) -> None:
    broker, connection = await started()
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 10_000})
    assert told_ms(await produced(broker, 50_000, version=version)) == 0
    # Within one window, the time counts as ten windows.
    answer = await produced(broker, 70_000, version=version)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 2_000 < told_ms(answer) < 2_200
    assert connection.muted_ms == [told_ms(answer)]
    # As in Kafka, the time grows only once ten windows are over; after eleven all is forgotten.
    await asyncio.sleep(told_ms(answer) / 1000)
    assert told_ms(await produced(broker, 100, version=version)) > 2_000
    await asyncio.sleep(12)
    assert told_ms(await produced(broker, 100, version=version)) == 0


async def test_a_refused_produce_has_its_time_beside_the_leaders_tags() -> None:
    broker, connection = await started()
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 1_000})
    answer = await produced(broker, 20_000, version=10, topic="missing")
    assert answer.responses[0].partition_responses[0].error_code == 3
    assert connection.muted_ms == [told_ms(answer)]
    assert told_ms(answer) > 9_000


async def test_without_an_answer_the_connection_is_muted_all_the_same() -> None:
    broker, connection = await started()
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 1_000, REQUEST: 0.000_001})
    records = [{"index": 0, "records": _batch(50_000)}]
    answer = broker.send(
        ApiKey.PRODUCE,
        9,
        acks=0,
        timeout=1000,
        topic_data=[{"name": "t", "partition_data": records}],
    )
    assert answer is None
    assert len(connection.muted_ms) == 1
    assert connection.muted_ms[0] > 30_000


async def test_a_wait_has_an_upper_bound_and_ends_with_its_quota() -> None:
    broker, connection = await started()
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 1})
    assert told_ms(await produced(broker, 900_000)) == CLIENT_THROTTLE_MS_MAX
    assert connection.still_due_ms() > CLIENT_THROTTLE_MS_MAX
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 1_000_000})
    assert connection.still_due_ms() == 0
    await quota(broker, EVERY_CLIENT, **{PRODUCE: 1})
    assert connection.still_due_ms() > 0
    await quota(broker, EVERY_CLIENT, **{PRODUCE: None})
    assert connection.still_due_ms() == 0
    assert told_ms(await produced(broker, 900_000)) == 0
    assert broker.broker.parts.fetch.throttling is None


async def test_what_a_connection_remembers_ends_with_every_change_of_quotas() -> None:
    """Also where another connection continues with the same meter, and gets its limit looked at."""
    broker, first = await started()
    everyone = ClientEntity(user="ANONYMOUS")
    await quota(broker, everyone, **{PRODUCE: 1_000_000})
    assert told_ms(await produced(broker, 1_000)) == 0
    assert first.produce_allowance.spare > 0
    other = MutedConnection(2)
    broker.connection = other
    assert told_ms(await produced(broker, 1_000)) == 0
    assert other.produce_allowance is first.produce_allowance
    # The first client gets a quota of its own, and the second stays with that of the user.
    own = ClientEntity(user="ANONYMOUS", client_id=first.client_id)
    await quota(broker, own, **{PRODUCE: 1_000})
    assert first.produce_allowance.spare < 0
    other.client_id = "another"
    throttling: Any = broker.broker.parts.fetch.throttling
    meter = throttling.produce.find("User:ANONYMOUS", "another")
    assert meter.usage.add(10, meter.limit, throttling.now_ms()) == 0
    assert meter.usage.allowance.spare > 0
    assert meter.usage.total >= 2_010
    broker.connection = first
    assert told_ms(await produced(broker, 50_000)) > 9_000


async def test_only_those_with_the_quota_share_it() -> None:
    broker, connection = await started()
    connection.principal = "User:alice"
    await quota(broker, ClientEntity(user="alice"), **{PRODUCE: 1_000})
    await quota(broker, ClientEntity(user="alice", client_id="free"), **{PRODUCE: 1_000_000_000})
    assert told_ms(await produced(broker, 20_000)) > 0
    broker.client_id = "another"
    assert told_ms(await produced(broker, 10)) > 0
    broker.client_id = "free"
    assert told_ms(await produced(broker, 20_000)) == 0
    connection.principal = "User:bob"
    broker.client_id = "another"
    assert told_ms(await produced(broker, 20_000)) == 0


async def fetched(broker: WholeBroker, version: int = 11, *, offset: int = 0, **fields: Any) -> Any:
    return await broker.ask(ApiKey.FETCH, version, **broker.fetch_fields(("t", 0, offset), **fields))


@pytest.mark.parametrize("version", [4, 11, 12])
async def test_a_consumer_above_its_quota_gets_no_records(version: int) -> None:
    broker, connection = await started()
    for _ in range(10):
        await produced(broker, 10_000)
    await quota(broker, EVERY_CLIENT, **{FETCH: 6_000})
    # One answer is at most ten windows of the quota: five batches.
    first = await fetched(broker, version)
    assert 50_000 < len(first.responses[0].partitions[0].records) <= 60_000
    # The head of the answer counts too.
    assert told_ms(first) < 20
    connection.muted_ms.clear()
    second = await fetched(broker, version)
    assert second.responses == ()
    assert told_ms(second) > 5_000
    assert connection.muted_ms == [told_ms(second)]
    # The empty answer counts for nothing.
    assert told_ms(await fetched(broker, version)) == told_ms(second)
    await asyncio.sleep(12)
    assert len((await fetched(broker, version)).responses[0].partitions[0].records) > 50_000


async def test_a_batch_above_the_whole_quota_is_read_and_waited_for() -> None:
    """Kafka answers such a client without records for ever."""
    broker, connection = await started()
    await produced(broker, 100_000)
    await quota(broker, EVERY_CLIENT, **{FETCH: 1_000})
    first = await fetched(broker)
    assert len(first.responses[0].partitions[0].records) > 100_000
    assert 80_000 < told_ms(first) < 120_000
    assert connection.muted_ms == [told_ms(first)]


async def test_a_session_stays_as_it_is_while_its_client_waits() -> None:
    broker, _ = await started()
    await produced(broker, 10_000)
    await quota(broker, EVERY_CLIENT, **{FETCH: 2_000})
    opened = await fetched(broker, 12, session_id=0, session_epoch=0)
    assert opened.session_id > 0
    refused = await fetched(broker, 12, session_id=0, session_epoch=0)
    assert (refused.session_id, refused.responses) == (0, ())
    for _ in range(2):
        await produced(broker, 10_000)
    fields = {"session_id": opened.session_id, "topics": [], "forgotten_topics_data": []}
    empty = await fetched(broker, 12, **fields, session_epoch=1)
    assert (empty.session_id, empty.responses) == (opened.session_id, ())
    assert told_ms(empty) > 0
    await asyncio.sleep(12)
    later = await fetched(broker, 12, **fields, session_epoch=2)
    assert later.responses[0].partitions[0].high_watermark == 3


async def test_followers_have_no_quota() -> None:
    broker, connection = await started()
    await produced(broker, 10_000)
    await quota(broker, EVERY_CLIENT, **{FETCH: 10, REQUEST: 0.000_001})
    for _ in range(3):
        assert told_ms(await fetched(broker, 11, replica_id=2)) == 0
    assert connection.muted_ms == []


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        (ApiKey.METADATA, 4, {"topics": None, "allow_auto_topic_creation": False}),
        (ApiKey.METADATA, 12, {"topics": None, "allow_auto_topic_creation": False}),
        (ApiKey.API_VERSIONS, 3, {"client_software_name": "x", "client_software_version": "1"}),
        (ApiKey.DESCRIBE_CLUSTER, 1, {"include_cluster_authorized_operations": False}),
        (ApiKey.LIST_GROUPS, 4, {}),
    ],
)
async def test_any_request_counts_by_its_time(api: ApiKey, version: int, fields: dict[str, Any]) -> None:
    broker, connection = await started()
    await quota(broker, EVERY_CLIENT, **{REQUEST: 0.000_001})
    answer = await broker.ask(api, version, **fields)
    # One window at most, as in Kafka.
    assert told_ms(answer) == 1_000
    assert connection.muted_ms == [1_000]
