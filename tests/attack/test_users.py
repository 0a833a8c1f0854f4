"""A user with few rights: made-up ids, patterns that explode elsewhere, huge members, other people's resources."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.wire.protocol.api import ApiKey
from tests.attack.arena import Arena
from tests.support.honest_client import TOPIC
from tests.support.plain_client import ConnectionLostError, PlainClient

pytestmark = [pytest.mark.integration, pytest.mark.thorough, pytest.mark.timeout(240)]

DENIED = {29, 30, 31, 53}
UNKNOWN_MEMBER_ID = 25
UNKNOWN_TOPIC_ID = 100
MEGABYTE = 1_000_000
PATTERNS = [
    "(a+)+$",
    "(a|aa)+b",
    "(.*)*x",
    "a{1000}{1000}",
    "(?=x)",
    "[",
    "x" * 100_000,
    "(" * 5000,
    "\\C" * 2000,
]


def as_mallory(arena: Arena, attack: Callable[[PlainClient], Any]) -> None:
    def run() -> None:
        with arena.logged_in("mallory", "mallory") as mallory:
            attack(mallory)

    print(arena.withstands(run), f"idle {arena.idle_bytes}")


def await_coordinator(client: PlainClient) -> None:
    """Until the broker has made the topic of groups, and loaded it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        client.ask(ApiKey.FIND_COORDINATOR, 1, key="m-group", key_type=0)
        answer = client.ask(ApiKey.HEARTBEAT, 3, group_id="m-group", generation_id=1, member_id="nobody")
        if int(answer.error_code) == UNKNOWN_MEMBER_ID:
            return
    raise AssertionError("there is no coordinator for m-group")


def test_others_resources_stay_as_they_are(arena: Arena) -> None:
    def attack(mallory: PlainClient) -> None:
        assert mallory.produce(TOPIC, [b"forged"])[0] in DENIED
        deleted = mallory.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[TOPIC], timeout=1000)
        assert int(deleted.responses[0].error_code) in DENIED
        cut = {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}]}
        records = mallory.ask(ApiKey.DELETE_RECORDS, 1, topics=[cut], timeout=1000)
        assert int(records.topics[0].partitions[0].error_code) in DENIED
        assert int(mallory.ask(ApiKey.DESCRIBE_ACLS, 2, resource_type_filter=1, pattern_type_filter=1,
                               operation=1, permission_type=1).error_code) in DENIED  # fmt: skip
        for group in ("honest-group", "other"):
            answer = mallory.ask(ApiKey.HEARTBEAT, 3, group_id=group, generation_id=1, member_id="made up")
            assert int(answer.error_code) in DENIED

    as_mallory(arena, attack)


def test_made_up_ids_are_unknown(arena: Arena) -> None:
    def attack(mallory: PlainClient) -> None:
        await_coordinator(mallory)
        for number in range(500):
            member = f"consumer-{uuid.UUID(int=number)}"
            answer = mallory.ask(ApiKey.HEARTBEAT, 3, group_id="m-group", generation_id=1, member_id=member)
            assert int(answer.error_code) == UNKNOWN_MEMBER_ID
            begun = mallory.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=f"others-{number}",
                                transaction_timeout=1000)  # fmt: skip
            assert int(begun.error_code) in DENIED
        asked = [{"topic_id": uuid.UUID(bytes=os.urandom(16)), "name": None} for _ in range(500)]
        topics = mallory.ask(ApiKey.METADATA, 12, topics=asked).topics
        assert {int(one.error_code) for one in topics} == {UNKNOWN_TOPIC_ID}
        assert {one.name for one in topics} == {None}

    as_mallory(arena, attack)


def test_patterns_take_no_time(arena: Arena) -> None:
    """re2 is linear in the pattern and the text; what it cannot read is refused."""

    def attack(mallory: PlainClient) -> None:
        await_coordinator(mallory)
        mallory.create_topic("m-" + "a" * 200)
        for number, pattern in enumerate(PATTERNS):
            with suppress(ConnectionLostError):
                mallory.ask(
                    ApiKey.CONSUMER_GROUP_HEARTBEAT,
                    1,
                    group_id=f"m-{number}",
                    member_id=str(uuid.uuid4()),
                    member_epoch=0,
                    rebalance_timeout=10_000,
                    subscribed_topic_names=[],
                    subscribed_topic_regex=pattern,
                    topic_partitions=[],
                )

    as_mallory(arena, attack)


def test_huge_members_are_bounded(arena: Arena) -> None:
    """Members that never come back, with a megabyte of metadata each: what a group of a user keeps has a bound."""

    def attack(mallory: PlainClient) -> None:
        await_coordinator(mallory)
        for number in range(40):
            mallory.ask(
                ApiKey.JOIN_GROUP,
                3,
                group_id=f"m-huge-{number}",
                session_timeout=6000,
                rebalance_timeout=6000,
                member_id="",
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": bytes(MEGABYTE)}],
            )

    as_mallory(arena, attack)
