"""The first append after a clean restart, also where something else has read the segment's first timestamp before."""

from __future__ import annotations

from odradek.storage.compaction.candidates import is_roll_overdue
from odradek.storage.config import LogConfig
from tests.support.disk import SimulatedDisk
from tests.support.logs import START_MS, batch, open_log, stored_records

CONFIG = LogConfig(cleanup_compact=True, cleanup_delete=False, max_compaction_lag_ms=60_000)


def test_a_look_for_a_due_roll_does_not_break_it() -> None:
    disk = SimulatedDisk()
    log = open_log(disk, config=CONFIG)
    log.append(batch(b"one"), leader_epoch=0)
    log.close()
    again = open_log(disk, config=CONFIG, clean=True)
    assert not is_roll_overdue(again, now_ms=START_MS)
    again.append(batch(b"two"), leader_epoch=0)
    assert [(record.offset, record.value) for record in stored_records(again)] == [(0, b"one"), (1, b"two")]
