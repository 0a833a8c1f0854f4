"""Records as the texts that tables of others carry: a commit's user metadata, a snapshot's property."""

from __future__ import annotations

import json

from odradek_pipeline.runs.record import RunRecord


def record_in(text: str | None, where: str) -> RunRecord | None:
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
