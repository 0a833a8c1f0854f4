"""What a round holds at once: bounded by decompressed bytes, however well the log is compressed."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass

import pytest

from odradek.storage.compaction import task
from odradek.storage.compaction.reading import portions
from odradek.storage.compaction.task import CleaningSummary
from odradek.storage.config import LogConfig
from odradek.storage.log import Log, Origin
from odradek.wire.records.builder import build_batch
from odradek.wire.records.compression import Compression
from tests.support.compaction import MakeMap, compact, plain
from tests.support.compaction_model import by_vectors
from tests.support.disk import SimulatedDisk
from tests.support.logs import START_MS, StillClock, open_log

WINDOW_BYTES = 256 * 1024
# A portion, the columns of its records and what becomes of them, besides buffers for reading and writing.
PEAK_BYTES_MAX = 5 * 1024 * 1024
# The records of one batch, and what is made of them.
BATCHES_MAX = 6
MAPS: dict[str, MakeMap] = {"plain": plain, "vectors": by_vectors(64)}


@dataclass(frozen=True)
class Shape:
    """A log of equal batches, each with every key once."""

    batches: int
    records: int
    value_bytes: int

    @property
    def batch_bytes(self) -> int:
        return self.records * self.value_bytes

    def log(self, disk: SimulatedDisk, codec: Compression) -> Log:
        log = open_log(disk, config=LogConfig(cleanup_compact=True, cleanup_delete=False))
        for number in range(self.batches):
            value = b"%d" % number + bytes(self.value_bytes)
            records = [(START_MS, b"key %d" % key, value) for key in range(self.records)]
            log.append(build_batch(records, compression=codec), leader_epoch=0, origin=Origin.COORDINATOR)
        log.roll()
        return log


SHAPES = {
    "large batches": Shape(batches=40, records=10, value_bytes=50_000),
    "many small batches": Shape(batches=600, records=3, value_bytes=1000),
    "many records": Shape(batches=40, records=1000, value_bytes=2),
    "one batch over the bound": Shape(batches=3, records=10, value_bytes=150_000),
}


def peak_of_a_round(log: Log, disk: SimulatedDisk, make_map: MakeMap) -> tuple[int, CleaningSummary]:
    """The most bytes that were allocated at once, those before the round left out."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        summary = compact(log, clock=StillClock(), disk=disk, make_map=make_map, window_bytes=WINDOW_BYTES)
        return tracemalloc.get_traced_memory()[1] - before, summary
    finally:
        tracemalloc.stop()


@pytest.mark.thorough
@pytest.mark.parametrize("make_map", MAPS.values(), ids=MAPS.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_well_compressed_batches_take_no_more_than_the_bound(shape: Shape, make_map: MakeMap) -> None:
    disk = SimulatedDisk()
    log = shape.log(disk, Compression.LZ4)
    peak_bytes, summary = peak_of_a_round(log, disk, make_map)
    assert summary.records_read == shape.batches * shape.records
    assert summary.records_kept == shape.records
    assert peak_bytes < PEAK_BYTES_MAX + shape.batch_bytes * BATCHES_MAX


def test_without_portions_a_window_takes_all_that_it_decompresses_to() -> None:
    """The measurement finds what the bound is for."""
    disk = SimulatedDisk()
    log = SHAPES["large batches"].log(disk, Compression.ZSTD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "_WINDOWS_PER_PORTION", 1 << 20)
        peak_bytes, _ = peak_of_a_round(log, disk, by_vectors(64))
    assert peak_bytes > 2 * PEAK_BYTES_MAX


def test_portions_are_in_order_and_bounded() -> None:
    sizes = [3, 3, 3, 9, 1, 8, 20, 1]
    assert list(portions(sizes, size_of=int, bytes_max=9)) == [[3, 3, 3], [9], [1, 8], [20], [1]]
    asked: list[int] = []

    def size_of(item: int) -> int:
        asked.append(item)
        return item

    assert next(portions(sizes, size_of=size_of, bytes_max=5)) == [3]
    assert asked == [3, 3]
