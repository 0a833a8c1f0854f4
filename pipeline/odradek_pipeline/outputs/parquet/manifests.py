"""Manifests and checkpoints as values, and the ladder of checkpoints: what has to be read for the live files.

A manifest is one commit: the record of a run, and the files that it adds and removes. A checkpoint of span s at version
v sums up the manifests v-s+1 to v. Its span is the largest power of 20 that divides v: a reader takes at most 19 files
of each span. A writer sums up each manifest once for each power of 20 that there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from odradek_pipeline.runs.ranges import OffsetRange, require_format
from odradek_pipeline.runs.record import RunRecord

FORMAT: Final = 1
LADDER_STEP: Final = 20


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one partition. `held` spans its rows: the first offset, and one behind the last."""

    path: str
    held: OffsetRange
    rows: int
    size_bytes: int

    def as_json(self) -> dict[str, Any]:
        return {"path": self.path, **self.held.as_json(), "rows": self.rows, "bytes": self.size_bytes}

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> DataFile:
        return DataFile(str(row["path"]), OffsetRange.from_json(row), int(row["rows"]), int(row["bytes"]))


@dataclass(frozen=True, slots=True)
class Manifest:
    """One commit of the table."""

    version: int
    record: RunRecord
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]

    def to_bytes(self) -> bytes:
        content = {
            "format": FORMAT,
            "version": self.version,
            "previous": self.version - 1,
            "record": self.record.as_json(),
            "added": [one.as_json() for one in self.added],
            "removed": list(self.removed),
        }
        return (json.dumps(content, separators=(",", ":")) + "\n").encode()

    @staticmethod
    def from_bytes(content: bytes, name: str) -> Manifest:
        row = json.loads(content)
        require_format(row, FORMAT, name)
        return Manifest(
            int(row["version"]),
            RunRecord.from_json(row["record"], name),
            tuple(map(DataFile.from_json, row["added"])),
            tuple(map(str, row["removed"])),
        )


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The sum of a stretch of manifests: files that are live after it, and files before it that are not."""

    added: Mapping[str, DataFile]
    removed: frozenset[str]

    def with_later(self, later: FileChanges) -> FileChanges:
        kept = {path: one for path, one in self.added.items() if path not in later.removed}
        removed = self.removed | {path for path in later.removed if path not in self.added}
        return FileChanges({**kept, **later.added}, frozenset(removed))

    def to_bytes(self, version: int, span: int) -> bytes:
        content = {
            "format": FORMAT,
            "version": version,
            "span": span,
            "added": [one.as_json() for one in self.added.values()],
            "removed": sorted(self.removed),
        }
        return (json.dumps(content, separators=(",", ":")) + "\n").encode()

    @staticmethod
    def from_bytes(content: bytes, name: str) -> FileChanges:
        row = json.loads(content)
        require_format(row, FORMAT, name)
        added = {one.path: one for one in map(DataFile.from_json, row["added"])}
        return FileChanges(added, frozenset(map(str, row["removed"])))


NO_CHANGES: Final = FileChanges({}, frozenset())


def changes_of(manifest: Manifest) -> FileChanges:
    return FileChanges({one.path: one for one in manifest.added}, frozenset(manifest.removed))


def span_at(version: int) -> int:
    """The span of the checkpoint at `version`; 1 where there is none, and the manifest itself says all."""
    span = 1
    while version and version % (span * LADDER_STEP) == 0:
        span *= LADDER_STEP
    return span


def rungs(version: int) -> Iterator[tuple[int, int]]:
    """(version, span) of what to read for all changes up to `version`, newest first. Spans cover 1 to `version`."""
    while version > 0:
        span = span_at(version)
        yield version, span
        version -= span


def parts_of(version: int, span: int) -> Sequence[tuple[int, int]]:
    """(version, span) of what a checkpoint is made from, oldest first: 20 of the next smaller span."""
    smaller = span // LADDER_STEP
    return [(version - smaller * turn, smaller) for turn in range(LADDER_STEP - 1, -1, -1)]
