"""A checksum over all of a registry's lasting nodes, kept up to date change by change.

SQLite notices damage to its own structure, not to what is stored in it: one flipped bit would make another topic id, or
another name. The seal is written in the transaction of each change and compared when the file is opened. It is a
sum of checksums of single nodes, so that a change costs no look at the others, and it covers nodes that went missing.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.cluster.node_tree import Row

# What fits into SQLite's signed integers.
_MASK: Final = (1 << 63) - 1


class Seal(NamedTuple):
    """How many nodes there are, and the sum of their checksums."""

    node_count: int = 0
    total: int = 0

    @classmethod
    def over(cls, nodes: Iterable[tuple[str, Row]]) -> Seal:
        """The seal of these nodes. Raises TypeError or AttributeError for rows whose values are of wrong types."""
        seal = cls()
        for path, row in nodes:
            seal = seal.after(path, None, row)
        return seal

    def after(self, path: str, old: Row | None, new: Row | None) -> Seal:
        """The seal once the node at `path` is `new` instead of `old`; None where there is no node."""
        count, total = self
        if old is not None:
            count, total = count - 1, total - _checksum(path, old)
        if new is not None:
            count, total = count + 1, total + _checksum(path, new)
        return Seal(count, total & _MASK)

    def text(self, *, opening: int) -> str:
        """As it is stored: it covers the number of the opening too."""
        return f"{self.node_count}:{self.total:x}:{zlib.crc32(b'opening %d' % opening):x}"


def _checksum(path: str, row: Row) -> int:
    name = path.encode()
    return zlib.crc32(row.data, zlib.crc32(b"%d %d %d %b" % (len(name), row.version, row.created, name)))
