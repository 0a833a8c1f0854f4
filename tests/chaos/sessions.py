"""Ends the ZooKeeper session of a process at once, as an expiry does.

A session belongs to the client that knows its id and its password. The id is in every ephemeral node. The password is
derived from the id, so that a restarted server recognises its clients. (`SessionTrackerImpl`,
`ZooKeeperServer.generatePasswd`: sixteen bytes of java.util.Random seeded with the id and a constant.) With both, a
second connection takes the session over and closes it.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

SECONDS_MAX: Final = 5.0
_SECRET: Final = 0xB3415C00
_CLOSE_SESSION: Final = -11


def password_of(session_id: int) -> bytes:
    """What ZooKeeper lets a client take the session over with."""
    state = ((session_id ^ _SECRET) ^ 0x5DEECE66D) & ((1 << 48) - 1)
    made = b""
    for _ in range(4):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        made += struct.pack("<I", (state >> 16) & 0xFFFFFFFF)
    return made


def end_session(host: str, port: int, session_id: int) -> bool:
    """Whether ZooKeeper closed the session. Raises OSError where it cannot be reached."""
    hello = struct.pack(">iqiqi", 0, 0, 10_000, session_id, 16) + password_of(session_id) + b"\0"
    farewell = struct.pack(">ii", 1, _CLOSE_SESSION)
    with socket.create_connection((host, port), SECONDS_MAX) as connection:
        connection.settimeout(SECONDS_MAX)
        # In one piece, so that the owner has no time to take it back in between.
        connection.sendall(_framed(hello) + _framed(farewell))
        answer = _receive(connection)
        _, timeout_ms, taken = struct.unpack_from(">iiq", answer)
        if timeout_ms <= 0 or taken != session_id:
            return False  # it had ended already
        _receive(connection)
    return True


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _receive(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("ZooKeeper closed the connection")
        received += part
    return received
