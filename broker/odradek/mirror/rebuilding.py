"""The offsets that a mirror knows when it starts again: runs from stored offset syncs, and points from checkpoints.

A stored pair says nothing about a topic that was deleted and made again since, at either side. So ours carry the ids of
both topics, and a record with other ids voids all before it. Pairs beyond the mirror's position or beyond the end of
the target are void too: the mirror was sent back, or the target lost records. MirrorMaker 2 had such offsets carried
over (KAFKA-12468).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from odradek.client.consumer.blocks import ConsumerRecord
from odradek.foundation.errors import InvalidRequest
from odradek.foundation.ids import TopicPartition
from odradek.foundation.named_tuple import NamedTuple
from odradek.mirror.formats import (
    Checkpoint,
    TopicIds,
    parse_checkpoint,
    parse_offset_sync,
    parse_run_header,
    parse_topics_header,
)
from odradek.mirror.offset_translation import OffsetRun, PartitionIndex, point

logger = logging.getLogger(__name__)

CheckpointKey = tuple[str, TopicPartition]


class Mirrored(NamedTuple):
    """One partition as it is when this worker begins with it."""

    target: TopicPartition
    ids: TopicIds | None
    """The topics' ids at both sides; None where a broker does not report ids."""
    position: int
    target_end_offset: int


class History:
    """Collects what is stored about some partitions of a source. Feed it all syncs, oldest first, and checkpoints."""

    def __init__(self, partitions: Mapping[TopicPartition, Mirrored]) -> None:
        self._partitions = partitions
        self._by_target = {mirrored.target: source for source, mirrored in partitions.items()}
        self._syncs: dict[TopicPartition, PartitionIndex] = {}
        self.checkpoints: dict[CheckpointKey, Checkpoint] = {}
        """The last checkpoint of each group for these partitions, by the partition at the target."""

    def add_syncs(self, records: Iterable[ConsumerRecord]) -> None:
        """Read a part of the topic of offset syncs."""
        for record in records:
            try:
                sync = parse_offset_sync(record.key or b"", record.value or b"")
            except InvalidRequest as refused:
                logger.warning("offset sync at offset %d is left out: %s", record.offset, refused)
                continue
            mirrored = self._partitions.get(sync.partition)
            if mirrored is None:
                continue
            if not _is_of(mirrored, parse_topics_header(record.headers)):
                self._syncs.pop(sync.partition, None)
                continue
            run = parse_run_header(record.headers)
            if run is None:
                first, target = sync.source_offset, sync.target_offset
                run = OffsetRun(first, first + 1, target, target + 1, 1)
            if run.is_possible:
                self._syncs.setdefault(sync.partition, PartitionIndex()).add(run)

    def add_checkpoints(self, records: Iterable[ConsumerRecord]) -> None:
        """Read a part of the topic of checkpoints."""
        for record in records:
            if record.value is None:
                continue
            try:
                checkpoint = parse_checkpoint(record.key or b"", record.value)
            except InvalidRequest as refused:
                logger.warning("checkpoint at offset %d is left out: %s", record.offset, refused)
                continue
            source = self._by_target.get(checkpoint.partition)
            if source is None:
                continue
            key = (checkpoint.group_id, checkpoint.partition)
            if _is_of(self._partitions[source], parse_topics_header(record.headers)):
                self.checkpoints[key] = checkpoint
            else:
                self.checkpoints.pop(key, None)

    def runs(self, partition: TopicPartition) -> list[OffsetRun]:
        """The known runs of a partition of the source before its position, oldest first."""
        mirrored = self._partitions[partition]
        runs = [
            run
            for run in self._syncs.get(partition, ())
            if run.source_end_offset <= mirrored.position
            and run.target_end_offset <= mirrored.target_end_offset
        ]
        points = sorted(
            (checkpoint.source_offset, checkpoint.target_offset)
            for checkpoint in self.checkpoints.values()
            if checkpoint.partition == mirrored.target
            and 0 <= checkpoint.source_offset <= mirrored.position
            and 0 <= checkpoint.target_offset <= mirrored.target_end_offset
        )
        return list(_merge_points(runs, [point(*pair) for pair in points]))


def _is_of(mirrored: Mirrored, stored: TopicIds | None) -> bool:
    """Whether a stored record may be of the topics that exist now."""
    return stored is None or mirrored.ids is None or stored == mirrored.ids


_END: Final = OffsetRun(2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1, 0)


def _merge_points(runs: list[OffsetRun], points: list[OffsetRun]) -> Iterator[OffsetRun]:
    """The runs, and the points that lie between two of them on both sides."""
    before: OffsetRun | None = None
    at = 0
    for run in [*runs, _END]:
        while at < len(points) and points[at].source_first_offset <= run.source_first_offset:
            stored = points[at]
            at += 1
            is_after = before is None or (
                stored.source_first_offset >= before.source_end_offset
                and stored.target_first_offset >= before.target_end_offset
            )
            if is_after and stored.target_first_offset <= run.target_first_offset:
                yield stored
                before = stored
        if run is not _END:
            yield run
            before = run
