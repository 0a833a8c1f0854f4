"""A connection answers in the order of its requests, whenever the answers are ready."""

from __future__ import annotations

import asyncio
import random

import pytest

from odradek.foundation.limits import REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
from odradek.network.connection import Connection
from tests.network.support import MemoryFile, MemorySlice, Stage, framed
from tests.support.loop import run


@pytest.mark.parametrize("seed", range(8))
def test_now_later_never_and_from_files(seed: int) -> None:
    """Every kind of answer mixed at random; the peer sees all that are due, in order and unbroken."""
    chance = random.Random(seed)
    file = MemoryFile(chance.randbytes(2_000_000))

    async def later(reply: object) -> object:
        await asyncio.sleep(chance.uniform(0, 2))
        return reply

    def dispatch(connection: Connection, frame: memoryview) -> object:
        body = bytes(frame)
        kind = body[0] % 7
        if kind == 0:
            return None
        if kind == 1:
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(chance.uniform(0, 1), future.set_result, framed(body))
            return future
        if kind == 2:
            return later(framed(body))
        if kind == 3:
            return later(None)
        if kind == 4:
            size = chance.choice([0, 1, 5_000, 700_000, 1_500_000])
            position = chance.randint(0, 100_000)
            file.is_cached = chance.random() < 0.5
            expected[body] = body + file.content[position : position + size] + b"!"
            head = (len(body) + size + 1).to_bytes(4, "big") + body
            return [head, MemorySlice(file, position, size), b"!"]
        return framed(body)

    expected: dict[bytes, bytes] = {}
    bodies = [chance.randbytes(1) + number.to_bytes(4, "big") + chance.randbytes(20) for number in range(150)]

    async def story() -> None:
        async with Stage(dispatch, seed=seed) as stage:
            peer = await stage.peer()
            for start in range(0, len(bodies), 25):
                peer.send(*bodies[start : start + 25])
                await asyncio.sleep(chance.uniform(0, 0.5))
            due = [body for body in bodies if body[0] % 7 not in (0, 3)]
            frames = await peer.frames(len(due))
            assert frames == [expected.get(body, body) for body in due]
            (connection,) = stage.listener.connections
            assert connection.requests == len(bodies)
            assert connection.bytes_in == sum(len(body) + 4 for body in bodies)
            assert connection.bytes_out == peer.received_bytes
            assert stage.listener.totals() == (connection.requests, connection.bytes_in, connection.bytes_out)

    run(story())


async def test_answers_of_one_read_are_one_write() -> None:
    async with Stage(lambda connection, frame: framed(bytes(frame))) as stage:
        peer = await stage.peer()
        stage.network.piece_bytes_max = 1
        far = stage.far_end(peer)
        writes: list[bytes] = []
        write = far.write

        def noted_write(data: bytes | bytearray | memoryview) -> None:
            writes.append(bytes(data))
            write(data)

        far.write = noted_write  # type: ignore[method-assign]
        far.receive(b"".join(framed(bytes([number])) for number in range(100)))
        await asyncio.sleep(0)  # the connection's turn
        assert writes == [b"".join(framed(bytes([number])) for number in range(100))]


async def test_requests_in_flight_are_bounded_and_the_rest_waits() -> None:
    waiting: list[asyncio.Future[bytes]] = []

    def dispatch(connection: Connection, frame: memoryview) -> asyncio.Future[bytes]:
        future = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return future

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        count = 3 * REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
        peer.send(*(number.to_bytes(2, "big") for number in range(count)))
        await asyncio.sleep(5)
        assert len(waiting) == REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
        assert not stage.far_end(peer).is_reading()
        waiting[1].set_result(framed(b"second"))
        await asyncio.sleep(5)
        assert len(waiting) == REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX
        assert peer.received_bytes == 0
        waiting[0].set_result(framed(b"first"))
        assert await peer.frames(2) == [b"first", b"second"]
        await asyncio.sleep(5)
        assert len(waiting) == REQUESTS_IN_FLIGHT_PER_CONNECTION_MAX + 2
        position = 2
        while position < len(waiting):
            waiting[position].set_result(framed(position.to_bytes(2, "big")))
            position += 1
            await asyncio.sleep(0.01)
        assert position == count
        frames = await peer.frames(count)
        assert frames[2:] == [number.to_bytes(2, "big") for number in range(2, count)]
        assert stage.far_end(peer).is_reading()


