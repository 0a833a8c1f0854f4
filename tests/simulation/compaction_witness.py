"""What was ever in the compacted logs of a simulation: each round of compaction is looked at before it begins.

A round may only remove what is committed, and what its own dirty part had at some time. So all that any cleaner has
removed is known here, offset by offset, and the checks at the end know the whole log.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, NamedTuple

from odradek.broker.replication.cleaning_work import InlineWork
from odradek.foundation.errors import CorruptRecord
from odradek.storage.compaction.task import CleanedRun, CleaningSummary, CleaningTask
from odradek.storage.files import Disk
from odradek.storage.segment import LOG_SUFFIX
from odradek.wire.records.batch import BatchView, split
from odradek.wire.records.control import parse_marker
from odradek.wire.records.record import records
from tests.histories.compaction import Kept

ID: Final = "id"
"""The header that names a record: a tombstone has no value to do so."""


class Seen(NamedTuple):
    """A record, or the marker that ends a transaction."""

    kept: Kept
    producer_id: int
    """-1 unless it belongs to a transaction."""
    is_marker: bool = False
    is_commit: bool = False


class Witness:
    """All that was seen, by partition (as "topic-0") and offset."""

    def __init__(self, topic: str) -> None:
        self._prefix = f"{topic}-"
        self._seen: dict[str, dict[int, Seen]] = {}
        self.cleaned_below: dict[str, int] = {}
        """The first offset that no cleaner was allowed to touch so far."""
        self.rounds = 0
        self.conflicts: list[str] = []

    def before_round(self, broker_id: int, disk: Disk, task: CleaningTask) -> None:
        """A round is about to begin."""
        if not task.name.startswith(self._prefix):
            return
        self.rounds += 1
        below = max(self.cleaned_below.get(task.name, 0), task.first_uncleanable_offset)
        self.cleaned_below[task.name] = below
        for segment in task.segments:
            if segment.next_base_offset <= task.first_dirty_offset:
                continue
            data = disk.read(f"{task.directory}/{segment.base_offset:020d}{LOG_SUFFIX}")
            try:
                batches = split(memoryview(data[: segment.size_bytes]))
                self.observe(broker_id, task.name, verify_all(batches, below=segment.next_base_offset))
            except CorruptRecord:
                return  # the round will find it, too

    def observe(self, broker_id: int, partition: str, batches: Iterable[BatchView]) -> None:
        """Batches that are committed, and verified."""
        seen = self._seen.setdefault(partition, {})
        for batch in batches:
            for one in _seen_in(batch):
                before = seen.setdefault(one.kept.offset, one)
                if before != one:
                    self.conflicts.append(
                        f"broker {broker_id} has {one} in {partition}; there was {before} at this offset"
                    )

    def written(self, partition: str) -> dict[int, Kept]:
        """All records by offset, those of aborted and open transactions as not visible."""
        found: dict[int, Kept] = {}
        is_open: dict[int, list[int]] = {}
        for offset, one in sorted(self._seen.get(partition, {}).items()):
            if one.is_marker:
                for written in is_open.pop(one.producer_id, ()):
                    found[written] = found[written]._replace(is_visible=one.is_commit)
            elif one.producer_id >= 0:
                found[offset] = one.kept._replace(is_visible=False)
                is_open.setdefault(one.producer_id, []).append(offset)
            else:
                found[offset] = one.kept
        return found


def verify_all(batches: Iterable[BatchView], *, below: int) -> list[BatchView]:
    """These batches. Raises CorruptRecord unless the CRC of each is right, and their offsets rise and end below."""
    found = list(batches)
    before = -1
    for batch in found:
        batch.verify()
        # No CRC covers the base offset.
        if not before < batch.header.base_offset <= batch.last_offset < below:
            raise CorruptRecord(f"a batch up to {batch.last_offset} follows offset {before}")
        before = batch.last_offset
    return found


def _seen_in(batch: BatchView) -> list[Seen]:
    if batch.is_control:
        marker = parse_marker(batch)
        if marker is None:
            return []
        # What it writes beside the outcome may differ: a horizon, a later attempt of the coordinator.
        kept = Kept(batch.header.last_offset, b"", None)
        return [Seen(kept, marker.producer_id, is_marker=True, is_commit=marker.is_commit)]
    producer_id = batch.header.producer_id if batch.header.is_transactional else -1
    return [
        Seen(Kept(one.offset, one.key or b"", one.value, one.timestamp_ms, tuple(one.headers)), producer_id)
        for one in records(batch)
    ]


class WatchedWork(InlineWork):
    """A round of compaction that a witness sees begin."""

    def __init__(self, disk: Disk, broker_id: int, witness: Witness) -> None:
        super().__init__(disk)
        self._broker_id = broker_id
        self._witness = witness

    async def runs(self, task: CleaningTask, summary: CleaningSummary) -> AsyncGenerator[CleanedRun, None]:
        self._witness.before_round(self._broker_id, self._disk, task)
        async with aclosing(super().runs(task, summary)) as runs:
            async for run in runs:
                yield run


def name_of(kept: Kept) -> str:
    """A record's own name, the same wherever it is."""
    return next((value.decode() for key, value in kept.headers if key == ID and value), "")
