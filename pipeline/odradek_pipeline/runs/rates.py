"""The size of a stream's batch, and the time when it is due: Spark's own rate options as pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from odradek_pipeline.runs.plans import LogFacts
from odradek_pipeline.runs.ranges import Holdings, PartitionKey


@dataclass(frozen=True, slots=True)
class Rates:
    """`offsets_min` holds a batch back until that many offsets wait, but not longer than `delay_ms_max`.

    Offsets count, not records: markers and compaction leave offsets without one.
    """

    offsets_max: int | None = None
    offsets_min: int = 1
    delay_ms_max: int = 15 * 60_000

    def is_due(self, offsets: int, waiting_ms: int) -> bool:
        """Whether a batch begins, with `offsets` that wait, the first of them for `waiting_ms`."""
        return offsets >= self.offsets_min or waiting_ms >= self.delay_ms_max


def ends_of(facts: Sequence[LogFacts]) -> dict[PartitionKey, int]:
    """The ends of all partitions, to be fixed for a run that takes what is available now."""
    return {one.key(partition): end for one in facts for partition, end in one.ends.items()}


def pin_facts(facts: Sequence[LogFacts], ends: Mapping[PartitionKey, int]) -> list[LogFacts]:
    """`facts` up to fixed ends. Partitions that have none, since they joined later, are left out."""
    return [
        replace(
            one,
            ends={
                partition: min(end, ends[one.key(partition)])
                for partition, end in one.ends.items()
                if one.key(partition) in ends
            },
        )
        for one in facts
    ]


def pin_new_topics(facts: Sequence[LogFacts], ends: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
    """`ends` with those of topics that were made again since they were fixed."""
    known = {key.topic_id for key in ends}
    return {**ends_of([one for one in facts if one.topic_id not in known]), **ends}


def measure_lag(facts: Sequence[LogFacts], held: Holdings) -> int:
    """The offsets between what is held and the ends of `facts`, from the log start where nothing is held."""
    behind = 0
    for one in facts:
        for partition, end in one.ends.items():
            next_offset = held.end(one.key(partition))
            behind += max(0, end - (one.log_starts[partition] if next_offset is None else next_offset))
    return behind
