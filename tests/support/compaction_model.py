"""An exact model of compaction: all that was written, and what may be left of it."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator

from odradek.storage.compaction.offset_map import OffsetMap
from odradek.storage.compaction.task import CleaningTask
from odradek.storage.compaction.vector_map import VectorOffsetMap
from odradek.storage.log import Log
from odradek.wire.records.batch import BatchView
from odradek.wire.records.control import Marker, parse_marker
from odradek.wire.records.record import Record, records
from tests.support.compaction import CONFIG, MakeMap, Writer, compact, plain
from tests.support.disk import SimulatedDisk
from tests.support.logs import StillClock, open_log, stored_batches, visible_offsets


def by_vectors(bits: int) -> MakeMap:
    """A map whose hash has only so many bits."""

    def make(task: CleaningTask) -> OffsetMap:
        return VectorOffsetMap(
            capacity_bytes=task.map_bytes,
            load_factor=0.9,
            records_max=task.offset_range,
            keys_directory=tempfile.gettempdir(),
            hash_bits=bits,
        )

    return make


class Model:
    """All that was ever written, and what a reader of committed records may see of it."""

    def __init__(self, log: Log) -> None:
        self.records: dict[int, Record] = {}
        self.aborted: set[int] = set()
        self._open: dict[int, list[int]] = {}
        self._next = 0
        self.follow(log)

    def follow(self, log: Log) -> None:
        """Take in what was appended since."""
        for batch in stored_batches(log, from_offset=self._next):
            header = batch.header
            if header.base_offset < self._next:
                continue
            if header.is_control:
                marker = parse_marker(batch)
                assert marker is not None
                self._end(marker)
                continue
            found = {one.offset: one for one in records(batch)}
            self.records |= found
            if header.is_transactional:
                self._open.setdefault(header.producer_id, []).extend(found)
        self._next = log.log_end_offset

    def _end(self, marker: Marker) -> None:
        offsets = self._open.pop(marker.producer_id, [])
        if not marker.is_commit:
            self.aborted.update(offsets)

    def check(self, log: Log) -> None:
        """Compare with what the log holds now."""
        cleaned = log.offsets.cleaned_offset
        held = {one.offset: one for batch in data_batches(log) for one in records(batch)}
        offsets = [one.offset for batch in data_batches(log) for one in records(batch)]
        assert offsets == sorted(held)
        for offset, record in held.items():
            assert record == self.records[offset]
        newest: dict[bytes, int] = {}
        for offset, record in self.records.items():
            if offset < cleaned and offset not in self.aborted and record.key is not None:
                newest[record.key] = offset
        for offset, record in self.records.items():
            if offset in self.aborted:
                assert offset >= cleaned or offset not in held, f"{offset} was aborted"
            elif offset >= cleaned:
                assert offset in held, f"{offset} was not due"
            elif record.key is None or newest[record.key] != offset:
                assert offset not in held, f"{offset} has a newer one"
            elif record.value is not None:
                assert offset in held, f"{offset} is the newest of {record.key!r}"
        stable = log.producers.transactions.last_stable_offset(high_watermark=log.log_end_offset)
        assert visible_offsets(log) == [
            offset for offset in offsets if offset < stable and offset not in self.aborted
        ]


def data_batches(log: Log) -> Iterator[BatchView]:
    return (batch for batch in stored_batches(log) if not batch.is_control)


def state(log: Log) -> tuple[object, ...]:
    """What a restart has to bring back."""
    return (
        log.log_end_offset,
        sorted(one[:5] + one[6:] for one in log.producers.entries()),
        log.producers.transactions.last_stable_offset(high_watermark=log.log_end_offset),
    )


def rounds(seed: int, *, hash_bits: int = 3) -> None:
    """Compact a random log some times, and compare with the model after each round and restart."""
    rng = random.Random(seed)
    disk, clock = SimulatedDisk(), StillClock()
    log = open_log(disk, clock=clock, config=CONFIG)
    writer = Writer(log, rng, clock=clock)
    model = Model(log)
    for _ in range(6):
        for _ in range(rng.choice((5, 40, 120))):
            writer.step()
        if rng.random() < 0.5:
            writer.end_all()
        if rng.random() < 0.7:
            log.roll()
        model.follow(log)
        before = state(log)
        map_bytes = rng.choice((1 << 20, 1 << 20, 200))
        compact(
            log,
            clock=clock,
            disk=disk,
            make_map=rng.choice([plain, by_vectors(64), by_vectors(hash_bits)]),
            map_bytes=map_bytes,
            window_bytes=rng.choice((100, 1 << 16)),
        )
        assert state(log) == before
        model.check(log)
        clock.advance(rng.choice((0, 1000, CONFIG.delete_retention_ms + 1)))
        if rng.random() < 0.5:
            cleaned = log.offsets.cleaned_offset
            log.close()
            is_clean = rng.random() < 0.5
            if not is_clean:
                # The state of producers is read from the log then.
                for path in disk.paths(".snapshot"):
                    disk.remove(path)
            log = open_log(disk, clock=clock, config=CONFIG, clean=is_clean)
            log.offsets.cleaned_offset = cleaned
            writer.log = log
            assert state(log) == before
            model.check(log)