async def test_one_connection_does_not_keep_the_loop_from_the_others() -> None:
    order: list[bytes] = []

    def dispatch(connection: Connection, frame: memoryview) -> None:
        order.append(bytes(frame))

    async with Stage(dispatch, socket_bytes=1_000_000) as stage:
        busy, other = await stage.peer(), await stage.peer()
        stage.far_end(busy).receive(framed(b"b") * 1000)
        stage.far_end(other).receive(framed(b"o"))
        await asyncio.sleep(1)
        assert len(order) == 1001
        assert order.index(b"o") < 200


async def test_a_handler_that_fails_costs_its_connection_only(caplog: pytest.LogCaptureFixture) -> None:
    def dispatch(connection: Connection, frame: memoryview) -> object:
        if bytes(frame) == b"now":
            raise ValueError("a fault of the handler")
        if bytes(frame) == b"later":
            return fail()
        return framed(bytes(frame))

    async def fail() -> bytes:
        await asyncio.sleep(0.1)
        raise ValueError("a fault of the handler")

    async with Stage(dispatch) as stage:
        steady = await stage.peer()
        for last in (b"now", b"later"):
            peer = await stage.peer()
            peer.send(b"a", b"b", last, b"c")
            await peer.is_lost.wait()
            assert await peer.frames(9) == [b"a", b"b"]
        steady.send(b"x")
        assert await steady.frames(1) == [b"x"]
        assert len(stage.listener.connections) == 1
        assert stage.admission.connections == 1
    assert "a fault of the handler" in caplog.text


async def test_what_waits_when_a_connection_is_lost() -> None:
    """A waiting future is cancelled; a coroutine, perhaps half-way through a change, runs to its end."""
    futures: list[asyncio.Future[bytes]] = []
    finished: list[str] = []

    async def change() -> bytes:
        await asyncio.sleep(10)
        finished.append("change")
        return b""

    def dispatch(connection: Connection, frame: memoryview) -> object:
        if bytes(frame) == b"change":
            return change()
        futures.append(asyncio.get_running_loop().create_future())
        return futures[-1]

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.send(b"wait", b"change")
        await asyncio.sleep(1)
        peer.transport.abort()
        await asyncio.sleep(1)
        assert futures[0].cancelled()
        assert not stage.listener.connections
        await asyncio.sleep(20)
        assert finished == ["change"]


def test_a_file_that_became_shorter_ends_the_connection() -> None:
    for is_cached in (True, False):
        file = MemoryFile(b"short", is_cached=is_cached)

        def dispatch(connection: Connection, frame: memoryview, file: MemoryFile = file) -> object:
            return [b"\0\0\0\x0a", MemorySlice(file, 0, 600_000)]

        async def story(dispatch: object = dispatch) -> None:
            async with Stage(dispatch) as stage:  # type: ignore[arg-type]
                peer = await stage.peer()
                peer.send(b"x")
                await peer.is_lost.wait()

        run(story())


async def test_a_request_that_is_held_is_not_overtaken() -> None:
    begun: list[bytes] = []
    may_end = asyncio.Event()

    async def waits(connection: Connection, body: bytes) -> bytes:
        await may_end.wait()
        connection.release()
        await asyncio.sleep(1)
        return framed(body)

    def dispatch(connection: Connection, frame: memoryview) -> object:
        body = bytes(frame)
        begun.append(body)
        if body != b"held":
            return framed(body)
        connection.hold()
        return waits(connection, body)

    async with Stage(dispatch) as stage:
        peer, other = await stage.peer(), await stage.peer()
        peer.send(b"first", b"held", b"second")
        await asyncio.sleep(1)
        peer.send(b"third")
        other.send(b"elsewhere")
        await asyncio.sleep(1)
        assert begun == [b"first", b"held", b"elsewhere"]
        may_end.set()
        await asyncio.sleep(0.5)
        assert begun == [b"first", b"held", b"elsewhere", b"second", b"third"]
        assert await peer.frames(4) == [b"first", b"held", b"second", b"third"]


async def test_a_held_connection_may_be_lost() -> None:
    held: list[Connection] = []

    def dispatch(connection: Connection, frame: memoryview) -> object:
        held.append(connection)
        connection.hold()
        return asyncio.get_running_loop().create_future()

    async with Stage(dispatch) as stage:
        peer = await stage.peer()
        peer.send(b"one", b"two")
        await asyncio.sleep(1)
        peer.transport.abort()
        await asyncio.sleep(1)
        (connection,) = held
        connection.release()
        await asyncio.sleep(1)
        assert len(held) == 1 and not stage.listener.connections
