"""Readers by name. A new one is one row here; its module is imported when it is asked for."""

from __future__ import annotations

from odradek_pipeline.errors import JobRefusedError
from odradek_pipeline.settings.groups import KAFKA, ODRADEK, READERS
from odradek_pipeline.work.reading.reader import Reader


def reader_named(name: str) -> Reader:
    """The reader of that name. Raises JobRefusedError."""
    if name == KAFKA:
        from odradek_pipeline.work.reading.kafka import KafkaReader

        return KafkaReader()
    if name == ODRADEK:
        from odradek_pipeline.work.reading.odradek import OdradekReader

        return OdradekReader()
    raise JobRefusedError(f"there is no reader {name!r}: it must be {READERS}")
