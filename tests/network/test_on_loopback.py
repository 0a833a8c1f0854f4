"""The real network, on asyncio's loop and on uvloop: sockets, sendfile, full tables, many idle connections."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.event_loop import new_event_loop
from odradek.network import network
from odradek.network.connection import Connection
from odradek.network.flow_control import Admission
from odradek.network.listener import Listener
from odradek.network.network import SystemNetwork
from odradek.network.sendfile import KERNEL_SENDS
from odradek.storage.files import FileSlice, SystemDisk
from tests.network.support import Peer, framed, started
from tests.support.loops import on_each_loop_and_poll
from tests.support.polling import eventually


def echo(connection: Connection, frame: memoryview) -> Any:
    return framed(bytes(frame))


def listen(dispatch: Callable[[Connection, memoryview], Any] = echo, **settings: Any) -> Listener:
    admission = Admission(connections_max=20_000, connections_per_ip_max=20_000)
    defaults: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "name": "CLIENTS", "admission": admission}
    return Listener(**(defaults | {"network": SystemNetwork(), "dispatch": dispatch} | settings))


async def connect(listener: Listener) -> Peer:
    host, port = listener.addresses[0]
    loop = asyncio.get_running_loop()
    _, peer = await loop.create_connection(Peer, host, port)
    return peer


@on_each_loop_and_poll
async def test_frames_of_all_sizes_are_echoed() -> None:
    listener = await started(listen())
    peer = await connect(listener)
    bodies = [os.urandom(size) for size in (0, 1, 100, 65_535, 65_537, 300_000, 5_000_000)] * 2
    peer.send(*bodies)
    assert await peer.frames(len(bodies)) == bodies


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", ""])
@on_each_loop_and_poll
async def test_addresses(host: str) -> None:
    if host == "::1" and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    listener = listen(host=host)
    try:
        await listener.start()
    except OSError as failure:
        if host == "::1" and failure.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            pytest.skip("this machine has no IPv6 address")
        raise
    assert len({port for _, port in listener.addresses}) == 1
    loop = asyncio.get_running_loop()
    for bound, port in listener.addresses:
        target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bound, bound)
        _, peer = await loop.create_connection(Peer, target, port)
        peer.send(b"x")
        assert await peer.frames(1) == [b"x"]
        peer.transport.close()
    await listener.close()


@on_each_loop_and_poll
async def test_a_name_without_an_address_says_so() -> None:
    with pytest.raises(OSError, match=r"cannot listen on no such host:9092: .*; choose an address of this"):
        await listen(host="no such host", port=9092).start()


@on_each_loop_and_poll
async def test_an_address_in_use_says_so() -> None:
    first = await started(listen())
    with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{first.port}: .* in use; .* or stop"):
        await listen(port=first.port).start()


@on_each_loop_and_poll
async def test_an_address_of_another_machine_says_so() -> None:
    # An address for documents (RFC 5737), which no machine has.
    with pytest.raises(
        OSError, match=r"192\.0\.2\.1:9092: .*; choose an address of this machine\. Clients may"
    ):
        await listen(host="192.0.2.1", port=9092).start()


@pytest.mark.parametrize("sendfile", [False, True])
@on_each_loop_and_poll
async def test_file_slices_arrive_whole_at_a_reader_of_any_pace(
    sendfile: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    content = chance.randbytes(8_000_000)
    (tmp_path / "log").write_bytes(content)
    file = SystemDisk().open(str(tmp_path / "log"))
    calls = [0]

    class CountingOs:
        @staticmethod
        def sendfile(*arguments: int) -> int:
            calls[0] += 1
            return os.sendfile(*arguments)

    monkeypatch.setattr("odradek.network.sendfile.os", CountingOs)
    ranges = [(chance.randint(0, 1_000_000), size) for size in (10, 20_000, 600_000, 3_000_000, 7_000_000)]

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        position, size = ranges[frame[0]]
        return [(size + 2).to_bytes(4, "big") + b"<", FileSlice(file, position, size), b">"]

    listener = await started(listen(dispatch, sendfile=sendfile))
    peer = await connect(listener)
    peer.transport.pause_reading()
    asked = [0, 1, 2, 3, 4, 3, 2, 1, 0]
    peer.send(*(bytes([number]) for number in asked))
    await asyncio.sleep(0)
    peer.transport.resume_reading()
    frames = await peer.frames(len(asked))
    for number, frame in zip(asked, frames, strict=True):
        position, size = ranges[number]
        assert frame == b"<" + content[position : position + size] + b">"
    await listener.close()
    assert (calls[0] > 0) == (sendfile and KERNEL_SENDS)


@pytest.fixture
def full_table() -> Iterator[Callable[[], Callable[[], None]]]:
    """A function that takes all descriptors, and gives one that lets them go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []

    def let_go() -> None:
        while taken:
            os.close(taken.pop())

    def take_all() -> Callable[[], None]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        try:
            while True:
                taken.append(os.dup(0))
        except OSError as failure:
            assert failure.errno == errno.EMFILE
        return let_go

    yield take_all
    let_go()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_each_loop_and_poll
