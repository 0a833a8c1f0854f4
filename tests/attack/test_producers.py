"""Forged producers and replayed bytes: the owner of a transaction continues, and each of its records is there once.

`tests/compat/golden/stories_forgery.py` asks Apache Kafka the same, one request at a time.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import encode_request
from odradek.wire.records.builder import build_batch
from tests.attack.arena import PASSWORD, Arena
from tests.attack.attacks import connected, framed, header, local
from tests.support.plain_client import PlainClient
from tests.support.polling import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.thorough, pytest.mark.timeout(240)]

TOPIC = "m-transactions"
OWNER = "owner-of-transactions"
NOT_READY = {14, 15, 16, 51}
NO_TRANSACTIONAL_ID = 53
NO_CLUSTER = 31
FORGED = b"forged"
REPLAYS = 300


def batch(*values: bytes, sequence: int, producer: tuple[int, int], transactional: bool = True) -> bytes:
    records = [(int(time.time() * 1000), None, value) for value in values]
    return bytes(
        build_batch(
            records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional,
        )
    )


def produced(client: PlainClient, records: bytes, transactional_id: str | None) -> int:
    answer = client.ask(ApiKey.PRODUCE, 11, **produce_fields(records, transactional_id))
    return int(answer.responses[0].partition_responses[0].error_code)


def produce_fields(records: bytes, transactional_id: str | None) -> dict[str, Any]:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": records}]}]
    return {"transactional_id": transactional_id, "acks": -1, "timeout": 10_000, "topic_data": data}


def settled(ask: Callable[[], Any]) -> Any:
    """Ask until the coordinator has loaded its part, and nothing of the id is under way."""
    return wait_until(
        "the coordinator is not busy",
        ask,
        lambda answer: int(answer.error_code) not in NOT_READY,
        pause_seconds=0.02,
    )


def begin(client: PlainClient) -> tuple[int, int]:
    """A transaction of the owner with a record in it; the pair of producer id and epoch."""
    client.ask(ApiKey.FIND_COORDINATOR, 1, key=OWNER, key_type=1)
    begun = settled(
        lambda: client.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=OWNER, transaction_timeout=60_000)
    )
    assert int(begun.error_code) == 0, begun
    pair = begun.producer_id, begun.producer_epoch
    client.ask(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        v3_and_below_transactional_id=OWNER,
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )
    assert produced(client, batch(b"first", sequence=0, producer=pair), OWNER) == 0
    return pair


def commit(client: PlainClient, pair: tuple[int, int]) -> None:
    ended = settled(
        lambda: client.ask(
            ApiKey.END_TXN,
            4,
            transactional_id=OWNER,
            producer_id=pair[0],
            producer_epoch=pair[1],
            committed=True,
        )
    )
    assert int(ended.error_code) == 0, ended


def forge(client: PlainClient, pair: tuple[int, int]) -> None:
    """All that Mallory can try, with the right to write to the topic and none to any transactional id."""
    named = {"producer_id": pair[0], "producer_epoch": pair[1]}
    for epoch in range(pair[1] - 1, pair[1] + 3):
        records = batch(FORGED, sequence=1, producer=(pair[0], max(epoch, 0)))
        for name in (OWNER, "made-up", None):
            assert produced(client, records, name) == NO_TRANSACTIONAL_ID
    outside = batch(FORGED, sequence=1, producer=pair, transactional=False)
    assert produced(client, outside, None) != 0
    for number in range(200):
        begun = client.ask(
            ApiKey.INIT_PRODUCER_ID, 3, transactional_id=OWNER, transaction_timeout=1000 + number, **named
        )
        assert int(begun.error_code) == NO_TRANSACTIONAL_ID
        ended = client.ask(ApiKey.END_TXN, 4, transactional_id=OWNER, committed=False, **named)
        assert int(ended.error_code) == NO_TRANSACTIONAL_ID
        offsets = client.ask(
            ApiKey.ADD_OFFSETS_TO_TXN, 3, transactional_id=OWNER, group_id="m-group", **named
        )
        assert int(offsets.error_code) == NO_TRANSACTIONAL_ID
    marker = {
        **named,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": TOPIC, "partition_indexes": [0]}],
    }
    marked = client.ask(ApiKey.WRITE_TXN_MARKERS, 1, markers=[marker])
    (topic,) = marked.markers[0].topics
    assert {int(one.error_code) for one in topic.partitions} == {NO_CLUSTER}


def test_forged_producers_change_nothing(arena: Arena) -> None:
    with arena.admin() as owner:
        with suppress(AssertionError):
            owner.create_topic(TOPIC)
        before = owner.fetch_all(TOPIC)
        pair = begin(owner)

        def attack() -> None:
            with arena.logged_in("mallory", "mallory") as mallory:
                forge(mallory, pair)

        print(arena.withstands(attack), f"idle {arena.idle_bytes}")
        assert produced(owner, batch(b"second", sequence=1, producer=pair), OWNER) == 0
        commit(owner, pair)
        kept = owner.fetch_all(TOPIC)[len(before) :]
    assert [value for value in kept if value in (b"first", b"second", FORGED)] == [b"first", b"second"]


def test_replayed_bytes_change_nothing(arena: Arena) -> None:
    """Everything that an idempotent producer has sent, its login too, again and again."""
    with arena.admin() as owner:
        with suppress(AssertionError):
            owner.create_topic(TOPIC)
        before = owner.fetch_all(TOPIC)
        begun = owner.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id=None, transaction_timeout=60_000)
        pair = begun.producer_id, begun.producer_epoch
        frames = []
        for number in range(5):
            records = batch(b"%d" % number, sequence=number, producer=pair, transactional=False)
            message = messages.request(ApiKey.PRODUCE, 11, **produce_fields(records, None))
            frames.append(encode_request(ApiKey.PRODUCE, 11, number, "replayed", message))
            owner.exchange(frames[-1])
        login = framed(header(ApiKey.SASL_HANDSHAKE, 1) + b"\0\5PLAIN")
        token = f"\0admin\0{PASSWORD}".encode()
        recorded = login + framed(header(ApiKey.SASL_AUTHENTICATE, 1) + len(token).to_bytes(4, "big") + token)
        recorded += b"".join(frames)

        def attack() -> list[socket.socket]:
            held = []
            for _ in range(REPLAYS):
                with suppress(OSError):
                    one = connected(local(arena.port("LOGIN")))
                    held.append(one)
                    one.sendall(recorded)
            return held

        print(arena.withstands(attack), f"idle {arena.idle_bytes}")
        assert owner.fetch_all(TOPIC)[len(before) :] == [b"%d" % number for number in range(5)]
        following = batch(b"5", sequence=5, producer=pair, transactional=False)
        assert produced(owner, following, None) == 0
