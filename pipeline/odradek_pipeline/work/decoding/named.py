"""Decoders by the name of their format. A new one is one row here; its module is imported when it is asked for."""

from __future__ import annotations

from odradek_pipeline.settings.groups import AVRO, JSON
from odradek_pipeline.work import late
from odradek_pipeline.work.decoding.decoder import RecordDecoder
from odradek_pipeline.work.decoding.schema import PartSchema


def decoder_for(schema: PartSchema, mark: bytes) -> RecordDecoder:
    """The decoder of a schema's kind. `mark` is 16 bytes that no record ends with by chance.

    Raises JobRefusedError for a schema that cannot be.
    """
    if schema.kind == JSON:
        return late.JsonDecoder(schema, mark)
    if schema.kind == AVRO:
        return late.AvroDecoder(schema, mark)
    return late.ProtobufDecoder(schema)
