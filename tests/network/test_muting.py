"""A muted connection is answered at once and read again later; its frames wait, and the sweep leaves it open."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from odradek.network.connection import Connection
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.network import SystemNetwork
from tests.network.support import Peer, Stage, framed
from tests.support.polling import eventually

MUTE_MS = 5_000


class Muting:
    """Answers at once and mutes after the frame `mute`; `quiet` mutes without an answer. It notes when each came."""

    def __init__(self, *, due_ms: int = MUTE_MS) -> None:
        self.due_ms = due_ms
        self.came: list[tuple[bytes, float]] = []

    def __call__(self, connection: Connection, frame: memoryview) -> Any:
        body = bytes(frame)
        self.came.append((body, asyncio.get_running_loop().time()))
        if body in (b"mute", b"quiet"):
            connection.mute(MUTE_MS, lambda: self.due_ms)
        return None if body == b"quiet" else framed(body)

    def times(self) -> list[float]:
        return [round(time - self.came[0][1], 1) for _, time in self.came]


@pytest.mark.parametrize("first", [b"mute", b"quiet"])
async def test_the_answer_leaves_at_once_and_frames_already_read_wait(first: bytes) -> None:
    muting = Muting()
    async with Stage(muting) as stage:
        peer = await stage.peer()
        peer.send(first, b"1", b"2", b"3")
        began = asyncio.get_running_loop().time()
        if first == b"mute":
            assert await peer.frames(1) == [b"mute"]
            assert asyncio.get_running_loop().time() - began < 1
        await asyncio.sleep(1)
        assert [body for body, _ in muting.came] == [first]
        peer.send(b"4")
        count = 5 if first == b"mute" else 4
        assert (await peer.frames(count))[-4:] == [b"1", b"2", b"3", b"4"]
    assert muting.times() == [0.0, 5.0, 5.0, 5.0, 5.0]


async def test_the_later_of_two_ends_is_kept() -> None:
    muting = Muting()
    async with Stage(muting) as stage:
        peer = await stage.peer()
        peer.send(b"mute")
        await peer.frames(1)
        (connection,) = stage.listener.connections
        connection.mute(1_000, lambda: 1_000)
        connection.mute(7_000, lambda: 7_000)
        connection.mute(2_000, lambda: 2_000)
        peer.send(b"1")
        await peer.frames(2)
    assert muting.times() == [0.0, 7.0]


async def test_a_mute_ends_early_when_its_reason_is_gone() -> None:
    muting = Muting()
    async with Stage(muting) as stage:
        peer = await stage.peer()
        peer.send(b"mute", b"1")
        await peer.frames(1)
        muting.due_ms = 0
        await peer.frames(2)
    assert muting.times() == [0.0, 1.0]


async def test_a_muted_connection_is_not_idle_and_others_go_on() -> None:
    muting = Muting()
    async with Stage(muting, idle_ms_max=1_000) as stage:
        peer, other = await stage.peer(), await stage.peer()
        peer.send(b"mute", b"1")
        await peer.frames(1)
        other.send(b"x")
        assert await other.frames(1) == [b"x"]
        assert await peer.frames(2) == [b"mute", b"1"]
        # Without a request it is idle again.
        await peer.is_lost.wait()
        assert stage.listener.closed_idle == 2


async def test_a_stop_does_not_wait_for_a_mute() -> None:
    async with Stage(Muting()) as stage:
        peer = await stage.peer()
        peer.send(b"mute", b"1")
        await peer.frames(1)
        began = asyncio.get_running_loop().time()
        await stage.listener.close(grace_seconds=60)
        assert asyncio.get_running_loop().time() - began < 1
        assert peer.is_lost.is_set()


async def test_a_lost_peer_ends_its_mute() -> None:
    async with Stage(Muting()) as stage:
        peer = await stage.peer()
        peer.send(b"mute", b"1")
        await peer.frames(1)
        stage.far_end(peer).abort()
        await asyncio.sleep(20)
        assert not stage.listener.connections
        assert stage.admission.connections == 0


def test_peers_that_close_while_muted_are_found_unless_they_left_requests(monkeypatch: Any) -> None:
    """On sockets: the one that left nothing goes within a step, the request of the other is handled first."""
    monkeypatch.setattr("odradek.network.ending.MUTE_STEP_SECONDS", 0.05)

    async def story() -> None:
        handled = asyncio.Event()
        muted = asyncio.Event()

        def dispatch(connection: Connection, frame: memoryview) -> bytes:
            body = bytes(frame)
            if body == b"last":
                handled.set()
            else:
                connection.mute(int(body), lambda: 60_000)
                muted.set()
            return framed(body)

        listener = Listener(
            name="CLIENTS",
            host="127.0.0.1",
            port=0,
            network=SystemNetwork(),
            dispatch=dispatch,
            admission=Admission(connections_max=9, connections_per_ip_max=9),
        )
        await listener.start()
        loop = asyncio.get_running_loop()
        _, peer = await loop.create_connection(Peer, "127.0.0.1", listener.port)
        peer.send(b"60000")
        await peer.frames(1)
        peer.transport.close()
        await eventually("the connection is gone", lambda: not listener.connections)
        muted.clear()
        _, peer = await loop.create_connection(Peer, "127.0.0.1", listener.port)
        peer.send(b"400")
        await peer.frames(1)
        peer.send(b"last")
        peer.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
        await handled.wait()
        await listener.close(grace_seconds=0)

    asyncio.run(asyncio.wait_for(story(), 60))
