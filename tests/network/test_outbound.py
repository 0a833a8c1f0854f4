"""Requests to a peer, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.foundation.errors import FrameError, InvalidRequest, RequestTimedOut
from odradek.network.connection import Connection
from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol import messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.protocol.codec import decode_request, encode_response
from odradek.wire.protocol.framing import parse_request_header
from tests.network.support import Stage
from tests.support.loop import run
from tests.support.stories import told_by


def find(name: str) -> Any:
    return messages.request(ApiKey.FIND_COORDINATOR, 3, key=name)


def answer(connection: Connection, frame: memoryview) -> bytes:
    header = parse_request_header(frame)
    request = decode_request(header.api_key, header.api_version, frame, header.body_position)
    reply = messages.response(header.api_key, header.api_version, host=request.key, port=1)
    return encode_response(header.api_key, header.api_version, header.correlation_id, reply)


async def connect(stage: Stage) -> OutboundConnection:
    return await OutboundConnection.connect(
        stage.network.at("other"), host="broker", port=9092, client_id="me", timeout_ms=5_000
    )


def run_story(story: Callable[[Stage], Any], dispatch: Callable[[Connection, memoryview], Any]) -> None:
    async def staged() -> None:
        async with Stage(dispatch) as stage:
            await story(stage)

    run(staged())


@told_by(run_story, answer)
async def test_many_requests_at_once_each_get_their_own_answer(stage: Stage) -> None:
    connection = await connect(stage)
    answers = await asyncio.gather(
        *(connection.send(ApiKey.FIND_COORDINATOR, 3, find(f"g{number}")) for number in range(300))
    )
    assert [found.host for found in answers] == [f"g{number}" for number in range(300)]
    await connection.close()
    with pytest.raises(ConnectionError, match="was closed"):
        await connection.send(ApiKey.FIND_COORDINATOR, 3, find("g"))


@told_by(run_story, lambda connection, frame: asyncio.get_running_loop().create_future())
async def test_a_request_that_is_not_answered_in_time_ends_the_connection(stage: Stage) -> None:
    connection = await connect(stage)
    late = asyncio.create_task(connection.send(ApiKey.FIND_COORDINATOR, 3, find("a"), timeout_ms=60_000))
    with pytest.raises(RequestTimedOut):
        await connection.send(ApiKey.FIND_COORDINATOR, 3, find("b"))
    with pytest.raises(ConnectionError):
        await late
    assert connection.is_lost


@told_by(run_story, lambda connection, frame: asyncio.get_running_loop().create_future())
async def test_a_peer_that_disconnects_fails_waiting_requests(stage: Stage) -> None:
    connection = await connect(stage)
    waiting = asyncio.create_task(connection.send(ApiKey.FIND_COORDINATOR, 3, find("a")))
    await asyncio.sleep(1)
    stage.network.reset("broker")
    with pytest.raises(ConnectionError):
        await waiting


@pytest.mark.parametrize("reply", [b"\0\0\0\4\0\0\0\x09", b"\0\0\0\6\0\0\0\0\0\1", b"\xff\xff\xff\xff"])
def test_an_answer_that_makes_no_sense_ends_the_connection(reply: bytes) -> None:
    async def story(stage: Stage) -> None:
        connection = await connect(stage)
        with pytest.raises((ConnectionError, InvalidRequest, FrameError)):
            await connection.send(ApiKey.FIND_COORDINATOR, 3, find("a"))
        assert connection.is_lost

    run_story(story, lambda connection, frame: reply)
