"""A checksum over all of a registry's persistent nodes, updated with each change.

SQLite detects damage to its own structure, not to stored values: one flipped bit would make another topic id or another
name. The checksum is written in the transaction of each change and compared when the file is opened. It is a sum of
checksums of single nodes, so that a change reads no other node. It also detects missing nodes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.metadata.registry.store import Node

# The range of SQLite's signed integers.
_MASK: Final = (1 << 63) - 1


class RegistryChecksum(NamedTuple):
    """The number of nodes, and the sum of their checksums."""

    node_count: int = 0
    total: int = 0

    @classmethod
    def over(cls, nodes: Iterable[tuple[str, Node]]) -> RegistryChecksum:
        """The checksum of these nodes. Raises TypeError or AttributeError for rows whose values are of wrong types."""
        checksum = cls()
        for path, row in nodes:
            checksum = checksum.after(path, None, row)
        return checksum

    def after(self, path: str, old: Node | None, new: Node | None) -> RegistryChecksum:
        """The checksum after the node at `path` changes from `old` to `new`; None stands for no node."""
        count, total = self
        if old is not None:
            count, total = count - 1, total - _checksum(path, old)
        if new is not None:
            count, total = count + 1, total + _checksum(path, new)
        return RegistryChecksum(count, total & _MASK)

    def text(self, *, opening: int) -> str:
        """The stored text, which also covers the number of the opening."""
        return f"{self.node_count}:{self.total:x}:{zlib.crc32(b'opening %d' % opening):x}"


def _checksum(path: str, row: Node) -> int:
    name = path.encode()
    return zlib.crc32(row.data, zlib.crc32(b"%d %d %d %b" % (len(name), row.version, row.created, name)))
