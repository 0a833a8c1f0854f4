"""Chooses the map for a round: by vectors where numpy is installed, plain elsewhere."""

from __future__ import annotations

import importlib.util
import os

from odradek.log.compaction.offset_map import OffsetMap, PlainOffsetMap
from odradek.log.compaction.task import CleaningTask


def plain_map(task: CleaningTask) -> OffsetMap:
    """The map that needs nothing but Python."""
    return PlainOffsetMap(int(task.map_bytes * task.map_load_factor))


def best_map(task: CleaningTask) -> OffsetMap:
    """The fastest map that can be had here. Raises OSError when its file cannot be made."""
    if importlib.util.find_spec("numpy") is None:
        return plain_map(task)
    from odradek.log.compaction.vector_map import VectorOffsetMap

    return VectorOffsetMap(
        capacity_bytes=task.map_bytes,
        load_factor=task.map_load_factor,
        records_max=task.offset_range,
        # Beside the logs and not among one's files, which a start would read.
        keys_directory=os.path.dirname(task.directory),
    )
