"""Ranges widened to whole files, for tables that can replace whole files alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from odradek_pipeline.runs.ranges import OffsetRange, join_ranges


def widen_ranges(ranges: Iterable[OffsetRange], files: Sequence[OffsetRange]) -> list[OffsetRange]:
    """The smallest ranges around `ranges` that split none of `files`."""
    by_key: dict[object, list[OffsetRange]] = {}
    for one in files:
        by_key.setdefault(one.key, []).append(one)
    found = join_ranges(ranges)
    while True:
        grown = join_ranges(_widen_range(one, by_key.get(one.key, ())) for one in found)
        if grown == found:
            return found
        found = grown


def _widen_range(one: OffsetRange, files: Iterable[OffsetRange]) -> OffsetRange:
    touched = [file for file in files if file.overlaps(one)]
    start = min((file.start for file in touched), default=one.start)
    end = max((file.end for file in touched), default=one.end)
    return replace(one, start=min(start, one.start), end=max(end, one.end))
