"""A loss of power leaves a part of a closed segment, whole batches: also a compacted log ends there then."""

from __future__ import annotations

import pytest

from odradek.storage.config import LogConfig
from tests.support.disk import SimulatedDisk
from tests.support.logs import DIRECTORY, batch, open_log, stored_records

COMPACTED = LogConfig(cleanup_compact=True, cleanup_delete=False, segment_bytes=300)
BATCH_BYTES = len(batch(b"value"))


@pytest.mark.parametrize("batches", [0, 1])
def test_the_log_ends_before_the_records_that_are_gone(batches: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=COMPACTED)
    for _ in range(12):
        log.append(batch(b"value"), leader_epoch=0)
    bases = [segment.base_offset for segment in log.segments.all]
    assert len(bases) > 3
    path = f"{DIRECTORY}/{bases[1]:020d}.log"
    disk.replace(path, disk.read(path)[: batches * BATCH_BYTES])
    disk.kill()
    again = open_log(disk, config=COMPACTED, recovery_point=bases[1])
    assert again.log_end_offset == bases[1] + batches
    assert [record.offset for record in stored_records(again)] == list(range(bases[1] + batches))


def test_a_gap_in_what_was_synced_stays() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=COMPACTED)
    for _ in range(12):
        log.append(batch(b"value"), leader_epoch=0)
    bases = [segment.base_offset for segment in log.segments.all]
    path = f"{DIRECTORY}/{bases[1]:020d}.log"
    disk.replace(path, disk.read(path)[:BATCH_BYTES])
    disk.kill()
    again = open_log(disk, config=COMPACTED, recovery_point=bases[2])
    assert again.log_end_offset == 12


def test_a_follower_closes_its_segment_where_the_next_begins() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=COMPACTED)
    for offset in (0, 5, 10, 15, 20, 25):
        copied = batch(b"value", base_offset=offset)
        log.append_as_follower(copied)
    bases = [segment.base_offset for segment in log.segments.all]
    assert len(bases) > 1
    assert all(base == 0 or (base - 1) % 5 == 0 for base in bases)
    disk.kill()
    assert open_log(disk, config=COMPACTED).log_end_offset == 26
