"""Requests of transactional producers to a whole broker, through their bytes: each API in its versions."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.support.whole_broker import WholeBroker


async def initialized(broker: WholeBroker, name: str = "tx", *, version: int = 5, **fields: Any) -> Any:
    """InitProducerId as clients send it: they look for the coordinator first."""
    found = await broker.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=[name])
    (coordinator,) = found.coordinators
    assert (coordinator.error_code, coordinator.node_id) == (0, broker.broker.broker_id)
    asked = {"transactional_id": name, "transaction_timeout": 60_000, **fields}
    return await broker.ask(ApiKey.INIT_PRODUCER_ID, version, **asked)


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, one.partition_index): int(one.partition_error_code)
        for topic in answer
        for one in topic.results_by_partition
    }


async def add(
    broker: WholeBroker, version: int, *, epoch: int = 0, producer_id: int = 0, **topics: list[int]
) -> Any:
    answer = await broker.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        version,
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[{"name": name, "partitions": numbers} for name, numbers in topics.items()],
    )
    return codes(answer.results_by_topic_v3_and_below)


async def asked_by_leader(
    broker: WholeBroker, *, verify_only: bool, epoch: int = 0, **topics: list[int]
) -> Any:
    answer = await broker.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        5,
        transactions=[
            {
                "transactional_id": name,
                "producer_id": 0,
                "producer_epoch": epoch,
                "verify_only": verify_only,
                "topics": [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()],
            }
            for name in ("tx", "unknown")
        ],
    )
    assert answer.error_code == 0
    return {one.transactional_id: codes(one.topic_results) for one in answer.results_by_transaction}


@pytest.mark.thorough
@pytest.mark.parametrize("version", range(6))
async def test_a_transactional_id_gets_an_epoch_in_every_version(version: int) -> None:
    broker = await WholeBroker.start()
    first = await initialized(broker, version=version)
    assert (first.error_code, first.producer_id, first.producer_epoch) == (0, 0, 0)
    again = await initialized(broker, version=version)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 0, 1)
    if version >= 3:
        fenced = await initialized(broker, version=version, producer_id=0, producer_epoch=0)
        assert (fenced.error_code, fenced.producer_id) == (90 if version >= 4 else 47, -1)
        half = await initialized(broker, version=version, producer_id=0, producer_epoch=-1)
        assert half.error_code == 42
    assert (await initialized(broker, "", version=version)).error_code == 42
    assert (await initialized(broker, version=version, transaction_timeout=900_001)).error_code == 50
    topic = broker.broker.images.current.topics["__transaction_state"]
    assert (len(topic.partitions), topic.is_internal) == (50, True)


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_all_or_none(version: int) -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    await initialized(broker)
    assert await add(broker, version, t=[0], missing=[0]) == {("t", 0): 55, ("missing", 0): 3}
    assert await add(broker, version, t=[0, 5]) == {("t", 0): 55, ("t", 5): 3}
    assert await add(broker, version, t=[0, 1], epoch=7) == dict.fromkeys(
        (("t", 0), ("t", 1)), 90 if version >= 2 else 47
    )
    assert await add(broker, version, t=[0], producer_id=9) == {("t", 0): 49}
    assert await add(broker, version, t=[0, 1]) == {("t", 0): 0, ("t", 1): 0}
    (described,) = (
        await broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
    ).transaction_states
    assert (described.transaction_state, described.producer_epoch) == ("Ongoing", 0)
    assert [(one.topic, one.partitions) for one in described.topics] == [("t", (0, 1))]


async def test_leaders_add_partitions_and_ask_for_them() -> None:
    broker = await WholeBroker.start()
    await broker.create_topic("t", partitions=2)
    await initialized(broker)
    assert await asked_by_leader(broker, verify_only=True, t=[0]) == {
        "tx": {("t", 0): 120},
        "unknown": {("t", 0): 49},
    }
    assert (await asked_by_leader(broker, verify_only=False, t=[0]))["tx"] == {("t", 0): 0}
    assert (await asked_by_leader(broker, verify_only=True, t=[0, 1]))["tx"] == {
        ("t", 0): 0,
        ("t", 1): 120,
    }
    assert (await asked_by_leader(broker, verify_only=True, t=[0], epoch=1))["tx"] == {("t", 0): 90}
    assert (await asked_by_leader(broker, verify_only=True, t=[9, 0]))["tx"] == {
        ("t", 9): 3,
        ("t", 0): 55,
    }


@pytest.mark.parametrize("version", range(6))
async def test_an_abort_without_partitions(version: int) -> None:
    broker = await WholeBroker.start()
    await initialized(broker)
    asked = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0}
    ended = await broker.ask(ApiKey.END_TXN, version, committed=False, **asked)
    if version < 5:
        assert ended.error_code == 48
        fenced = await broker.ask(ApiKey.END_TXN, version, committed=False, **{**asked, "producer_epoch": 1})
        assert fenced.error_code == (90 if version >= 2 else 47)
    else:
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, 0, 1)
        wrong = await broker.ask(ApiKey.END_TXN, version, committed=True, **asked)
        assert (wrong.error_code, wrong.producer_id, wrong.producer_epoch) == (90, -1, -1)


@pytest.mark.parametrize("version", range(5))
async def test_offsets_are_added_as_the_partition_of_their_group(version: int) -> None:
    broker = await WholeBroker.start({"offsets.topic.num.partitions": "3"})
    await initialized(broker)
    asked = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0, "group_id": "g"}
    assert (await broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, **asked)).error_code == 0
    (described,) = (
        await broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["tx"])
    ).transaction_states
    # "g" hashes to 103, which is 1 modulo 3.
    assert [(one.topic, one.partitions) for one in described.topics] == [("__consumer_offsets", (1,))]
    late = {**asked, "producer_epoch": 3}
    refused = await broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, **late)
    assert refused.error_code == (90 if version >= 2 else 47)


@pytest.mark.parametrize("version", range(3))
async def test_transactions_are_listed_and_described(version: int) -> None:
    broker = await WholeBroker.start()
    await initialized(broker, "one")
    await initialized(broker, "two")
    rows = (await broker.ask(ApiKey.LIST_TRANSACTIONS, version)).transaction_states
    assert {(row.transactional_id, row.producer_id, row.transaction_state) for row in rows} == {
        ("one", 0, "Empty"),
        ("two", 1, "Empty"),
    }
    odd = await broker.ask(ApiKey.LIST_TRANSACTIONS, version, state_filters=["Odd"])
    assert (odd.transaction_states, odd.unknown_state_filters) == ((), ("Odd",))
    if version >= 2:
        few = await broker.ask(ApiKey.LIST_TRANSACTIONS, version, transactional_id_pattern="t.*")
        assert [row.transactional_id for row in few.transaction_states] == ["two"]
        bad = await broker.ask(ApiKey.LIST_TRANSACTIONS, version, transactional_id_pattern="(")
        assert bad.error_code == 128
    states = (
        await broker.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["one", "three", ""])
    ).transaction_states
    assert [(row.transactional_id, row.error_code) for row in states] == [
        ("one", 0),
        ("three", 105),
        ("", 42),
    ]
