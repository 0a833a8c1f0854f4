"""Logs to compact, on any disk, and an exact model of what compaction may leave."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from odradek.storage.compaction.candidates import cleanable, task_for
from odradek.storage.compaction.cleaning import Means, clean
from odradek.storage.compaction.offset_map import OffsetMap, PlainOffsetMap
from odradek.storage.compaction.task import CleaningSummary, CleaningTask
from odradek.storage.config import LogConfig
from odradek.storage.files import Disk
from odradek.storage.log import Log, Origin
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.support.logs import START_MS, StillClock, end_transaction

CONFIG = LogConfig(
    cleanup_compact=True,
    cleanup_delete=False,
    index_interval_bytes=100,
    segment_bytes=8192,
    delete_retention_ms=60_000,
)

MakeMap = Callable[[CleaningTask], OffsetMap]


def plain(task: CleaningTask) -> OffsetMap:
    return PlainOffsetMap(
        capacity_bytes=task.map_bytes, load_factor=0.9, records_max=task.offset_range, keys_directory=None
    )


def compact(
    log: Log,
    *,
    clock: StillClock,
    disk: Disk,
    make_map: MakeMap = plain,
    removal_bound_offset: int | None = None,
    last_stable_offset: int | None = None,
    **settings: Any,
) -> CleaningSummary:
    """One round, as the broker runs it, swaps included."""
    stable = log.producers.transactions.last_stable_offset(high_watermark=log.log_end_offset)
    found = cleanable(
        log,
        last_stable_offset=stable if last_stable_offset is None else last_stable_offset,
        now_ms=clock.wall_ms(),
    )
    summary = CleaningSummary()
    if not found.dirty_bytes:
        return summary
    bound = max(log.offsets.cleaned_offset, 0) if removal_bound_offset is None else removal_bound_offset
    values: dict[str, Any] = {
        "map_bytes": 1 << 20,
        "map_load_factor": 0.9,
        "window_bytes": 1 << 16,
        "bytes_per_second": 1e300,
    }
    task = task_for(found, removal_bound_offset=bound, now_ms=clock.wall_ms(), **(values | settings))
    by_base = {segment.base_offset: segment for segment in found.segments}
    offset_map = make_map(task)
    try:
        for run in clean(task, Means(disk=disk, offset_map=offset_map), summary):
            log.swap_segments([by_base[base] for base in run.replaced], run.base_offsets)
    finally:
        offset_map.close()
    log.offsets.cleaned_offset = summary.next_dirty_offset
    return summary


class Writer:
    """Fills a log at random: several producers, open and ended transactions, tombstones, all codecs."""

    def __init__(
        self, log: Log, rng: random.Random, *, keys: int = 12, clock: StillClock | None = None
    ) -> None:
        self.log = log
        self.clock = clock or StillClock()
        self._rng = rng
        self._keys = [b"k%d" % number for number in range(keys)]
        # Of markers' keys, which user keys may equal (KAFKA-14055), and of other lengths.
        self._keys += [b"\0\0\0\0", b"\0\0\0\1", b"", b"long " * 5, b"\0", b"\0\0"]
        self._sequences: dict[int, int] = {}
        self._open: set[int] = set()

    def step(self) -> None:
        """One batch, marker, roll, or passing of time."""
        kind = self._rng.random()
        if kind < 0.12 and self._open:
            self.end(self._rng.choice(sorted(self._open)), is_commit=self._rng.random() < 0.5)
        elif kind < 0.2:
            self.log.roll()
        elif kind < 0.25:
            self.clock.advance(self._rng.choice((1, 1000, 10_000)))
        else:
            self.write(self._rng.choice((-1, -1, 1, 2, 3)))

    def write(self, producer_id: int) -> None:
        """A batch of some records; producers above 1 are transactional."""
        rng = self._rng
        records = [
            (
                self.clock.wall_ms() - rng.choice((0, 5, 5000)),
                rng.choice(self._keys),
                rng.choice((None, b"", b"value %d" % rng.randrange(1000))),
                [("h", b"x")] if rng.random() < 0.1 else [],
            )
            for _ in range(rng.choice((1, 1, 2, 5, 20)))
        ]
        fields: dict[str, Any] = {"compression": rng.choice(list(Compression))}
        if producer_id >= 0:
            sequence = self._sequences.get(producer_id, 0)
            self._sequences[producer_id] = sequence + len(records)
            fields |= {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        if producer_id > 1:
            fields["is_transactional"] = True
            self._open.add(producer_id)
        self.log.append(build_batch(records, **fields), leader_epoch=0, origin=Origin.COORDINATOR)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """The marker of an open transaction."""
        self._open.discard(producer_id)
        end_transaction(self.log, producer_id, is_commit=is_commit, timestamp_ms=self.clock.wall_ms())

    def end_all(self) -> None:
        """No transaction is open any more."""
        for producer_id in sorted(self._open):
            self.end(producer_id, is_commit=self._rng.random() < 0.5)


__all__ = ["CONFIG", "START_MS", "Writer", "compact", "plain"]
