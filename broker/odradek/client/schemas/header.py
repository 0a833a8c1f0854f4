"""The header that the serializers of schema registries write before a key or a value.

0 | id of the schema, 4 bytes, big-endian | what the schema's format writes
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

MAGIC: Final = 0
HEADER_BYTES: Final = 5

# What a schema makes of bytes; which types, only the program knows that named the schema.
Decoded = Any
# Gets what stands behind the header.
Decode = Callable[[bytes], Decoded]


def schema_id_of(data: bytes) -> int | None:
    """The id in the header; None for bytes without one."""
    if len(data) < HEADER_BYTES or data[0] != MAGIC:
        return None
    return int.from_bytes(data[1:HEADER_BYTES], "big")
