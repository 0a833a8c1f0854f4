"""The columns of decoded records, as Spark's JSON of fields: what a table has, and what a run adds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek_pipeline.errors import JobRefusedError

Columns = Sequence[Mapping[str, Any]]


def merge_columns(there: Columns, added: Columns) -> tuple[Mapping[str, Any], ...]:
    """All columns of `there`, then those of `added` that it does not have. Names differ by more than their case.

    Raises JobRefusedError for a column that has another type.
    """
    known = {str(one["name"]).lower(): one for one in there}
    for one in added:
        before = known.setdefault(str(one["name"]).lower(), one)
        if before["type"] != one["type"]:
            raise JobRefusedError(
                f"column {one['name']} is {format_type(before['type'])} in the table and "
                f"{format_type(one['type'])} in the schema. "
                "Add --value-prefix or --key-prefix for columns of other names, or load into another table"
            )
    return tuple(known.values())


def require_apart(names: Iterable[str], taken: Iterable[str]) -> None:
    """Raises JobRefusedError for two columns of one name."""
    seen = {name.lower() for name in taken}
    for name in names:
        if name.lower() in seen:
            raise JobRefusedError(
                f"the schema's field {name} has the name of another column: add a --value-prefix or --key-prefix"
            )
        seen.add(name.lower())


def format_type(kind: object) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
