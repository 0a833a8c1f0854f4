"""An operator asks a broker which records of a queue are locked, and by which member: GET /queue-locks."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from odradek.broker.shares.in_flight import InFlight
from odradek.broker.shares.runs import InFlightBatch, RecordRun, RecordState
from odradek.foundation.turn_limits import (
    QUEUE_LOCKS_PER_ANSWER_MAX,
    QUEUE_PARTITIONS_PER_ANSWER_MAX,
    SHARE_RUNS_PER_TURN_MAX,
)
from odradek.server.http import queue_locks
from odradek.server.http.queue_locks import list_locks, parse_group
from odradek.server.http.visible_names import AllNames, NoNames
from tests.broker.requests.test_share_fetch import begun
from tests.support.share_consumer import ACCEPT, RELEASE, RENEW, ShareConsumer
from tests.support.whole_broker import WholeBroker


async def ask(broker: WholeBroker, group_id: str = "g") -> dict[str, Any]:
    """The answer, as JSON gives it again."""
    answer: dict[str, Any] = json.loads(json.dumps(await list_locks(broker.broker, group_id, AllNames())))
    return answer


def lock(first: int, last: int, member_id: str, time_left_ms: int, *, delivery_count: int = 1) -> object:
    return {
        "topic": "t",
        "partition": 0,
        "first": first,
        "last": last,
        "member_id": member_id,
        "delivery_count": delivery_count,
        "time_left_ms": time_left_ms,
    }


def counted(in_flight: int, acquired: int, available: int, *, partition: int = 0) -> object:
    return {
        "topic": "t",
        "partition": partition,
        "in_flight": in_flight,
        "acquired": acquired,
        "available": available,
    }


async def test_each_lock_has_its_member_and_the_time_that_is_left() -> None:
    broker, _, first = await begun(batches=8)
    second = ShareConsumer(broker, member_id="n")
    assert await first.acquire(max_wait=100, max_records=4, share_acquire_mode=1) == [(0, 3, 1)]
    await asyncio.sleep(10)
    assert await second.acquire(max_records=2, share_acquire_mode=1) == [(4, 5, 1)]
    answer = await ask(broker)
    assert answer["locks"] == [lock(0, 3, "m", 20_000), lock(4, 5, "n", 30_000)]
    assert answer["partitions"] == [counted(6, 6, 0)]
    image = broker.broker.images.current
    assert (answer["cluster_id"], answer["broker_id"]) == (image.cluster_id, broker.broker.broker_id)
    assert answer["truncated"] is False


async def test_what_is_done_and_what_comes_again_is_not_locked() -> None:
    broker, _, first = await begun(batches=6)
    assert await first.acquire(max_wait=100) == [(0, 5, 1)]
    await first.must_acknowledge((1, 3, [ACCEPT, RELEASE, RELEASE]))
    answer = await ask(broker)
    assert answer["locks"] == [lock(0, 0, "m", 30_000), lock(4, 5, "m", 30_000)]
    assert answer["partitions"] == [counted(6, 3, 2)]
    second = ShareConsumer(broker, member_id="n")
    assert await second.acquire(max_records=1, share_acquire_mode=1) == [(2, 2, 2)]
    await asyncio.sleep(20)
    await first.must_acknowledge((0, 0, [RENEW]), is_renew_ack=True)
    assert (await ask(broker))["locks"] == [
        lock(0, 0, "m", 30_000),
        lock(2, 2, "n", 10_000, delivery_count=2),
        lock(4, 5, "m", 10_000),
    ]


async def test_a_lock_that_has_ended_is_gone() -> None:
    broker, _, member = await begun(batches=2)
    await member.acquire(max_wait=100)
    await asyncio.sleep(31)
    answer = await ask(broker)
    assert (answer["locks"], answer["partitions"]) == ([], [counted(2, 0, 2)])
    await member.leave()
    assert (await ask(broker))["partitions"] == []


async def test_only_the_group_that_is_asked_for_is_answered() -> None:
    broker, states, member = await begun(batches=2)
    other = ShareConsumer(broker, group_id="h", member_id="n")
    other.initialize(states, start=1)
    assert await other.acquire(max_records=0) == []
    assert await other.acquire(max_wait=100) == [(1, 1, 1)]
    assert await member.acquire(max_wait=100) == [(0, 1, 1)]
    assert (await ask(broker))["locks"] == [lock(0, 1, "m", 30_000)]
    assert (await ask(broker, "h"))["locks"] == [lock(1, 1, "n", 30_000)]
    assert (await ask(broker, "none"))["locks"] == []


async def test_a_broker_without_share_groups_makes_nothing() -> None:
    broker = await WholeBroker.start()
    answer = await ask(broker)
    assert (answer["locks"], answer["partitions"], answer["truncated"]) == ([], [], False)
    assert broker.broker.coordinators.started_share_leader is None
    assert broker.broker.coordinators.started_shares is None


async def test_topics_that_the_caller_may_not_see_are_left_out() -> None:
    broker, _, member = await begun(batches=1)
    await member.acquire(max_wait=100)
    answer = await list_locks(broker.broker, "g", NoNames())
    assert (answer["locks"], answer["partitions"]) == ([], [])


async def test_an_answer_is_bounded_and_says_what_it_lacks() -> None:
    assert QUEUE_LOCKS_PER_ANSWER_MAX <= 1_000 >= QUEUE_PARTITIONS_PER_ANSWER_MAX
    broker, _, member = await begun(batches=1, partitions=2)
    await member.acquire(max_wait=100)
    for share_partition in broker.broker.coordinators.share_leader:
        share_partition._in_flight = split_locks(QUEUE_LOCKS_PER_ANSWER_MAX - 1)
    answer = await ask(broker)
    assert (len(answer["locks"]), answer["truncated"]) == (QUEUE_LOCKS_PER_ANSWER_MAX, True)
    # Counts are whole all the same.
    count = QUEUE_LOCKS_PER_ANSWER_MAX - 1
    assert answer["partitions"] == [
        counted(2 * count, count, count, partition=partition) for partition in (0, 1)
    ]
    found = queue_locks._Found(0)
    (one, *_) = broker.broker.coordinators.share_leader
    for _ in range(QUEUE_PARTITIONS_PER_ANSWER_MAX + 1):
        found.add(one.partition.topic_partition, split_locks(0, left=1))
    assert (len(found.partitions), found.is_truncated) == (QUEUE_PARTITIONS_PER_ANSWER_MAX, True)


def split_locks(count: int, *, left: int = 0) -> InFlight:
    """Locks of one record each, and as many records between them that wait; `left` more wait behind them."""
    runs = [
        RecordRun(offset, offset, RecordState.AVAILABLE if offset % 2 else RecordState.ACQUIRED, 1, "m", 1e9)
        for offset in range(2 * count)
    ]
    if left:
        runs.append(RecordRun(2 * count, 2 * count + left - 1, RecordState.AVAILABLE, 1))
    in_flight = InFlight(0)
    in_flight.append(InFlightBatch(runs))
    return in_flight


async def test_no_turn_of_the_loop_looks_at_more_than_one_large_share_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when many ask at once."""
    broker, _, member = await begun(batches=1, partitions=3)
    await member.acquire(max_wait=100)
    for share_partition in broker.broker.coordinators.share_leader:
        share_partition._in_flight = split_locks(10)
    turns, looked_at = 0, []
    add = queue_locks._Found.add

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def note(found: Any, place: Any, in_flight: Any) -> None:
        looked_at.append(turns)
        add(found, place, in_flight)

    monkeypatch.setattr(queue_locks._Found, "add", note)
    monkeypatch.setattr(queue_locks, "SHARE_RUNS_PER_TURN_MAX", 30)
    assert SHARE_RUNS_PER_TURN_MAX <= 10_000
    counting = asyncio.create_task(count_turns())
    await asyncio.gather(*(list_locks(broker.broker, "g", AllNames()) for _ in range(5)))
    counting.cancel()
    assert len(looked_at) == len(set(looked_at)) == 15


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "names 0 groups"),
        ("group=", "is empty"),
        ("group=a&group=b", "names 2 groups"),
        ("group=a&topic=t", "'topic' is no parameter"),
        ("gruppe=\N{LATIN SMALL LETTER U WITH DIAERESIS}", "'gruppe' is no parameter"),
    ],
)
def test_what_is_no_question_is_refused(query: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        parse_group(parse_qsl(query, keep_blank_values=True))
    assert "/queue-locks?group=NAME" in str(refused.value)


def test_any_name_of_a_group_may_be_asked_for() -> None:
    assert parse_group([("group", "a b/\N{SNOWMAN}")]) == "a b/\N{SNOWMAN}"
