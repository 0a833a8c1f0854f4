"""Clients that create and delete partitions too fast are refused, or held up in old versions (KIP-599)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from odradek.foundation.client_entities import ClientEntity
from odradek.wire.protocol.api import ApiKey
from tests.broker.requests.test_throttling import MutedConnection, quota, started, told_ms
from tests.support.whole_broker import WholeBroker

EXCEEDED = 89


async def create(broker: WholeBroker, version: int, *counts: int, start: int = 0) -> Any:
    return await broker.ask(
        ApiKey.CREATE_TOPICS,
        version,
        topics=[
            {"name": f"m{start + number}", "num_partitions": count, "replication_factor": 1}
            for number, count in enumerate(counts)
        ],
        timeout=1000,
        validate_only=False,
    )


def codes(answer: Any) -> list[int]:
    return [int(topic.error_code) for topic in answer.topics]


async def limited(rate: float = 1.0) -> tuple[WholeBroker, MutedConnection]:
    broker, connection = await started()
    await quota(broker, ClientEntity(client_id=""), controller_mutation_rate=rate)
    return broker, connection


async def test_new_versions_are_refused_once_a_request_went_below_zero() -> None:
    broker, connection = await limited()
    # Eleven partitions at once, and one request may go beyond.
    answer = await create(broker, 7, 5, 10, 1, 1)
    assert codes(answer) == [0, 0, EXCEEDED, EXCEEDED]
    assert answer.topics[2].error_message == "The throttling quota has been exceeded."
    assert told_ms(answer) == 4_000
    assert connection.muted_ms == [4_000]
    await asyncio.sleep(4.1)
    assert codes(await create(broker, 7, 1, start=10)) == [0]


async def test_old_versions_are_served_and_wait() -> None:
    broker, connection = await limited()
    answer = await create(broker, 5, 5, 10, 1)
    assert codes(answer) == [0, 0, 0]
    assert told_ms(answer) == 5_000
    assert connection.muted_ms == [5_000]


@pytest.mark.parametrize(("version", "refused"), [(4, False), (5, True), (6, True)])
async def test_deletions_count(version: int, refused: bool) -> None:
    broker, _ = await limited()
    assert codes(await create(broker, 7, 12)) == [0]
    name = "m0"
    fields: dict[str, Any] = {"topic_names": [name]}
    if version >= 6:
        fields = {"topics": [{"name": name, "topic_id": None}]}
    answer = await broker.ask(ApiKey.DELETE_TOPICS, version, **fields, timeout=1000)
    assert int(answer.responses[0].error_code) == (EXCEEDED if refused else 0)
    assert told_ms(answer) == (1_000 if refused else 13_000)


@pytest.mark.parametrize(("version", "refused"), [(2, False), (3, True)])
async def test_new_partitions_of_a_topic_count(version: int, refused: bool) -> None:
    broker, _ = await limited()

    async def grow(count: int) -> Any:
        topics = [{"name": "t", "count": count, "assignments": None}]
        return await broker.ask(
            ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=1000, validate_only=False
        )

    first = await grow(15)
    assert (int(first.results[0].error_code), told_ms(first)) == (0, 0 if refused else 3_000)
    second = await grow(16)
    assert int(second.results[0].error_code) == (EXCEEDED if refused else 0)
    assert told_ms(second) == (3_000 if refused else 4_000)


async def test_others_are_not_held_up() -> None:
    broker, connection = await started()
    await quota(broker, ClientEntity(client_id="greedy"), controller_mutation_rate=1.0)
    broker.client_id = "greedy"
    await create(broker, 7, 20)
    broker.client_id = "another"
    assert codes(await create(broker, 7, 20, start=5)) == [0]
    assert connection.muted_ms == []
