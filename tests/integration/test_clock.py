"""The wall clock is set back while a broker runs: nothing is lost, refused or found in the wrong place."""

from __future__ import annotations

import asyncio
from typing import Any

from odradek.wire.protocol.api import ApiKey
from tests.support.loop import LoopClock
from tests.support.whole_broker import WholeBroker

HOUR_MS = 3_600_000
GROUP = "g"


async def offset_at(broker: WholeBroker, timestamp_ms: int) -> int:
    """The first offset of a record of that time or later."""
    answer = await broker.ask(
        ApiKey.LIST_OFFSETS,
        5,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": "t",
                "partitions": [{"partition_index": 0, "timestamp": timestamp_ms, "current_leader_epoch": -1}],
            }
        ],
    )
    return int(answer.topics[0].partitions[0].offset)


async def commit(broker: WholeBroker, offset: int) -> int:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    answer = await broker.ask(
        ApiKey.OFFSET_COMMIT,
        2,
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": "t", "partitions": [partition]}],
    )
    return int(answer.topics[0].partitions[0].error_code)


async def committed(broker: WholeBroker) -> int:
    answer = await broker.ask(
        ApiKey.OFFSET_FETCH, 5, group_id=GROUP, topics=[{"name": "t", "partition_indexes": [0]}]
    )
    return int(answer.topics[0].partitions[0].committed_offset)


async def count(broker: WholeBroker) -> int:
    partition = broker.broker.partitions.get("t", 0)
    return partition.log.log_end_offset - partition.log.log_start_offset


async def test_an_hour_back() -> None:
    clock = LoopClock()
    broker = await WholeBroker.start(clock=clock)
    await broker.create_topic("t", message_timestamp_type="LogAppendTime", retention_ms=str(2 * HOUR_MS))
    await broker.broker.controller.ensure_topic("__consumer_offsets")
    await asyncio.sleep(1)
    before_ms = clock.wall_ms()
    assert (await broker.produce("t", b"before")).error_code == 0
    assert await commit(broker, 1) == 0

    clock.shift(-HOUR_MS)
    after: Any = await broker.produce("t", b"after")
    assert (after.error_code, after.base_offset) == (0, 1)
    assert await commit(broker, 2) == 0
    await asyncio.sleep(600)  # retention, checkpoints and the groups' housekeeping have had their turns
    assert await count(broker) == 2
    assert await committed(broker) == 2
    # The first record of that time or later, in the order of offsets, whatever came behind it.
    assert await offset_at(broker, before_ms - HOUR_MS // 2) == 0
    assert await offset_at(broker, before_ms - 2 * HOUR_MS) == 0

    restarted = await broker.restart()
    await asyncio.sleep(1)
    assert await count(restarted) == 2
    assert await committed(restarted) == 2
    assert (await restarted.produce("t", b"later")).base_offset == 2


async def test_times_of_clients_that_lie_ahead_of_a_clock_set_back() -> None:
    """A producer whose clock was not set back is an hour ahead of the broker: its records are taken, as in Kafka."""
    clock = LoopClock()
    broker = await WholeBroker.start(clock=clock)
    await broker.create_topic("t")
    clock.shift(-HOUR_MS)
    answer = await broker.produce("t", b"ahead", timestamp_ms=clock.wall_ms() + HOUR_MS - 60_000)
    assert answer.error_code == 0
    answer = await broker.produce("t", b"far ahead", timestamp_ms=clock.wall_ms() + 2 * HOUR_MS)
    assert answer.error_code == 32
