"""Unsigned variable-length integers and tagged fields, as flexible versions write them (KIP-482).

    unsigned varint   seven bits a byte, least significant first; the high bit says that another byte
                      follows; at most five bytes
    tagged fields     varint count, then for each: varint tag, varint size, bytes

Reading raises InvalidRequest on anything else.
"""

from __future__ import annotations

from struct import Struct

from odradek.foundation.errors import InvalidRequest

UNSIGNED_VARINT_BYTES_MAX = 5


def read_unsigned_varint(data: memoryview, position: int) -> tuple[int, int]:
    """(value, position after it)."""
    value = 0
    shift = 0
    end = min(len(data), position + UNSIGNED_VARINT_BYTES_MAX)
    while position < end:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
        shift += 7
    raise InvalidRequest(
        f"a variable-length number before byte {position} is cut off or longer than five bytes"
    )


def append_unsigned_varint(out: bytearray, value: int) -> None:
    """Append `value`, 0 <= value < 2**32, to `out`."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def encode_unsigned_varint(value: int) -> bytes:
    """The bytes of `value`, 0 <= value < 2**32."""
    out = bytearray()
    append_unsigned_varint(out, value)
    return bytes(out)


def skip_tagged_fields(data: memoryview, position: int) -> int:
    """The position after the tagged fields that begin at `position`, none of which is known."""
    count, position = read_unsigned_varint(data, position)
    for _ in range(count):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position += size
        if position > len(data):
            raise InvalidRequest(
                f"a tagged field is said to have {size} bytes and ends beyond the frame's {len(data)}"
            )
    return position


def read_tagged_structure(
    data: memoryview, position: int, tag: int, fields: Struct
) -> tuple[tuple[int, ...] | None, int]:
    """(the values of `fields` in the structure that `tag` holds, position after the tagged fields).

    None without that tag. Raises InvalidRequest and struct.error where the structure is shorter or longer than its
    tagged field.
    """
    values = None
    end = skip_tagged_fields(data, position)
    count, position = read_unsigned_varint(data, position)
    for _ in range(count):
        found, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        after = position + size
        if found == tag:
            values = fields.unpack_from(data[:after], position)
            if skip_tagged_fields(data[:after], position + fields.size) != after:
                raise InvalidRequest(
                    f"the structure of tag {tag} is shorter than the tagged field that holds it"
                )
        position = after
    return values, end
