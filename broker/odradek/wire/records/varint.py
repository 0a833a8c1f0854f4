"""Kafka's variable-length integers: zigzag, then seven bits a byte, lowest first; the high bit: more follows.

An int32 takes 1 to 5 bytes and an int64 1 to 10. The readers here are for code that reads few of them; the
record reader unrolls the one-byte case by itself.
"""

from __future__ import annotations

from typing import Final

from odradek.foundation.errors import CorruptRecord

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))


def encode_varint(value: int) -> bytes:
    """The bytes of a signed integer of up to 64 bits, for varint and varlong alike."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    if rest < 0x80:
        return _ONE_BYTE[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def varint_size(value: int) -> int:
    """The bytes that `encode_varint` takes for `value`."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    return (rest.bit_length() + 6) // 7 or 1


def decode_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The int32 at `position` and the position after it. Raises CorruptRecord: cut off or too long."""
    return _decode(buffer, position, bytes_max=VARINT_BYTES_MAX, bits=32)


def decode_varlong(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """The int64 at `position` and the position after it. Raises CorruptRecord: cut off or too long."""
    return _decode(buffer, position, bytes_max=VARLONG_BYTES_MAX, bits=64)


def _decode(
    buffer: bytes | bytearray | memoryview, position: int, *, bytes_max: int, bits: int
) -> tuple[int, int]:
    start = position
    size = len(buffer)
    value = shift = 0
    while True:
        if position >= size:
            raise CorruptRecord(f"a variable-length integer at byte {start} runs past the end at byte {size}")
        if position - start >= bytes_max:
            raise CorruptRecord(f"a variable-length integer at byte {start} is longer than {bytes_max} bytes")
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if value >> bits:
        raise CorruptRecord(f"a variable-length integer at byte {start} does not fit {bits} bits")
    return (value >> 1) ^ -(value & 1), position
