"""Requests that once held up a whole broker, and TLS handshakes: each is an attack on a port, as in `attacks`."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
from functools import cache
from typing import Final

from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.attack.attacks import Address, Attack, Sockets, connected, expecting_refusal
from tests.support.large_requests import ROWS

COMPACTED: Final = "compacted"
# Topics with these names may be described, and are not there.
OPEN: Final = "open"
_ANSWER_SECONDS_MAX: Final = 120.0
_BOMB_BYTES: Final = 250_000_000
_MEGABYTE: Final = 1_000_000


def ask(address: Address, frame: bytes, *, seconds_max: float = _ANSWER_SECONDS_MAX) -> None:
    """Send a frame, and read its answer to the end."""
    with expecting_refusal(), connected(address) as one:
        one.settimeout(seconds_max)
        one.sendall(frame)
        _read_answer(one)


def _read_answer(one: socket.socket) -> None:
    left = int.from_bytes(_received(one, 4), "big")
    while left:
        left -= len(_received(one, min(left, 1 << 16)))


def _received(one: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = one.recv(count - len(data))
        if not part:
            raise ConnectionResetError("closed")
        data += part
    return data


def of_names(row: str, count: int) -> Attack:
    """A large request of `count` names that the caller may not see."""

    def attack(address: Address) -> Sockets:
        ask(address, ROWS[row].frame(count))
        return []

    attack.__doc__ = f"{row} of {count} names"
    return attack


def at_once(row: str, count: int, connections: int) -> Attack:
    """The same on many connections at once."""

    def attack(address: Address) -> Sockets:
        frame = ROWS[row].frame(count)
        held = [connected(address) for _ in range(connections)]
        for one in held:
            one.settimeout(_ANSWER_SECONDS_MAX)
            with expecting_refusal():
                one.sendall(frame)
        for one in held:
            with expecting_refusal():
                _read_answer(one)
        return held

    return attack


@cache
def _metadata(count: int) -> bytes:
    topics = [{"name": f"{OPEN}{number:07}", "topic_id": None} for number in range(count)]
    request = messages.request(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False)
    return codec.encode_request(ApiKey.METADATA, 12, 7, "large", request)


def metadata_of_missing(address: Address) -> Sockets:
    """Metadata of 400,000 topics that are not there."""
    ask(address, _metadata(400_000))
    return []


@cache
def bomb(
    compression: Compression = Compression.ZSTD, size: int = _BOMB_BYTES, topic: str = COMPACTED
) -> bytes:
    """A request to produce a batch of some kilobytes that is `size` bytes when it is decompressed."""
    batch = build_batch([(int(time.time() * 1000), b"k", bytes(size))], compression=compression)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(batch)}]}]
    request = messages.request(ApiKey.PRODUCE, 9, acks=1, timeout=10_000, topic_data=data)
    return codec.encode_request(ApiKey.PRODUCE, 9, 7, "bomb", request)


def bombs(address: Address) -> Sockets:
    """60 batches of 8 KB that are 250 MB each: six connections send ten at once."""
    held = []
    for _ in range(6):
        one = connected(address)
        one.settimeout(_ANSWER_SECONDS_MAX)
        one.sendall(bomb() * 10)
        held.append(one)
    for one in held:
        with expecting_refusal():
            for _ in range(10):
                _received(one, int.from_bytes(_received(one, 4), "big"))
    return held


def _posted(body: bytes, *headers: str) -> bytes:
    head = ["POST /record-times HTTP/1.1", "Host: broker", "Content-Type: application/json", *headers]
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "Connection: close", "", ""]).encode() + body


def record_times(size: int) -> Attack:
    """Four questions of `size` bytes at once."""
    rows = {f"topic-{number:05}": {"0": number} for number in range(30_000)}
    return _posts(_posted(json.dumps(rows).encode()[:size]))


def compressed_record_times(address: Address) -> Sockets:
    """As large as a body may be, and a thousand times that when it is decompressed."""
    return _posts(_posted(_zeros(), "Content-Encoding: gzip"))(address)


@cache
def _zeros() -> bytes:
    return gzip.compress(bytes(1000 * _MEGABYTE))[:_MEGABYTE]


def _posts(sent: bytes) -> Attack:
    def attack(address: Address) -> Sockets:
        held = []
        for _ in range(4):
            one = connected(address)
            one.settimeout(_ANSWER_SECONDS_MAX)
            with expecting_refusal():
                one.sendall(sent)
            held.append(one)
        for one in held:
            with expecting_refusal():
                while one.recv(1 << 16):
                    pass
        return held

    return attack


def half_open(sent: bytes, count: int = 700) -> Attack:
    """Connections that begin a TLS handshake with `sent`, and stall."""

    def attack(address: Address) -> Sockets:
        held = []
        for _ in range(count):
            with expecting_refusal():
                one = connected(address)
                held.append(one)
                one.sendall(sent)
        return held

    return attack


def client_hello() -> bytes:
    """The first bytes of a real handshake: the server answers with its key, which costs it most."""
    context = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        stream.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("the handshake ended without an answer")


def handshakes(address: Address) -> Sockets:
    """2,000 whole hellos whose answers are never read, as fast as connections are made."""
    return half_open(client_hello(), 2000)(address)


HALF_OPEN: Final[dict[str, Attack]] = {
    "TLS: 700 connections, nothing sent": half_open(b""),
    "TLS: 700 with a part of a hello": half_open(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    "TLS: 700 with another protocol": half_open(b"GET / HTTP/1.1\r\n"),
    "TLS: 2,000 with a whole hello": handshakes,
}
