"""Batches whose records have to be read, and are many: a thread reads them, and the order of batches stays."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from odradek.foundation.turn_limits import BATCH_BYTES_CHECKED_AT_ONCE_MAX, BATCH_RECORDS_CHECKED_AT_ONCE_MAX
from odradek.network.connection import Connection
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.support.whole_broker import START_MS, WholeBroker, decoded

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
INVALID_RECORD = 87


class HeldConnection(Connection):
    """Notes whether it would dispatch another request."""

    def __init__(self) -> None:
        super().__init__(id=1, listener_name="PLAINTEXT", peer=("client.test", 5000))
        self.holds = 0

    def hold(self) -> None:
        self.holds += 1

    def release(self) -> None:
        self.holds -= 1


def _batch(*values: bytes, key: bytes | None = b"k", **fields: Any) -> bytes:
    return bytes(build_batch([(START_MS, key, value) for value in values], **fields))


def _bomb(codec: Compression, **fields: Any) -> bytes:
    return _batch(bytes(4 * BATCH_BYTES_CHECKED_AT_ONCE_MAX), compression=codec, **fields)


def _fields(*batches: tuple[str, bytes], acks: int = 1) -> dict[str, Any]:
    return {
        "acks": acks,
        "timeout": 1000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": 0, "records": batch}]} for topic, batch in batches
        ],
    }


async def _broker(**config: Any) -> WholeBroker:
    whole = await WholeBroker.start({"auto.create.topics.enable": "false"})
    await whole.create_topic("compacted", **(config or {"cleanup_policy": "compact"}))
    await whole.create_topic("plain")
    return whole


async def _answer(sent: Any) -> list[tuple[int, int]]:
    answer = decoded(ApiKey.PRODUCE, 9, await sent if inspect.isawaitable(sent) else sent)
    return [
        (one.error_code, one.base_offset) for topic in answer.responses for one in topic.partition_responses
    ]


@pytest.mark.parametrize("codec", CODECS)
async def test_a_batch_that_grows_is_read_in_a_thread_and_its_connection_waits(codec: Compression) -> None:
    whole = await _broker()
    connection = HeldConnection()
    bomb = _bomb(codec)
    assert len(bomb) < BATCH_BYTES_CHECKED_AT_ONCE_MAX
    sent = whole.send(ApiKey.PRODUCE, 9, connection, **_fields(("compacted", bomb)))
    assert inspect.isawaitable(sent) and connection.holds == 1
    # Another client is answered at the same time, and stands before it in the log.
    other = whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", _batch(b"small"))))
    assert await _answer(other) == [(0, 0)]
    assert await _answer(sent) == [(0, 1)]
    assert connection.holds == 0


async def test_a_small_batch_is_appended_at_once() -> None:
    whole = await _broker()
    for codec in Compression:
        batch = _batch(*[b"value"] * 100, compression=codec)
        assert isinstance(whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", batch))), bytes)


@pytest.mark.parametrize(
    "config",
    [
        {"cleanup_policy": "compact"},
        {"compression_type": "gzip"},
        {"message_timestamp_before_max_ms": "1000000"},
    ],
)
async def test_every_setting_that_asks_for_the_records_reads_many_in_a_thread(config: dict[str, Any]) -> None:
    whole = await _broker(**config)
    for batch in (
        _bomb(Compression.ZSTD),
        _batch(*[b"v"] * (BATCH_RECORDS_CHECKED_AT_ONCE_MAX + 1)),
        _batch(bytes(BATCH_BYTES_CHECKED_AT_ONCE_MAX)),
    ):
        sent = whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", batch)))
        assert inspect.isawaitable(sent)
        ((code, _),) = await _answer(sent)
        assert code == 0
    # Where no client asks for them they are not read, however many they are.
    assert isinstance(whole.send(ApiKey.PRODUCE, 9, **_fields(("plain", batch))), bytes)


async def test_a_large_batch_that_is_wrong_fails_for_its_partition_alone() -> None:
    whole = await _broker()
    connection = HeldConnection()
    keyless = _bomb(Compression.ZSTD, key=None)
    sent = whole.send(
        ApiKey.PRODUCE, 9, connection, **_fields(("plain", _batch(b"a")), ("compacted", keyless))
    )
    assert await _answer(sent) == [(0, 0), (INVALID_RECORD, -1)]
    assert connection.holds == 0


async def test_settings_that_change_meanwhile_count() -> None:
    whole = await _broker(message_timestamp_before_max_ms="1000000")
    sent = whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", _bomb(Compression.ZSTD, key=None))))
    assert inspect.isawaitable(sent)
    waiting = asyncio.ensure_future(_answer(sent))
    await asyncio.sleep(0)
    (partition,) = [one for one in whole.broker.partitions if one.topic_partition.topic == "compacted"]
    config = partition.log.config
    partition.log.reconfigure(config._replace(cleanup_compact=True))
    assert await waiting == [(INVALID_RECORD, -1)]


async def test_without_acknowledgement_the_batch_is_appended_all_the_same() -> None:
    whole = await _broker()
    sent = whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", _bomb(Compression.LZ4)), acks=0))
    assert await sent is None
    assert await _answer(whole.send(ApiKey.PRODUCE, 9, **_fields(("compacted", _batch(b"v"))))) == [(0, 1)]
