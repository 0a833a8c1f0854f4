"""Structures that kio does not have, declared as rows and compiled by `reading` and `writing` as messages are.

Records of internal topics are such structures. A row is one field: its name, its wire type, and the versions that
have it. A declared structure takes the place of kio's class of one version: it knows its fields, and it can be called
to make a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING
from functools import cache
from typing import Final

from odradek.foundation.named_tuple import NamedTuple
from odradek.wire.protocol.schema import STRUCTURE, FieldSchema


class FieldRow(NamedTuple):
    """One field. `wire_type` is as in `FieldSchema`; a field with a `structure` needs none."""

    name: str
    wire_type: str = STRUCTURE
    structure: Declaration | None = None
    since: int = 0  # the first version that has the field
    until: int = 1 << 15  # the last one
    is_array: bool = False
    is_nullable: bool = False
    tag: int | None = None
    default: object = MISSING  # of a tagged field

    @property
    def may_be_null_on_the_wire(self) -> bool:
        """A null array or null bytes can be read; unless `is_nullable`, the value has an empty one instead."""
        return self.is_array or self.wire_type == "bytes"


class DeclaredStructure:
    """The fields of one version, in the order of the wire. `empty` says what stands for a null, by field."""

    def __init__(
        self,
        make: Callable[..., object],
        fields: tuple[FieldSchema, ...],
        *,
        is_flexible: bool,
        empty: Sequence[tuple[str, object]],
    ) -> None:
        self.fields: Final = fields
        self.__flexible__: Final = is_flexible
        self._make = make
        self._empty = empty

    def __call__(self, **values: object) -> object:
        for name, empty in self._empty:
            if values[name] is None:
                values[name] = empty
        return self._make(**values)


class Declaration:
    """A structure in all its versions. `make` gets the fields of a version by name, and gives the value.

    Writing takes the fields from the value's attributes of the same names.
    """

    def __init__(self, make: Callable[..., object], *rows: FieldRow) -> None:
        self._make = make
        self._rows = rows

    @cache  # noqa: B019  declarations are module constants and never go
    def at(self, version: int, *, is_flexible: bool) -> DeclaredStructure:
        rows = [row for row in self._rows if row.since <= version <= row.until]
        fields = tuple(
            FieldSchema(
                name=row.name,
                wire_type=row.wire_type,
                is_array=row.is_array,
                is_nullable=row.is_nullable or row.may_be_null_on_the_wire,
                structure=(
                    None if row.structure is None else row.structure.at(version, is_flexible=is_flexible)
                ),
                tag=row.tag,
                default=row.default,
            )
            for row in rows
        )
        empty = [
            (row.name, () if row.is_array else b"")
            for row in rows
            if row.may_be_null_on_the_wire and not row.is_nullable
        ]
        return DeclaredStructure(self._make, fields, is_flexible=is_flexible, empty=empty)
