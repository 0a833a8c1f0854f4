"""Frames between a broker and the process that compacts: int32 size, then a message by pickle.

Both ends are this program, so a frame is never of a stranger.
"""

from __future__ import annotations

import pickle
import struct
from dataclasses import dataclass
from typing import Final

SIZE: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed:
    """Why a round ended early."""

    is_disk: bool
    """Whether it was an OSError."""
    error_number: int
    message: str


def encode_frame(message: object) -> bytes:
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return SIZE.pack(len(data)) + data
