"""The door of this room: each method of `format("odradek")` loads its own part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.foundation.doors import open_late

if TYPE_CHECKING:
    from odradek_pipeline.settings.options import READING as READING
    from odradek_pipeline.settings.options import Options as Options
    from odradek_pipeline.sink.writers import BatchWriter as BatchWriter
    from odradek_pipeline.sink.writers import StreamWriter as StreamWriter
    from odradek_pipeline.source.arrow import schema as schema
    from odradek_pipeline.source.batch import BatchReader as BatchReader
    from odradek_pipeline.source.stream import StreamReader as StreamReader
else:
    __getattr__ = open_late(
        __name__,
        {
            "Options": "odradek_pipeline.settings.options",
            "READING": "odradek_pipeline.settings.options",
            "BatchWriter": "odradek_pipeline.sink.writers",
            "StreamWriter": "odradek_pipeline.sink.writers",
            "schema": "odradek_pipeline.source.arrow",
            "BatchReader": "odradek_pipeline.source.batch",
            "StreamReader": "odradek_pipeline.source.stream",
        },
    )
