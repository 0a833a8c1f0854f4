"""Peers that send nonsense, too much, too little or do not read: each costs its own connection."""

from __future__ import annotations

import asyncio
import logging
import random
import struct

import pytest

from odradek.foundation.errors import InvalidRequest
from odradek.foundation.limits import (
    LOG_LINES_PER_MINUTE_MAX,
    RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX,
    SLICE_PART_BYTES,
)
from odradek.network.connection import Connection
from tests.network.support import MemoryFile, MemorySlice, Stage, framed


def echo(connection: Connection, frame: memoryview) -> bytes:
    return framed(bytes(frame))


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1, 0x47455420, 0x16030100])
async def test_a_wrong_size_ends_the_connection_after_what_came_before_it(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with Stage(echo, frame_bytes_max=1000) as stage:
        peer, other = await stage.peer(), await stage.peer()
        peer.transport.write(framed(b"good") + struct.pack(">i", size) + b"and so on")
        await peer.is_lost.wait()
        assert await peer.frames(2) == [b"good"]
        other.send(b"still here")
        assert await other.frames(1) == [b"still here"]
    assert caplog.text.count("announces") == 1


async def test_two_wrong_frames_in_one_read_end_the_connection_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(connection: Connection, frame: memoryview) -> bytes:
        raise InvalidRequest("the first is wrong")

    async with Stage(refuse, frame_bytes_max=1000) as stage:
        peer = await stage.peer()
        peer.transport.write(framed(b"wrong") + struct.pack(">i", -1) + b"and so on")
        await peer.is_lost.wait()
    assert caplog.text.count(" is closed after ") == 1
    assert "the first is wrong" in caplog.text


async def test_a_peer_that_leaves_in_the_middle_of_an_answer_is_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def break_off(connection: Connection, frame: memoryview) -> bytes:
        raise BrokenPipeError("Broken pipe")

    async with Stage(break_off, frame_bytes_max=1000) as stage:
        peer = await stage.peer()
        peer.send(b"x")
        await peer.is_lost.wait()
    assert not [one for one in caplog.records if one.levelno > logging.DEBUG]


async def test_a_closed_connection_names_one_request_in_the_singular(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Stage(echo, frame_bytes_max=1000) as stage:
        peer = await stage.peer()
        peer.send(b"x")
        assert await peer.frames(1) == [b"x"]
        peer.transport.write(struct.pack(">i", -1))
        await peer.is_lost.wait()
    assert " is closed after 1 request: " in caplog.text


async def test_random_bytes_cost_their_connection_and_a_bounded_number_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chance = random.Random(5)
    async with Stage(echo, frame_bytes_max=1000) as stage:
        steady = await stage.peer()
        for _ in range(200):
            peer = await stage.peer()
            peer.transport.write(b"\xff" + chance.randbytes(chance.randint(3, 3000)))
            await peer.is_lost.wait()
        steady.send(b"x")
        assert await steady.frames(1) == [b"x"]
        assert stage.admission.connections == 1
    # A minute of the log may begin between two of them.
    assert caplog.text.count("announces") <= 2 * LOG_LINES_PER_MINUTE_MAX


async def test_a_frame_that_never_ends_is_idle_in_the_end() -> None:
    async with Stage(echo, idle_ms_max=60_000) as stage:
        peer = await stage.peer()
        peer.transport.write(struct.pack(">i", 100) + b"only so much")
        started = asyncio.get_running_loop().time()
        await peer.is_lost.wait()
        assert 60 <= asyncio.get_running_loop().time() - started <= 75
        assert stage.listener.closed_idle == 1


async def test_a_slow_reader_costs_bounded_memory() -> None:
    """It asks for much and reads nothing: files are not loaded, requests are not taken."""
    asked = [0]
    file = MemoryFile(bytes(4_000_000))

    def dispatch(connection: Connection, frame: memoryview) -> object:
        asked[0] += 1
        return [(4_000_000).to_bytes(4, "big"), MemorySlice(file, 0, 4_000_000)]

    async with Stage(dispatch, idle_ms_max=600_000) as stage:
        peer = await stage.peer()
        peer.transport.pause_reading()
        peer.send(*(b"fetch" for _ in range(20)))
        await asyncio.sleep(60)
        far = stage.far_end(peer)
        assert asked[0] <= 2
        assert far.unsent_bytes_seen_max <= (RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX + SLICE_PART_BYTES + 10)
        read_bytes_max = asked[0] * (RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX + 2 * SLICE_PART_BYTES)
        assert file.reads * SLICE_PART_BYTES <= read_bytes_max < 4_000_000
        peer.transport.resume_reading()
        assert len(await peer.frames(20)) == 20
        assert asked[0] == 20


async def test_a_slow_reader_of_small_answers_is_not_served_without_end() -> None:
    asked = [0]

    def dispatch(connection: Connection, frame: memoryview) -> bytes:
        asked[0] += 1
        return framed(bytes(10_000))

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.transport.pause_reading()
        peer.send(*(b"x" * 100 for _ in range(1_000)))
        await asyncio.sleep(60)
        limit = 2 * RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX + stage.network.socket_bytes
        assert asked[0] * 10_004 <= limit < 500 * 10_004
        peer.transport.resume_reading()
        assert len(await peer.frames(1_000)) == 1_000


async def test_an_idle_peer_that_never_reads_is_closed() -> None:
    async with Stage(lambda connection, frame: framed(bytes(500_000)), idle_ms_max=60_000) as stage:
        peer = await stage.peer()
        peer.transport.pause_reading()
        peer.send(*(b"x" for _ in range(20)))
        await asyncio.sleep(100)
        assert not stage.listener.connections
        assert stage.admission.connections == 0


async def test_quiet_connections_end_busy_and_waiting_ones_live() -> None:
    async def wait_long() -> bytes:
        await asyncio.sleep(300)
        return framed(b"at last")

    def dispatch(connection: Connection, frame: memoryview) -> object:
        return wait_long() if bytes(frame) == b"wait" else framed(b"pong")

    async with Stage(dispatch, idle_ms_max=60_000) as stage:
        quiet, busy, waiting = [await stage.peer() for _ in range(3)]
        waiting.send(b"wait")
        for _ in range(10):
            busy.send(b"ping")
            await asyncio.sleep(30)
        assert quiet.is_lost.is_set()
        assert not busy.is_lost.is_set()
        assert await waiting.frames(1) == [b"at last"]
        assert stage.listener.closed_idle == 1
