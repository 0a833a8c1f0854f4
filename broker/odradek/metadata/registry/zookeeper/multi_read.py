"""Many nodes read by one request: ZooKeeper's multiRead (since 3.6), which kazoo does not have.

A controller that takes over reads a node for every partition. Measured on two busy cores: 10,000 nodes take 2.3 s one
by one, most of it in kazoo, and 0.07 s with multiRead.

The request and its answer have the same layout after their headers, big-endian. Each node has a header `int type, bool
done, int error`, then getData's own body. The last header has type -1 and done. In the answer a node that could not be
read has type -1 and `int error` as its body.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from kazoo.exceptions import EXCEPTIONS, NoNodeError
from kazoo.protocol.serialization import read_buffer, stat_struct

from odradek.metadata.registry.store import Node
from odradek.metadata.registry.zookeeper.failures import store_error
from odradek.metadata.registry.zookeeper.handler import Kazoo

_GET_DATA: Final = 4
_ERROR: Final = -1
_HEADER: Final = struct.Struct(">i?i")
_INT: Final = struct.Struct(">i")
_END: Final = _HEADER.pack(-1, True, -1)


class MultiRead:
    """A request in kazoo's form: with a type, and methods to and from bytes."""

    type = 22

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        header = _HEADER.pack(_GET_DATA, False, -1)
        parts: list[bytes] = []
        for path in self._paths:
            encoded = path.encode()
            # The last byte asks for no watch.
            parts += (header, _INT.pack(len(encoded)), encoded, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> list[Node | Exception]:
        """In kazoo's thread: the nodes, or the error of one that could not be read, in the order of the request."""
        results: list[Node | Exception] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(buffer, offset)
            offset += _HEADER.size
            if done:
                return results
            if kind == _ERROR:
                (code,) = _INT.unpack_from(buffer, offset)
                offset += _INT.size
                results.append(EXCEPTIONS[code]())
                continue
            data, offset = read_buffer(buffer, offset)
            stat = stat_struct.unpack_from(buffer, offset)
            offset += stat_struct.size
            # czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, …
            results.append(Node(data or b"", stat[4], stat[0], stat[7]))

    def start(self, client: Kazoo) -> Kazoo:
        """Pass it to kazoo's client. Returns kazoo's result."""
        result = client.handler.async_result()
        client._call(self, result)
        return result


def nodes_read(results: Sequence[Node | Exception], paths: Sequence[str]) -> list[Node | None]:
    """The answer, with None for a missing node. Raises for a node that could not be read for another reason."""
    nodes: list[Node | None] = []
    for result, path in zip(results, paths, strict=True):
        if isinstance(result, NoNodeError):
            nodes.append(None)
        elif isinstance(result, Node):
            nodes.append(result)
        else:
            raise store_error(result, path)
    return nodes
