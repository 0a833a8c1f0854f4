"""Texts for tables of others: records as a commit's metadata or a snapshot's property, and the SQL of a merge."""

from __future__ import annotations

import json

from odradek_pipeline.runs.record import RunRecord


def parse_record(text: str | None, where: str) -> RunRecord | None:
    """The record in a text; None for a text that is not ours. Raises RecordLostError for one of a later format."""
    if not text or '"holdings"' not in text:
        return None
    try:
        row = json.loads(text)
    except ValueError:
        return None
    if not isinstance(row, dict) or not {"run", "kind", "holdings"} <= row.keys():
        return None
    return RunRecord.from_json(row, where)


def merge_into(table: str) -> str:
    """SQL that changes the rows of the keys of a frame named `changes`. A key without a value is removed."""
    same = " AND ".join(f"t.{name} = c.{name}" for name in ("topic", "_topic_id", "partition", "key"))
    parts = (
        f"MERGE INTO {table} t USING {{changes}} c ON {same}",
        "WHEN MATCHED AND c.value IS NULL THEN DELETE",
        "WHEN MATCHED THEN UPDATE SET *",
        "WHEN NOT MATCHED AND c.value IS NOT NULL THEN INSERT *",
    )
    return " ".join(parts)
