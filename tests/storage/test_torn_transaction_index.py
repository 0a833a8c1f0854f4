"""A loss of power leaves less of a `.txnindex` than of its log: the start writes it again from the log."""

from __future__ import annotations

import random

import pytest

from odradek.storage.config import LogConfig
from odradek.storage.log import Log
from tests.support.disk import SimulatedDisk
from tests.support.logs import batch, end_transaction, open_log, visible_offsets

CONFIG = LogConfig(segment_bytes=600)


def _write(log: Log) -> set[int]:
    """Aborted and committed transactions over several segments; the offsets of committed records."""
    committed = set()
    for number in range(40):
        producer_id = 1 + number % 3
        data = batch(
            b"value %d" % number,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=number // 3,
            is_transactional=True,
        )
        offset = log.append(data, leader_epoch=0).first_offset
        is_commit = number % 4 == 0
        if is_commit:
            committed.add(offset)
        end_transaction(log, producer_id, is_commit=is_commit)
    return committed


@pytest.mark.parametrize("flushed_below", [0, 30])
@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "zeros", "noise"])
def test_no_aborted_record_is_shown_after_a_loss_of_power(damage: str, flushed_below: int) -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    committed = _write(log)
    assert len(log.segments.all) > 5
    for path in disk.paths(".txnindex"):
        if int(path.rpartition("/")[2].partition(".")[0]) < flushed_below:
            continue
        data = disk.read(path)
        if damage == "gone":
            disk.remove(path)
        else:
            torn = {
                "empty": b"",
                "torn": data[: len(data) - 11],
                "zeros": bytes(len(data)),
                "noise": random.Random(1).randbytes(len(data)),
            }
            disk.replace(path, torn[damage])
    disk.kill()
    # The segment that holds the recovery point is the first one that may be damaged.
    again = open_log(disk, config=CONFIG, recovery_point=flushed_below + 1)
    assert set(visible_offsets(again)) == committed


@pytest.mark.parametrize("seed", range(20))
def test_a_flush_covers_the_indexes_of_closed_segments(seed: int) -> None:
    """Segments below the recovery point are not scanned, so nothing of theirs may be left to the page cache."""
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    log.flush()
    committed = _write(log)
    log.flush()
    recovery_point = log.recovery_point
    disk.crash(random.Random(seed) if seed else None)
    again = open_log(disk, config=CONFIG, recovery_point=recovery_point)
    assert set(visible_offsets(again)) == committed
    for segment in again.segments.all[:-1]:
        segment.transaction_index.entries()
