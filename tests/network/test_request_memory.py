"""Requests of all connections share a bound on memory: peers that stall cannot keep others from being served."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.foundation.limits import (
    REQUEST_BYTES_TOTAL_MAX,
    REQUEST_SECONDS_WHILE_SHORT,
    RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX,
)
from odradek.network.connection import Connection
from odradek.network.pending import Pending
from odradek.network.request_memory import RequestMemory
from tests.network.support import Peer, Stage, framed
from tests.support.polling import eventually

KIB = 1024
BOUND = 8 * 1024 * KIB
LARGEST = 2 * 1024 * KIB


def size_of(connection: Connection, frame: memoryview) -> bytes:
    return framed(b"%d" % len(frame))


def stage(
    dispatch: Callable[[Connection, memoryview], Any] = size_of, **settings: Any
) -> tuple[Stage, RequestMemory]:
    memory = RequestMemory(BOUND, request_bytes_max=LARGEST)
    return Stage(dispatch, frame_bytes_max=LARGEST, memory=memory, idle_ms_max=-1, **settings), memory


def begin(peer: Peer, *, sent: int, announced: int = LARGEST) -> None:
    peer.transport.write(struct.pack(">i", announced) + bytes(sent))


def test_without_a_bound_ours_holds_the_largest_request() -> None:
    assert RequestMemory(-1, request_bytes_max=LARGEST).bytes_max == REQUEST_BYTES_TOTAL_MAX
    assert RequestMemory(-1, request_bytes_max=2**31 - 1).bytes_max == 2**31 - 1
    assert RequestMemory(BOUND, request_bytes_max=LARGEST).bytes_max == BOUND


async def test_stalled_peers_are_bounded_and_others_are_served() -> None:
    on, memory = stage()
    async with on:
        attackers = [await on.peer("attacker") for _ in range(20)]
        for attacker in attackers:
            begin(attacker, sent=LARGEST - 1)
        await asyncio.sleep(1)
        # The one that is read out of turn adds its request, and each may have gone beyond its share by one read.
        assert memory.bytes_held <= BOUND + 2 * LARGEST
        assert memory.is_short()
        honest = await on.peer("honest")
        began = asyncio.get_running_loop().time()
        for size in (100, 15 * KIB, 90 * KIB):
            honest.send(bytes(size))
        assert await honest.frames(3) == [b"100", b"15360", b"92160"]
        assert asyncio.get_running_loop().time() - began < REQUEST_SECONDS_WHILE_SHORT / 2


async def test_stalled_requests_end_only_while_memory_is_short(caplog: pytest.LogCaptureFixture) -> None:
    on, memory = stage()
    async with on:
        slow = await on.peer()
        begin(slow, sent=200 * KIB)
        await asyncio.sleep(60)
        assert not slow.is_lost.is_set()
        attackers = [await on.peer("attacker") for _ in range(20)]
        for attacker in attackers:
            begin(attacker, sent=LARGEST - 1)
        await asyncio.sleep(REQUEST_SECONDS_WHILE_SHORT + 10)
        assert not memory.is_short()
        large = await on.peer("honest")
        large.send(bytes(LARGEST))
        assert await large.frames(1) == [b"%d" % LARGEST]
    assert "queued.max.request.bytes" in caplog.text


async def test_all_requests_that_arrive_are_answered_although_memory_is_short() -> None:
    """No two connections wait for each other: each has half a request when memory is short."""
    on, memory = stage()
    async with on:
        peers = [await on.peer(f"host-{number}") for number in range(12)]
        for peer in peers:
            begin(peer, sent=LARGEST // 2)
        await asyncio.sleep(0.1)
        assert memory.is_short()
        for peer in peers:
            peer.transport.write(bytes(LARGEST - LARGEST // 2))
        for peer in peers:
            assert await peer.frames(1) == [b"%d" % LARGEST]
        assert memory.bytes_held == 0


async def test_requests_count_until_their_answer_is_there() -> None:
    pending: list[Pending[bytes | None]] = []

    def later(connection: Connection, frame: memoryview) -> Pending[bytes | None]:
        pending.append(Pending())
        return pending[-1]

    on, memory = stage(later)
    async with on:
        peer = await on.peer()
        for _ in range(8):
            peer.send(bytes(LARGEST // 2))
        await asyncio.sleep(1)
        # Half of the bound; the last one is not complete.
        assert len(pending) == 3
        assert BOUND // 2 <= memory.bytes_held <= BOUND // 2 + LARGEST
        while len(pending) < 8:
            before = len(pending)
            for one in pending:
                one.settle(framed(b"ok"))
            await eventually("more are pending", lambda before=before: len(pending) > before)  # type: ignore[misc]
        for one in pending:
            one.settle(framed(b"ok"))
        assert await peer.frames(8) == [b"ok"] * 8
        assert memory.bytes_held == 0


async def test_a_lost_connection_gives_its_memory_back() -> None:
    on, memory = stage()
    async with on:
        peer = await on.peer()
        begin(peer, sent=LARGEST - 1)
        await asyncio.sleep(0.1)
        assert memory.bytes_held >= LARGEST - 1
        peer.transport.abort()
        await asyncio.sleep(0.1)
        assert memory.bytes_held == 0


async def test_answers_that_wait_for_an_earlier_one_are_bounded_in_bytes() -> None:
    first: Pending[bytes | None] = Pending()
    dispatched = 0
    answer = framed(bytes(RESPONSE_BYTES_UNSENT_PER_CONNECTION_MAX // 4))

    def answer_all_but_first(connection: Connection, frame: memoryview) -> Any:
        nonlocal dispatched
        dispatched += 1
        return first if dispatched == 1 else answer

    on, _ = stage(answer_all_but_first)
    async with on:
        peer = await on.peer()
        peer.send(*[b"ask"] * 100)
        await asyncio.sleep(1)
        assert dispatched == 1 + 4
        first.settle(framed(b"first"))
        assert len(await peer.frames(100)) == 100
        assert dispatched == 100
