"""Frames from a stream, however it is divided, and in bounded memory."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odradek.foundation.limits import (
    FRAME_BYTES_BEFORE_RESERVE,
    FRAME_BYTES_RESERVED_FIRST,
    RECEIVE_BUFFER_BYTES,
)
from odradek.wire.protocol.framing import FrameReader, receive_buffer
from tests.support.framing import feed


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(reader: FrameReader, stream: bytes, sizes: list[int]) -> list[bytes]:
    """Feed as a transport does: into the reader's buffer, as much as fits, `sizes` saying how much comes."""
    frames: list[bytes] = []
    position = turn = 0
    while position < len(stream):
        buffer = reader.get_buffer()
        size = min(len(buffer), sizes[turn % len(sizes)], len(stream) - position)
        buffer[:size] = stream[position : position + size]
        frames += [bytes(frame) for frame in reader.take_received(size)]
        position += size
        turn += 1
    return frames


@given(st.lists(st.binary(max_size=50), max_size=20), st.lists(st.integers(1, 70), min_size=1, max_size=9))
@example([b""], [1])
def test_small_frames_in_any_pieces(bodies: list[bytes], sizes: list[int]) -> None:
    stream = framed(*bodies)
    assert receive(FrameReader(1000), stream, sizes) == bodies
    reader = FrameReader(1000)
    fed: list[bytes] = []
    for start in range(0, len(stream), sizes[0]):
        fed += [bytes(frame) for frame in feed(reader, stream[start : start + sizes[0]])]
    assert fed == bodies
    assert reader.bytes_held == 0


@pytest.mark.thorough
@given(
    st.lists(st.sampled_from([0, 1, 60_000, 65_536, 100_000, 1_500_000, 3_000_000]), min_size=1, max_size=4),
    st.lists(st.sampled_from([1_000, 65_535, 65_536, 300_000]), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_large_frames_in_any_pieces(lengths: list[int], sizes: list[int], seed: int) -> None:
    chance = random.Random(seed)
    bodies = [chance.randbytes(length) for length in lengths]
    stream = framed(*bodies)
    assert receive(FrameReader(10_000_000), stream, sizes) == bodies
    reader = FrameReader(10_000_000)
    assert [bytes(frame) for frame in feed(reader, stream)] == bodies


def test_frames_are_found_a_number_at_a_time() -> None:
    reader = FrameReader(1000, frames_at_once_max=3)
    stream = framed(*(bytes([number]) for number in range(7))) + framed(b"unfinished")
    found = [[bytes(frame) for frame in feed(reader, stream[:-1])]]
    while reader.has_more:
        found.append([bytes(frame) for frame in reader.more()])
    assert found == [[b"\0", b"\1", b"\2"], [b"\3", b"\4", b"\5"], [b"\6"]]
    assert [bytes(frame) for frame in feed(reader, stream[-1:])] == [b"unfinished"]
    assert reader.more() == []


def test_what_is_read_while_frames_are_left_comes_after_them() -> None:
    reader = FrameReader(1000, frames_at_once_max=1)
    found = [bytes(frame) for frame in feed(reader, framed(b"first", b"second"))]
    assert feed(reader, framed(b"third")) == []
    while reader.has_more:
        found += [bytes(frame) for frame in reader.more()]
    assert found == [b"first", b"second", b"third"]


def test_readers_share_a_buffer_and_frames_stay_as_they_came() -> None:
    shared = receive_buffer()
    readers = (FrameReader(1000, shared), FrameReader(1000, shared))
    kept = []
    for number in range(5):
        for start, end in ((0, 50), (50, 208)):
            for reader, letter in zip(readers, b"ab", strict=True):
                piece = framed(bytes([letter, number]) * 50, b"")[start:end]
                reader.get_buffer()[: len(piece)] = piece
                kept += [(frame, bytes(frame)) for frame in reader.take_received(len(piece))]
    assert [copy[:2] for _, copy in kept if copy] == [
        bytes([letter, number]) for number in range(5) for letter in b"ab"
    ]
    assert all(bytes(frame) == copy for frame, copy in kept)


def test_a_frame_is_writable_memory_of_its_own() -> None:
    (frame,) = feed(FrameReader(1000), framed(b"abc"))
    frame[0] = 0x7A
    assert bytes(frame) == b"zbc"


def test_frames_before_a_wrong_size_are_given_and_all_after_it_ignored() -> None:
    for wrong in (-1, 1001, 0x47455420):
        reader = FrameReader(1000)
        frames = feed(reader, framed(b"good") + struct.pack(">i", wrong) + b"bad")
        assert [bytes(frame) for frame in frames] == [b"good"]
        assert str(wrong) in str(reader.failure)
        assert feed(reader, framed(b"more")) == []


def test_an_announced_size_reserves_a_multiple_of_what_came_and_no_more() -> None:
    reader = FrameReader(100 * 1024 * 1024)
    announced = struct.pack(">i", 100 * 1024 * 1024)
    feed(reader, announced)
    assert reader.bytes_held == 4
    sent = 4
    while sent < 8 * 1024 * 1024:
        feed(reader, bytes(10_000))
        sent += 10_000
        assert reader.bytes_held <= max(FRAME_BYTES_RESERVED_FIRST, 2 * sent)
        if sent < FRAME_BYTES_BEFORE_RESERVE:
            assert reader.bytes_held == sent


def test_an_idle_reader_holds_nothing() -> None:
    reader = FrameReader(1000, receive_buffer())
    feed(reader, framed(b"a", b"b"))
    assert reader.bytes_held == 0
    assert len(reader.get_buffer()) == RECEIVE_BUFFER_BYTES
