"""Planned ranges as options: the stock connector's, which the project's own source has too.

Partitions are assigned, never subscribed to. A source would refuse a plan that lacks a partition which joined the topic
since.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from odradek_pipeline.reading.reader import ReadOptions
from odradek_pipeline.runs.ranges import OffsetRange


def range_options(ranges: Sequence[OffsetRange], options: ReadOptions) -> dict[str, str]:
    """The options for ranges that have each partition once. A source fails where records are gone."""
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for one in ranges:
        topic, partition = one.key.topic, one.key.partition
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = one.start
        ends.setdefault(topic, {})[str(partition)] = one.end
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
        "maxRecordsPerPartition": str(options.records_per_task),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
    }
