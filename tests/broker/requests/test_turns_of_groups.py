"""Groups with many topics, and requests about them: long work is the thread's, and the group's requests wait for it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from odradek.broker.groups.classic.subscriptions import Subscriptions
from odradek.broker.groups.consumer.update import GroupUpdate, sort_unique
from odradek.broker.requests import consumer_group_heartbeat, sync_group
from odradek.foundation import errors
from odradek.foundation.limits import GROUP_PROTOCOLS_PER_MEMBER_MAX
from odradek.foundation.turn_limits import (
    GROUP_NAMES_PLANNED_AT_ONCE_MAX,
    REQUEST_ELEMENTS_PER_TURN_MAX,
    SUBSCRIPTION_BYTES_READ_AT_ONCE_MAX,
)
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.consumer import build_subscription
from odradek.wire.protocol.errors import code_of
from tests.support.large_requests import names
from tests.support.thread_work import where_called
from tests.support.whole_broker import WholeBroker

MANY = GROUP_NAMES_PLANNED_AT_ONCE_MAX + 1
LONG_SUBSCRIPTION = build_subscription(["read", *names(SUBSCRIPTION_BYTES_READ_AT_ONCE_MAX // 8)])


async def _broker(*topics: str) -> WholeBroker:
    whole = await WholeBroker.start({"group.initial.rebalance.delay.ms": "0"})
    for topic in topics:
        await whole.create_topic(topic)
    await whole.ask(ApiKey.FIND_COORDINATOR, 3, key_type=0, key="g")
    await asyncio.sleep(1)
    return whole


async def _join(whole: WholeBroker, **fields: Any) -> Any:
    given: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": 60_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        **fields,
    }
    return await whole.ask(ApiKey.JOIN_GROUP, 3, **given)


async def _heartbeat(whole: WholeBroker, member_id: str, topics: list[str] | None, **fields: Any) -> Any:
    given: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": topics,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": [],
        **fields,
    }
    return await whole.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **given)


async def _described(whole: WholeBroker) -> Any:
    (group,) = (await whole.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, group_ids=["g"])).groups
    return group


@pytest.mark.parametrize("more", [0, 1])
async def test_a_member_offers_a_bounded_number_of_protocols(more: int) -> None:
    whole = await _broker()
    offered = [{"name": name, "metadata": b""} for name in names(GROUP_PROTOCOLS_PER_MEMBER_MAX + more)]
    joined = await _join(whole, protocols=offered)
    assert joined.error_code == (code_of(errors.InvalidRequest) if more else 0)
    groups = (await whole.ask(ApiKey.LIST_GROUPS, 3)).groups
    assert [group.group_id for group in groups] == ([] if more else ["g"])


async def test_many_assignments_are_read_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await _broker()
    joined = await _join(whole, protocols=[{"name": "range", "metadata": b""}])
    calls = where_called(monkeypatch, sync_group, "_assignments")
    for others in (0, REQUEST_ELEMENTS_PER_TURN_MAX):
        given = [{"member_id": name, "assignment": b"not"} for name in names(others)]
        mine = {"member_id": joined.member_id, "assignment": b"mine"}
        synced = await whole.ask(
            ApiKey.SYNC_GROUP,
            3,
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[*given, mine],
        )
        assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert calls == [False, True]


async def test_a_large_consumer_group_is_planned_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = where_called(monkeypatch, GroupUpdate, "refresh_topics")
    whole = await _broker("n0000001")
    await _heartbeat(whole, "a", ["n0000001"])
    assert calls == [False]
    assert (await _heartbeat(whole, "b", names(MANY))).member_epoch == 2
    # The second of them waits until the first is written.
    answers = await asyncio.gather(*(_heartbeat(whole, name, ["n0000001", "n0000001"]) for name in "cd"))
    assert [(one.error_code, one.member_epoch) for one in answers] == [(0, 3), (0, 4)]
    assert calls == [False, True, True, True]
    group = await _described(whole)
    assert group.group_epoch == 4
    topics = {member.member_id: tuple(member.subscribed_topic_names) for member in group.members}
    assert topics == {"a": ("n0000001",), "b": tuple(names(MANY)), "c": ("n0000001",), "d": ("n0000001",)}
    left = await _heartbeat(whole, "b", None, member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert calls == [False, True, True, True, True]
    assert [member.member_id for member in (await _described(whole)).members] == ["a", "c", "d"]


async def test_a_large_consumer_group_is_what_its_records_say() -> None:
    whole = await _broker("n0000001")
    for member in ("a", "b"):
        answer = await _heartbeat(whole, member, names(MANY))
        assert answer.error_code == 0
    before = await _described(whole)
    again = await whole.restart()
    await asyncio.sleep(1)
    assert await _described(again) == before
    await again.stop()


async def test_a_refused_step_of_a_large_group_is_answered() -> None:
    whole = await _broker("n0000001")
    await _heartbeat(whole, "a", names(MANY))
    refused = await _heartbeat(whole, "a", None, member_epoch=7)
    assert refused.error_code == code_of(errors.FencedMemberEpoch)
    accepted = await _heartbeat(whole, "a", None, member_epoch=1, topic_partitions=None)
    assert (accepted.error_code, accepted.member_epoch) == (0, 1)


async def test_many_owned_partitions_are_read_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await _broker("n0000001")
    await _heartbeat(whole, "a", ["n0000001"])
    calls = where_called(monkeypatch, consumer_group_heartbeat, "as_assignment")
    for count in (1, REQUEST_ELEMENTS_PER_TURN_MAX):
        owned = [{"topic_id": None, "partitions": list(range(count))}]
        answer = await _heartbeat(whole, "a", None, member_epoch=1, topic_partitions=owned)
        assert answer.error_code == 0
    assert calls == [False, True]


async def test_a_rebalance_reads_no_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await _broker("read", "other")
    calls = where_called(monkeypatch, Subscriptions, "read")
    joined = await _join(whole, protocols=[{"name": "range", "metadata": LONG_SUBSCRIPTION}])
    assert (joined.error_code, calls) == (0, [])

    async def deleted(topic: str) -> Any:
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = await whole.ask(ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)
        return answer.topics[0].partitions[0].error_code

    assert await deleted("read") == code_of(errors.GroupSubscribedToTopic)
    assert calls[0] is True
    assert await deleted("other") == 0
    assert calls.count(True) == 1


def test_many_names_are_sorted_as_a_few() -> None:
    chance = random.Random(3)
    given = [f"n{chance.randrange(MANY)}" for _ in range(3 * MANY)]
    assert sort_unique(given) == tuple(sorted(set(given)))
    assert sort_unique(given[:9]) == tuple(sorted(set(given[:9])))
