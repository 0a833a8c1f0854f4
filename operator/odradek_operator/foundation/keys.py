"""Keys of the work queue: which resource, not what is in it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """One resource by kind and name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
