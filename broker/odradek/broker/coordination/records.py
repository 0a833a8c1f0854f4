"""Keys and values of an internal topic's records, declared as rows.

A key is an int16 that says the kind of record, then fields without tags. A value is an int16 version, then fields;
later versions are flexible (KIP-482). Reading believes nothing that a record says about its size: it raises
CorruptRecord for anything that does not fit.
"""

from __future__ import annotations

from struct import Struct, error
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from odradek.foundation.errors import CorruptRecord, InvalidRequest
from odradek.wire.protocol.declared import Declaration
from odradek.wire.protocol.reading import structure_reader
from odradek.wire.protocol.writing import structure_writer

if TYPE_CHECKING:
    from odradek.wire.protocol.declared import DeclaredStructure

T = TypeVar("T")

_INT16: Final = Struct(">h")


def kind_of(key: bytes) -> int:
    """The kind of record that a key says. Raises CorruptRecord for a key shorter than its kind."""
    if len(key) < 2:
        raise CorruptRecord(f"a record key of {len(key)} bytes is too short to have a kind")
    return int.from_bytes(key[:2], "big", signed=True)


def check_version(value: bytes, what: str, version_max: int) -> int:
    """The version of a record's value. Raises CorruptRecord for one that this broker does not read."""
    if len(value) < 2:
        raise CorruptRecord(f"{what} of {len(value)} bytes is too short to have a version")
    version = int.from_bytes(value[:2], "big", signed=True)
    if not 0 <= version <= version_max:
        raise CorruptRecord(f"{what} of version {version}; this broker reads versions 0 to {version_max}")
    return version


class RecordKey(Generic[T]):
    """The keys of one kind of record."""

    def __init__(self, kind: int, declaration: Declaration) -> None:
        self._kind = _INT16.pack(kind)
        self._what = f"a key of kind {kind}"
        self._structure = declaration.at(0, is_flexible=False)

    def encode(self, key: T) -> bytes:
        out = bytearray(self._kind)
        structure_writer(self._structure)(out, key)
        return bytes(out)

    def decode(self, data: bytes) -> T:
        """The whole key, its kind included. Raises CorruptRecord."""
        key: T = _read(self._what, self._structure, data)
        return key


class RecordValue(Generic[T]):
    """The values of one kind of record: versions 0 to `version_max`, of which `version_written` is written."""

    def __init__(
        self,
        what: str,
        declaration: Declaration,
        *,
        version_written: int,
        version_max: int,
        flexible_since: int,
    ) -> None:
        self._what = what
        self._declaration = declaration
        self._version_written = version_written
        self._version_max = version_max
        self._flexible_since = flexible_since

    def _structure(self, version: int) -> DeclaredStructure:
        return self._declaration.at(version, is_flexible=version >= self._flexible_since)

    def encode(self, value: T, *, version: int | None = None) -> bytes:
        """The value in `version`, by default the one that is written."""
        if version is None:
            version = self._version_written
        out = bytearray(_INT16.pack(version))
        structure_writer(self._structure(version))(out, value)
        return bytes(out)

    def decode(self, data: bytes) -> T:
        """Raises CorruptRecord for an unknown version and for bytes that end early or contradict themselves."""
        version = check_version(data, self._what, self._version_max)
        value: T = _read(f"{self._what} of version {version}", self._structure(version), data)
        return value


def _read(what: str, structure: DeclaredStructure, data: bytes) -> Any:
    """The structure after the first two bytes. Each array element has a byte, so the data's length bounds them all."""
    try:
        value, _ = structure_reader(structure)(memoryview(data), 2, [len(data)])
    except (InvalidRequest, error) as failure:
        raise CorruptRecord(f"{what} and {len(data)} bytes cannot be read: {failure}") from failure
    return value
