"""Primitive types of Kafka's message format, for the records of `__consumer_offsets` and embedded consumer
metadata.

These structures are no requests, so the codec of messages does not know them. Big-endian numbers; a classic
string is an int16 length and UTF-8, a classic array or bytes has an int32 length; -1 is null. The flexible
form has the length plus one as an unsigned varint, 0 is null, and a structure ends with its tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar
from uuid import UUID

from odradek.foundation.errors import CorruptRecord

T = TypeVar("T")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class WireReader:
    """Reads one structure from bytes. Every method raises CorruptRecord when the bytes end too early
    or lie.
    """

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = bytes(data)
        self.position = 0

    def _take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise CorruptRecord(
                f"a field of {size} bytes at {self.position} ends beyond {len(self._data)} bytes"
            )
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def int8(self) -> int:
        return int(_INT8.unpack(self._take(1))[0])

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self._take(8))[0])

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def unsigned_varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise CorruptRecord(f"the varint before {self.position} is longer than five bytes")

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"the text that ends at {self.position} is not UTF-8") from error

    def string(self, *, flexible: bool = False) -> str:
        value = self.nullable_string(flexible=flexible)
        if value is None:
            raise CorruptRecord(f"the text before {self.position} must not be null")
        return value

    def nullable_string(self, *, flexible: bool = False) -> str | None:
        size = self.unsigned_varint() - 1 if flexible else self.int16()
        return None if size < 0 else self._text(size)

    def bytes_(self, *, flexible: bool = False) -> bytes:
        value = self.nullable_bytes(flexible=flexible)
        return b"" if value is None else value

    def nullable_bytes(self, *, flexible: bool = False) -> bytes | None:
        size = self.unsigned_varint() - 1 if flexible else self.int32()
        return None if size < 0 else self._take(size)

    def array(self, element: Callable[[], T], *, flexible: bool = False) -> tuple[T, ...]:
        """As many elements as announced; a null array is empty. Elements take a byte at least."""
        count = self.unsigned_varint() - 1 if flexible else self.int32()
        if count > len(self._data) - self.position:
            raise CorruptRecord(f"an array of {count} elements at {self.position} cannot fit")
        return tuple(element() for _ in range(count))

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields of a flexible structure, undecoded; unknown ones are the caller's to ignore."""
        fields: dict[int, bytes] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            fields[tag] = self._take(self.unsigned_varint())
        return fields


class WireWriter:
    """Writes one structure; `finish` gives its bytes."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def finish(self) -> bytes:
        return bytes(self._data)

    def int8(self, value: int) -> None:
        self._data += _INT8.pack(value)

    def int16(self, value: int) -> None:
        self._data += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self._data += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self._data += _INT64.pack(value)

    def uuid(self, value: UUID) -> None:
        self._data += value.bytes

    def unsigned_varint(self, value: int) -> None:
        while value > 0x7F:
            self._data.append((value & 0x7F) | 0x80)
            value >>= 7
        self._data.append(value)

    def string(self, value: str | None, *, flexible: bool = False) -> None:
        if value is None:
            self._size(-1, flexible=flexible, size_format=_INT16)
            return
        encoded = value.encode()
        self._size(len(encoded), flexible=flexible, size_format=_INT16)
        self._data += encoded

    def bytes_(self, value: bytes | None, *, flexible: bool = False) -> None:
        if value is None:
            self._size(-1, flexible=flexible, size_format=_INT32)
            return
        self._size(len(value), flexible=flexible, size_format=_INT32)
        self._data += value

    def _size(self, size: int, *, flexible: bool, size_format: struct.Struct) -> None:
        if flexible:
            self.unsigned_varint(size + 1)
        else:
            self._data += size_format.pack(size)

    def array(self, values: Iterable[T], element: Callable[[T], object], *, flexible: bool = False) -> None:
        elements = tuple(values)
        self._size(len(elements), flexible=flexible, size_format=_INT32)
        for value in elements:
            element(value)

    def tagged_fields(self, fields: dict[int, bytes] | None = None) -> None:
        """The tagged fields that end a flexible structure, in ascending order of their tags."""
        fields = fields or {}
        self.unsigned_varint(len(fields))
        for tag, value in sorted(fields.items()):
            self.unsigned_varint(tag)
            self.unsigned_varint(len(value))
            self._data += value
