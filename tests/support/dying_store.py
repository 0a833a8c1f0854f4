"""A registry's user that dies between two writes."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.registry.node_tree import Changes
from odradek.registry.store import Operation
from tests.support.memory_registry import MemoryStore


class DyingStore(MemoryStore):
    """A session that ends after that many more writes."""

    writes_left = 10**9

    async def _write(self, operations: Sequence[Operation]) -> Changes:
        if self.writes_left == 0:
            self.sever()
        self.writes_left -= 1
        return await super()._write(operations)
