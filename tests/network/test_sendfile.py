"""File slices on real sockets: which parts the kernel sends, which a thread reads first, and what waits for it."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from odradek.foundation.limits import SENDFILE_BYTES_MAX, SENT_BYTES_PER_TURN_MAX, SLICE_PART_BYTES
from odradek.network.connection import Connection
from odradek.network.sendfile import KERNEL_SENDS, PartSource, Unsent
from odradek.storage.files import FileSlice, SystemDisk, SystemFile
from tests.network.support import started
from tests.network.test_on_loopback import connect, listen
from tests.support.loops import on_each_loop

CONTENT_BYTES = 4_000_000
by_kernel = pytest.mark.skipif(
    not KERNEL_SENDS, reason="the kernel sends no files here: slices are read and written"
)


class WarmUpTo:
    """A file of which the page cache has the first `warm` bytes; notes what a thread read."""

    def __init__(self, file: SystemFile, warm: int) -> None:
        self.file = file
        self.warm = warm
        self.read_cold: list[tuple[int, int]] = []

    def fileno(self) -> int:
        return self.file.fileno()

    def pread(self, position: int, size: int) -> bytes:
        if position + size > self.warm:
            self.read_cold.append((position, size))
        return self.file.pread(position, size)

    def pread_cached(self, position: int, size: int) -> bytes | None:
        return self.file.pread(position, size) if position + size <= self.warm else None


class Calls:
    """Takes the place of the module `os`: notes the calls of sendfile, and lets a test shorten what they send."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, int]] = []

    def sendfile(self, descriptor: int, source: int, position: int, size: int) -> int:
        count = os.sendfile(descriptor, source, position, size)
        self.sent.append((position, size, count))
        return count


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    noted = Calls()
    monkeypatch.setattr("odradek.network.sendfile.os", noted)
    return noted


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    whole = random.Random(5).randbytes(CONTENT_BYTES)
    (tmp_path / "log").write_bytes(whole)
    return whole


@by_kernel
@pytest.mark.parametrize("warm", [0, 1_000_000, 1_500_000, CONTENT_BYTES])
@on_each_loop
async def test_only_what_is_cached_is_sent_by_the_kernel(
    warm: int, calls: Calls, content: bytes, tmp_path: Path
) -> None:
    file: Any = WarmUpTo(SystemDisk().open(str(tmp_path / "log")), warm)
    position = 1_000_000

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        size = CONTENT_BYTES - position
        return [size.to_bytes(4, "big"), FileSlice(file, position, size)]

    listener = await started(listen(dispatch))
    peer = await connect(listener)
    peer.send(b"x")
    assert await peer.frames(1) == [content[position:]]
    await listener.close()
    assert bool(calls.sent) is (warm > position)
    assert all(asked <= SENDFILE_BYTES_MAX for _, asked, _ in calls.sent)
    # Up to the byte that was asked for and not there, none of what follows.
    assert all(at + asked <= warm for at, asked, _ in calls.sent)
    assert bool(file.read_cold) is (warm < CONTENT_BYTES)
    assert all(size <= SLICE_PART_BYTES for _, size in file.read_cold)


@pytest.mark.parametrize("sendfile", [False, True])
@on_each_loop
async def test_a_file_truncated_below_a_slice_ends_the_connection(
    sendfile: bool, content: bytes, tmp_path: Path
) -> None:
    file = SystemDisk().open(str(tmp_path / "log"))

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        file.truncate(100_000)
        return [CONTENT_BYTES.to_bytes(4, "big"), FileSlice(file, 0, CONTENT_BYTES)]

    listener = await started(listen(dispatch, sendfile=sendfile))
    peer = await connect(listener)
    peer.send(b"x")
    await peer.is_lost.wait()
    assert peer.received_bytes < CONTENT_BYTES


@by_kernel
@on_each_loop
async def test_a_reader_as_fast_as_its_answer_leaves_the_others_their_turn(
    monkeypatch: pytest.MonkeyPatch, content: bytes, tmp_path: Path
) -> None:
    # A socket that is never full: without a bound one turn would send everything.
    sent: list[int] = []

    class Endless:
        @staticmethod
        def sendfile(descriptor: int, source: int, position: int, size: int) -> int:
            sent.append(size)
            return size

    monkeypatch.setattr("odradek.network.sendfile.os", Endless)
    file = SystemDisk().open(str(tmp_path / "log"))
    at_each_answer: list[int] = []

    def dispatch(connection: Connection, frame: memoryview) -> Any:
        if bytes(frame) == b"small":
            at_each_answer.append(sum(sent))
            return b"\0\0\0\1x"
        return [FileSlice(file, 0, CONTENT_BYTES) for _ in range(10)]

    listener = await started(listen(dispatch))
    greedy, other = await connect(listener), await connect(listener)
    greedy.send(b"all")
    other.send(b"small")
    assert await other.frames(1) == [b"x"]
    await listener.close(grace_seconds=0)
    assert at_each_answer[0] <= 4 * SENT_BYTES_PER_TURN_MAX


class Sender(asyncio.Protocol):
    """Sends one slice as soon as a connection is made, by the source that connections have."""

    def __init__(self, out: deque[Unsent]) -> None:
        self.out = out
        self.source = PartSource(executor=None, sendfile=True)
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        assert transport.get_extra_info("socket") is not None, "a TLS transport shows its socket too"
        self.source.prepare(self.transport, unsent_max=1 << 20)
        while self.out:
            assert self.source.send_next(self.out, lambda failure: None) > 0
        self.transport.close()


def anonymous_tls(side: int) -> ssl.SSLContext:
    """TLS without certificates: encryption is all that is asked here."""
    context = ssl.SSLContext(side)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES128-SHA:@SECLEVEL=0")
    return context


@on_each_loop
async def test_nothing_is_sent_past_tls_in_plain_text(calls: Calls, content: bytes, tmp_path: Path) -> None:
    file = SystemDisk().open(str(tmp_path / "log"))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Sender(deque([FileSlice(file, 0, CONTENT_BYTES)])),
        "127.0.0.1",
        0,
        ssl=anonymous_tls(ssl.PROTOCOL_TLS_SERVER),
    )
    host, port = server.sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(host, port, ssl=anonymous_tls(ssl.PROTOCOL_TLS_CLIENT))
    assert await reader.read(-1) == content
    writer.close()
    server.close()
    assert not calls.sent
