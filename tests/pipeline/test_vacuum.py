"""A vacuum removes what is no part of a table, and no run can publish what it removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek_pipeline.errors import FencedError
from odradek_pipeline.outputs.parquet.log import ManifestLog
from odradek_pipeline.outputs.parquet.manifests import DataFile
from odradek_pipeline.outputs.parquet.store import LocalStore
from odradek_pipeline.outputs.parquet.vacuum import Vacuumed, vacuum
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey
from odradek_pipeline.runs.record import LOAD, REPLAY, RunRecord, run_id

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS
KEY = PartitionKey("t", "id", 0)


def run_at(store: LocalStore, hour: int, kind: str, start: int, end: int) -> tuple[RunRecord, DataFile]:
    """A run that began at this hour and wrote its file."""
    name = run_id(hour * HOUR_MS, bytes([hour]))
    span = OffsetRange(KEY, start, end)
    store.write(f"data/{name}/part-0.parquet", b"rows")
    holdings = Holdings.none().with_ranges([OffsetRange(KEY, 0, end)], "c")
    record = RunRecord(name, kind, 1, "c", (span,), holdings, started_ms=hour * HOUR_MS)
    return record, DataFile(f"data/{name}/part-0.parquet", span, end - start, 4)


def test_what_is_no_part_of_the_table_goes_after_its_time(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    now_ms = HOUR_MS
    log = ManifestLog(store, lambda: now_ms)
    assert vacuum(store, "v", 0, lambda: NOW_MS) is None
    loaded, first = run_at(store, 1, LOAD, 0, 10)
    log.publish(0, loaded, [first], [])
    killed, orphan = run_at(store, 2, LOAD, 10, 20)
    young, recent = run_at(store, 99, LOAD, 10, 30)
    replayed, again = run_at(store, 3, REPLAY, 0, 10)
    now_ms = 90 * HOUR_MS
    log.publish(1, replayed, [again], [first.path])
    made = vacuum(store, "v", 24 * HOUR_MS, lambda: NOW_MS)
    assert made == Vacuumed(1, 4, (killed.run,)), "a reader may still have the file that was replaced"
    assert {one.path for one in store.list_files("data")} == {first.path, again.path, recent.path}
    with pytest.raises(FencedError, match="removed its files"):
        log.publish(2, killed, [orphan], [])
    assert log.publish(2, young, [recent], []).version == 4
    later = vacuum(store, "w", 24 * HOUR_MS, lambda: NOW_MS + 100 * HOUR_MS)
    assert later is not None and later.files == 1
    assert {one.path for one in store.list_files("data")} == {again.path, recent.path}
    assert set(log.list_live(5)) == {again.path, recent.path}