async def test_a_full_table_of_descriptors_is_survived(
    full_table: Callable[[], Callable[[], None]], caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    listener = await started(listen())
    peer = await connect(listener)
    waiting = [socket.socket() for _ in range(5)]
    let_go = full_table()
    for client in waiting:
        client.setblocking(False)
        await loop.sock_connect(client, listener.addresses[0])
    await eventually("the log names the open files", lambda: caplog.text, lambda seen: "open files" in seen)
    peer.send(b"still served")
    assert await peer.frames(1) == [b"still served"]
    let_go()
    for client in waiting:
        await loop.sock_sendall(client, framed(b"x"))
        assert await loop.sock_recv(client, 5) == framed(b"x")
        client.close()


@pytest.mark.thorough
def test_a_thousand_idle_connections_cost_little() -> None:
    async def story() -> None:
        listener = listen()
        await listener.start()
        sockets = []
        before = resident_bytes()
        for _ in range(1_000):
            client = socket.socket()
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, listener.addresses[0])
            client.send(framed(b"hello"))
            sockets.append(client)
        for client in sockets:
            assert await asyncio.get_running_loop().sock_recv(client, 9) == framed(b"hello")
        assert len(listener.connections) == 1_000
        assert (resident_bytes() - before) / 1_000 < 16 * 1024
        for client in sockets:
            client.close()
        await listener.close()

    needed = 2_100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed + 200:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed + 200), hard))
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(story())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@on_each_loop_and_poll
async def test_early_connections_are_served_once_the_server_is_ready() -> None:
    listener = listen()
    await listener.start(accepts=False)
    peer = await connect(listener)
    peer.send(b"early")
    answer = asyncio.ensure_future(peer.frames(1))
    await asyncio.wait([answer], timeout=0.05)
    assert (answer.done(), listener.accepted) == (False, 0)
    listener.accept()
    assert await answer == [b"early"]
    await listener.close()


@on_each_loop_and_poll
async def test_early_connections_wait_or_are_held_and_closed() -> None:
    listener = listen()
    early: list[tuple[float, bool] | None] = [None, (0.3, False), (0.3, True)]
    listener.arrive = lambda ip: early.pop(0) if early else None
    await listener.start()
    loop = asyncio.get_running_loop()
    began = loop.time()
    peers = [await connect(listener) for _ in range(4)]
    for peer in peers:
        peer.send(b"x")
    served = []
    for number in (0, 1, 3):
        assert await peers[number].frames(1) == [b"x"]
        served.append(loop.time() - began)
    # The second one waits, and the fourth behind it.
    assert served[0] < 0.3 <= served[1] <= served[2]
    await peers[2].is_lost.wait()
    assert loop.time() - began >= 0.6
    assert listener.accepted == 3
    await listener.close()


@on_each_loop_and_poll
async def test_a_listener_ends_while_connections_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CONNECTIONS_HELD_MAX", 2)
    listener = listen()
    early = [(60.0, True), (60.0, True), (60.0, True), (60.0, False)]
    listener.arrive = lambda ip: early.pop(0)
    await listener.start()
    peers = [await connect(listener) for _ in range(4)]
    # Only so many are held: the oldest is closed at once.
    await peers[0].is_lost.wait()
    assert not any(peer.is_lost.is_set() for peer in peers[1:])
    await eventually("all early connections have arrived", lambda: not early)
    await listener.close()
    for peer in peers:
        await peer.is_lost.wait()
    assert listener.accepted == 0
