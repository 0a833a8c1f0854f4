"""The log of manifests in a store: the newest version, publishing, live files, history.

    _odradek/manifests/00000000000000000042.json     one commit, made exclusively
    _odradek/checkpoints/00000000000000000040.20.json   a sum of commits; two writers make it with the same content
    _odradek/newest                                  a hint where to look first; it may be old

A run reads the hint, the manifests behind it, and no more. Each manifest has the whole vector of what the table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from odradek_pipeline.errors import FencedError, RecordLostError
from odradek_pipeline.outputs.parquet.manifests import (
    NO_CHANGES,
    DataFile,
    FileChanges,
    Manifest,
    changes_of,
    parts_of,
    rungs,
    span_at,
)
from odradek_pipeline.outputs.parquet.store import FileStore
from odradek_pipeline.runs.plans import rebase_record, require_unfenced
from odradek_pipeline.runs.record import RunRecord

FOLDER: Final = "_odradek"
MANIFESTS: Final = f"{FOLDER}/manifests"
_CHECKPOINTS: Final = f"{FOLDER}/checkpoints"
_HINT: Final = f"{FOLDER}/newest"
# Commits of others that one publication may meet before it gives up.
_RIVALS_MAX: Final = 1000


class ManifestLog:
    def __init__(self, store: FileStore, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self._clock_ms = clock_ms

    def read_newest(self) -> Manifest | None:
        """The newest manifest; None for a table without one. Raises RecordLostError for a log with a hole."""
        version = self._read_hint()
        found = self.read_manifest(version) if version else None
        if found is None:
            version = self._list_newest()
            found = self._require_manifest(version) if version else None
        while (later := self.read_manifest(version + 1)) is not None:
            version, found = version + 1, later
        return found

    def read_manifest(self, version: int) -> Manifest | None:
        name = _manifest_name(version)
        content = self._store.read(name)
        return None if content is None else Manifest.from_bytes(content, name)

    def publish(
        self, base: int, record: RunRecord, added: Sequence[DataFile], removed: Sequence[str]
    ) -> Manifest:
        """Make the manifest that follows `base`, or that follows what others published since then.

        Raises FencedError when one of those committed the same ranges, or removed the same files."""
        since: list[RunRecord] = []
        mine = record
        while len(since) < _RIVALS_MAX:
            version = base + len(since) + 1
            made = Manifest(version, mine.with_commit_time(self._clock_ms()), tuple(added), tuple(removed))
            if self._store.create(_manifest_name(version), made.to_bytes()):
                self._store.write(_HINT, str(version).encode())
                return made
            other = self._require_manifest(version)
            if other.record.run == record.run:
                return other  # it is there already, and the answer was lost
            since.append(other.record)
            require_unfenced(mine, since, other.record.holdings)
            if shared := set(removed).intersection(other.removed):
                raise FencedError(
                    f"run {other.record.run} replaced {len(shared)} files that this run was to replace. "
                    "This run changed nothing; run it again"
                )
            mine = rebase_record(record, other.record)
        raise FencedError(f"{_RIVALS_MAX} other runs committed while this one published; run it again")

    def make_checkpoint(self, version: int) -> bool:
        """Make the checkpoint that is due at `version`; False when none is."""
        span = span_at(version)
        if span == 1:
            return False
        self._write_checkpoint(version, span)
        return True

    def list_live(self, version: int) -> dict[str, DataFile]:
        """The files of the table at `version`, by path."""
        changes = NO_CHANGES
        for at, span in rungs(version):
            changes = self._read_changes(at, span).with_later(changes)
        return dict(changes.added)

    def read_history(self, newest: int) -> Iterator[Manifest]:
        """The manifests up to `newest`, newest first."""
        return (self._require_manifest(version) for version in range(newest, 0, -1))

    def _read_changes(self, version: int, span: int) -> FileChanges:
        if span == 1:
            return changes_of(self._require_manifest(version))
        name = _checkpoint_name(version, span)
        content = self._store.read(name)
        # A driver may have ended between a manifest and its checkpoint: the parts say the same.
        return (
            self._write_checkpoint(version, span)
            if content is None
            else FileChanges.from_bytes(content, name)
        )

    def _write_checkpoint(self, version: int, span: int) -> FileChanges:
        changes = NO_CHANGES
        for part in parts_of(version, span):
            changes = changes.with_later(self._read_changes(*part))
        self._store.create(_checkpoint_name(version, span), changes.to_bytes(version, span))
        return changes

    def _require_manifest(self, version: int) -> Manifest:
        found = self.read_manifest(version)
        if found is None:
            raise RecordLostError(
                f"record-lost: {_manifest_name(version)} is missing below {self._store.url('')}. Restore it from a "
                "backup: without it nothing says which files and offsets the table holds"
            )
        return found

    def _read_hint(self) -> int:
        content = self._store.read(_HINT) or b""
        return int(content) if content.isdigit() and len(content) < 20 else 0

    def _list_newest(self) -> int:
        names = [one.path.rpartition("/")[2] for one in self._store.list_files(MANIFESTS)]
        versions = [int(name[:20]) for name in names if name[:20].isdigit() and name.endswith(".json")]
        return max(versions, default=0)


def with_fenced_runs(record: RunRecord, runs: Sequence[str]) -> RunRecord:
    """`record` as that of a vacuum: the runs whose files it removes can no longer be published."""
    return replace(record, details={**record.details, "fenced": list(runs)})


def _manifest_name(version: int) -> str:
    return f"{MANIFESTS}/{version:020}.json"


def _checkpoint_name(version: int, span: int) -> str:
    return f"{_CHECKPOINTS}/{version:020}.{span}.json"
