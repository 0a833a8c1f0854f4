"""The log of manifests on a real folder: exclusive versions, rivals, checkpoints, and what a restart reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek_pipeline.errors import FencedError, RecordLostError
from odradek_pipeline.outputs.parquet.log import MANIFESTS, ManifestLog
from odradek_pipeline.outputs.parquet.manifests import DataFile, rungs, span_at
from odradek_pipeline.outputs.parquet.store import LocalStore
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey
from odradek_pipeline.runs.record import LOAD, REPLAY, RunRecord

KEY = PartitionKey("t", "id", 0)


class CountingStore(LocalStore):
    """Counts what is read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []

    def read(self, path: str) -> bytes | None:
        self.reads.append(path)
        return super().read(path)


def span(start: int, end: int) -> OffsetRange:
    return OffsetRange(KEY, start, end)


def load(number: int, start: int, end: int) -> RunRecord:
    holdings = Holdings.none().with_ranges([span(0, end)], "c")
    return RunRecord(f"run-{number}-{start}", LOAD, number, "c", (span(start, end),), holdings, started_ms=0)


def file_of(record: RunRecord) -> DataFile:
    return DataFile(f"data/{record.run}/part-0.parquet", record.ranges[0], record.span, 100)


def log(folder: Path) -> ManifestLog:
    return ManifestLog(LocalStore(folder), lambda: 7)


def filled(folder: Path, count: int) -> ManifestLog:
    made = log(folder)
    for number in range(1, count + 1):
        record = load(number, (number - 1) * 10, number * 10)
        made.publish(number - 1, record, [file_of(record)], [])
        made.make_checkpoint(number)
    return made


def test_a_version_is_published_once(tmp_path: Path) -> None:
    made = log(tmp_path)
    assert made.read_newest() is None
    first = made.publish(0, load(1, 0, 10), [file_of(load(1, 0, 10))], [])
    assert (first.version, first.record.committed_ms) == (1, 7)
    assert made.read_newest() == first
    with pytest.raises(FencedError, match=r"committed t-0 0\.\.10 while this run had t-0 0\.\.12"):
        made.publish(0, load(9, 0, 12), [], [])
    assert made.publish(0, load(1, 0, 10), [], []) == first, "the answer was lost: it is there already"
    assert sorted(path.name for path in (tmp_path / MANIFESTS).iterdir()) == [f"{1:020}.json"]


def test_a_replay_follows_a_load_unless_both_replace_a_file(tmp_path: Path) -> None:
    made = filled(tmp_path, 2)
    replays = [
        RunRecord(f"replay-{start}", REPLAY, 3, "c", (span(start, end),), load(2, 0, 20).holdings, 0)
        for start, end in ((2, 4), (6, 8), (12, 14))
    ]
    shared = file_of(load(1, 0, 10)).path
    assert made.publish(2, replays[0], [], [shared]).version == 3
    with pytest.raises(FencedError, match="replaced 1 files that this run was to replace"):
        made.publish(2, replays[1], [], [shared])
    late = made.publish(2, replays[2], [], [file_of(load(2, 10, 20)).path])
    assert (late.version, late.record.number) == (4, 4)
    assert made.list_live(4) == {}


def test_a_restart_reads_one_manifest_however_many_there_are(tmp_path: Path) -> None:
    filled(tmp_path, 45)
    store = CountingStore(tmp_path)
    newest = ManifestLog(store, lambda: 7).read_newest()
    assert newest is not None and newest.version == 45
    assert newest.record.holdings.end(KEY) == 450
    assert len(store.reads) <= 3  # the hint, the newest, and a look for the next


@pytest.mark.thorough
def test_live_files_are_read_from_few_checkpoints(tmp_path: Path) -> None:
    made = filled(tmp_path, 405)
    store = CountingStore(tmp_path)
    live = ManifestLog(store, lambda: 7).list_live(405)
    assert len(live) == 405
    assert len(store.reads) == 6  # five manifests, and the checkpoint of 400
    assert [(version, size) for version, size in rungs(445)][5:] == [(440, 20), (420, 20), (400, 400)]
    assert [span_at(version) for version in (1, 19, 20, 60, 400, 8000)] == [1, 1, 20, 20, 400, 8000]
    removed = made.publish(405, load(406, 4050, 4060), [], sorted(live)[:400])
    assert len(made.list_live(removed.version)) == 5


def test_lost_hints_and_checkpoints_cost_time_alone(tmp_path: Path) -> None:
    made = filled(tmp_path, 41)
    (tmp_path / "_odradek" / "newest").unlink()
    for path in (tmp_path / "_odradek" / "checkpoints").iterdir():
        path.unlink()
    newest = made.read_newest()
    assert newest is not None and newest.version == 41
    assert len(made.list_live(41)) == 41
    (tmp_path / "_odradek" / "newest").write_text("12")
    found = made.read_newest()
    assert found is not None and found.version == 41


def test_a_hole_in_the_log_is_named(tmp_path: Path) -> None:
    made = filled(tmp_path, 3)
    (tmp_path / MANIFESTS / f"{2:020}.json").unlink()
    with pytest.raises(RecordLostError, match=rf"record-lost: .*{2:020}\.json is missing"):
        made.list_live(3)


def test_a_manifest_of_a_later_format_is_refused(tmp_path: Path) -> None:
    made = filled(tmp_path, 1)
    path = tmp_path / MANIFESTS / f"{1:020}.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 2}))
    with pytest.raises(RecordLostError, match="has format 2, and this version reads up to 1"):
        made.read_newest()
