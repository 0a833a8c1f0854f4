"""The door of this room: the outputs, readers and decoders by name; a run loads those that its settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek_pipeline.outputs.delta import DeltaOutput as DeltaOutput
    from odradek_pipeline.outputs.iceberg import IcebergOutput as IcebergOutput
    from odradek_pipeline.outputs.parquet.output import ParquetOutput as ParquetOutput
    from odradek_pipeline.work.decoding.avro_records import AvroDecoder as AvroDecoder
    from odradek_pipeline.work.decoding.json_records import JsonDecoder as JsonDecoder
    from odradek_pipeline.work.decoding.protobuf_records import ProtobufDecoder as ProtobufDecoder
    from odradek_pipeline.work.reading.kafka import KafkaReader as KafkaReader
    from odradek_pipeline.work.reading.odradek import OdradekReader as OdradekReader
else:
    __getattr__ = open_late(
        __name__,
        {
            "DeltaOutput": "odradek_pipeline.outputs.delta",
            "IcebergOutput": "odradek_pipeline.outputs.iceberg",
            "ParquetOutput": "odradek_pipeline.outputs.parquet.output",
            "AvroDecoder": "odradek_pipeline.work.decoding.avro_records",
            "JsonDecoder": "odradek_pipeline.work.decoding.json_records",
            "ProtobufDecoder": "odradek_pipeline.work.decoding.protobuf_records",
            "KafkaReader": "odradek_pipeline.work.reading.kafka",
            "OdradekReader": "odradek_pipeline.work.reading.odradek",
        },
    )
