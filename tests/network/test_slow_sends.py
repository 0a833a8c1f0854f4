"""A connection knows since when requests wait for their turn, and reports answers that take long to be sent."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from odradek.network import inbound
from odradek.network.connection import Connection
from tests.network.support import Stage, framed

LARGE = bytes(3_000_000)


class Watch:
    """What a broker's counters do."""

    def __init__(self, slow_seconds: float = 1.0) -> None:
        self.slow_seconds = slow_seconds
        self.noted: list[tuple[bytes, float]] = []

    def note_slow_send(self, connection: Connection, head: bytes, seconds: float) -> None:
        self.noted.append((head, round(seconds, 1)))


@pytest.fixture(autouse=True)
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbound, "monotonic", lambda: asyncio.get_running_loop().time())


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("slow_seconds", [1.0, math.inf])
async def test_an_answer_that_its_client_does_not_read_is_noted(is_later: bool, slow_seconds: float) -> None:
    async def later() -> Any:
        await asyncio.sleep(0.1)
        return [framed(LARGE)]

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        return later() if is_later else [framed(LARGE)[:1000], framed(LARGE)[1000:], framed(b"end")]

    watch = Watch(slow_seconds)
    async with Stage(dispatch, sends=watch) as stage:
        peer = await stage.peer()
        peer.transport.pause_reading()
        peer.send(b"\x00\x03\x00\x09\x00\x00\x00\x07and more")
        peer.send(b"\x00\x03\x00\x09\x00\x00\x00\x08and more")
        await asyncio.sleep(5)
        peer.transport.resume_reading()
        await peer.frames(2)
        await asyncio.sleep(1)
    if slow_seconds > 1:
        assert watch.noted == []
    else:
        ((head, seconds),) = watch.noted
        assert head == b"\x00\x03\x00\x09\x00\x00\x00\x07"
        assert 4.5 < seconds < 6


async def test_an_answer_that_is_sent_soon_is_not_noted() -> None:
    watch = Watch()
    async with Stage(lambda connection, frame: [framed(LARGE)], sends=watch) as stage:
        peer = await stage.peer()
        peer.send(b"\x00\x03\x00\x09\x00\x00\x00\x07")
        await peer.frames(1)
        await asyncio.sleep(5)
    assert watch.noted == []


async def test_requests_that_wait_for_a_mute_count_from_its_end() -> None:
    seen: list[tuple[float, float]] = []

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        now = asyncio.get_running_loop().time()
        seen.append((now, connection.waiting_since))
        if bytes(frame) == b"mute":
            connection.mute(5000, lambda: 5000)
        return framed(bytes(frame))

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.send(b"mute", b"next")
        await peer.frames(2)
        peer.send(b"last")
        await peer.frames(3)
    first, second, last = seen
    assert first[1] == last[1] == 0.0
    assert second[0] - first[0] > 4.9
    assert 0 <= second[0] - second[1] < 0.1
