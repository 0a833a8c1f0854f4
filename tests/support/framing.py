"""Bytes given to a reader of frames as a socket gives them: into the buffer that it offers, again and again."""

from __future__ import annotations

from odradek.wire.protocol.framing import FrameReader


def feed(reader: FrameReader, data: bytes | bytearray | memoryview) -> list[memoryview]:
    """The frames completed by `data`, which is copied."""
    frames: list[memoryview] = []
    rest = memoryview(data)
    while len(rest):
        buffer = reader.get_buffer()
        size = min(len(rest), len(buffer))
        buffer[:size] = rest[:size]
        frames += reader.take_received(size)
        rest = rest[size:]
    return frames
