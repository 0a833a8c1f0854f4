"""Removal of files that are no part of a Parquet table: those of killed runs, and those that a replay replaced.

A run may still be at work on files that look left. So its name is fenced by a manifest first, and only then are its
files removed: such a run can no longer publish them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from odradek_pipeline.outputs.parquet.log import ManifestLog, with_fenced_runs
from odradek_pipeline.outputs.parquet.manifests import Manifest
from odradek_pipeline.outputs.parquet.store import FileStore, StoredFile
from odradek_pipeline.runs.record import VACUUM, RunRecord, began_ms

_DATA: Final = "data"


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The removed files, and the runs that can no longer publish."""

    files: int
    size_bytes: int
    fenced: tuple[str, ...]


def vacuum(store: FileStore, run: str, age_ms: int, clock_ms: Callable[[], int]) -> Vacuumed | None:
    """Remove what has been no part of the table for `age_ms`; None without a table. `run` is the name of this one."""
    log = ManifestLog(store, clock_ms)
    newest = log.read_newest()
    if newest is None:
        return None
    before_ms = clock_ms() - age_ms
    found = _find_removable(store, log, newest, before_ms)
    if not found:
        return Vacuumed(0, 0, ())
    live_runs = {_run_of(path) for path in log.list_live(newest.version)}
    fenced = tuple(sorted({_run_of(one.path) for one in found} - live_runs))
    record = RunRecord(
        run=run,
        kind=VACUUM,
        number=newest.record.number + 1,
        cluster_id=newest.record.cluster_id,
        ranges=(),
        holdings=newest.record.holdings,
        columns=newest.record.columns,
        started_ms=clock_ms(),
        queries=newest.record.queries,
        snapshots=newest.record.snapshots,
    )
    manifest = log.publish(newest.version, with_fenced_runs(record, fenced), [], [])
    log.make_checkpoint(manifest.version)
    # One of them may have been published while this run looked; from here on none can.
    live = log.list_live(manifest.version)
    left = [one for one in found if one.path not in live]
    for one in left:
        store.remove(one.path)
    return Vacuumed(len(left), sum(one.size_bytes for one in left), fenced)


def _find_removable(store: FileStore, log: ManifestLog, newest: Manifest, before_ms: int) -> list[StoredFile]:
    live = log.list_live(newest.version)
    replaced_lately: set[str] = set()
    for manifest in log.read_history(newest.version):
        if manifest.record.committed_ms < before_ms:
            break
        replaced_lately.update(manifest.removed)
    return [
        one
        for one in store.list_files(_DATA)
        if one.path not in live and one.path not in replaced_lately and _began_ms(one.path) < before_ms
    ]


def _run_of(path: str) -> str:
    return path.split("/")[1]


def _began_ms(path: str) -> int:
    """Return the start of a file's run in milliseconds, by its name. A name that is not ours counts as new."""
    began = began_ms(_run_of(path))
    return 2**63 if began is None else began
