"""How many connections are let in, and how a listener ends."""

from __future__ import annotations

import asyncio

from odradek.network.connection import Connection
from tests.network.support import Stage, framed


def echo(connection: Connection, frame: memoryview) -> bytes:
    return framed(bytes(frame))


async def test_beyond_max_connections_they_wait_until_one_ends() -> None:
    async with Stage(echo, connections_max=2) as stage:
        first, _ = await stage.peer(), await stage.peer()
        third = asyncio.create_task(stage.peer())
        await asyncio.sleep(60)
        assert not third.done()
        first.transport.close()
        peer = await third
        peer.send(b"x")
        assert await peer.frames(1) == [b"x"]
        assert stage.admission.connections == 2


async def test_an_address_has_its_share() -> None:
    async with Stage(echo, connections_per_ip_max=2) as stage:
        stage.admission.per_ip_overrides["greedy"] = 0
        kept = [await stage.peer("a"), await stage.peer("a"), await stage.peer("b")]
        for host in ("a", "greedy"):
            try:
                await stage.peer(host)
                raise AssertionError("a connection too many was let in")
            except ConnectionResetError:
                continue
        assert stage.admission.refused == 2
        kept[0].transport.close()
        await asyncio.sleep(1)
        await stage.peer("a")


async def test_requests_under_way_are_answered_before_a_listener_ends() -> None:
    async def slow() -> bytes:
        await asyncio.sleep(2)
        return framed(b"done")

    stage = Stage(lambda connection, frame: slow())
    await stage.listener.start()
    peer = await stage.peer()
    idle = await stage.peer()
    peer.send(b"x")
    await asyncio.sleep(1)
    await stage.listener.close(grace_seconds=10)
    assert await peer.frames(1) == [b"done"]
    await peer.is_lost.wait()
    await idle.is_lost.wait()
    assert stage.admission.connections == 0


async def test_a_listener_does_not_wait_longer_than_its_grace() -> None:
    stage = Stage(lambda connection, frame: asyncio.get_running_loop().create_future())
    await stage.listener.start()
    peer = await stage.peer()
    peer.send(b"x")
    await asyncio.sleep(1)
    started = asyncio.get_running_loop().time()
    await stage.listener.close(grace_seconds=3)
    assert 3 <= asyncio.get_running_loop().time() - started < 4
    await peer.is_lost.wait()


async def test_a_handler_may_close_its_connection() -> None:
    def dispatch(connection: Connection, frame: memoryview) -> bytes:
        connection.close()
        return framed(b"bye")

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.send(b"x", b"y")
        await peer.is_lost.wait()
        assert await peer.frames(2) == [b"bye"]


async def test_a_raised_bound_admits_waiting_connections_at_once() -> None:
    async with Stage(echo, connections_max=1) as stage:
        kept = await stage.peer()
        second = asyncio.create_task(stage.peer())
        await asyncio.sleep(60)
        assert not second.done()
        stage.admission.change_bounds(
            connections_max=2, connections_per_ip_max=100, per_ip_overrides={"greedy": 0}
        )
        peer = await second
        peer.send(b"x")
        assert await peer.frames(1) == [b"x"]
        stage.admission.change_bounds(connections_max=1, connections_per_ip_max=100, per_ip_overrides={})
        kept.send(b"y")
        assert await kept.frames(1) == [b"y"], "those that are in stay in"
