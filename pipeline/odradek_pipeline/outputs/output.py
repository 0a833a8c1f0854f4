"""The protocol of an output. Rows and the record of their ranges become visible in one commit, or neither does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame

from odradek_pipeline.runs.queries import Queries
from odradek_pipeline.runs.ranges import Holdings
from odradek_pipeline.runs.record import RunRecord
from odradek_pipeline.runs.steps import Steps


@dataclass(frozen=True, slots=True)
class OutputState:
    """An output as a run finds it. `version` is the output's own; 0 where there is none yet.

    `is_covered` says that commits of others lie above the newest record, which a refresh should repeat.
    `last_number` is the highest number of any run, also of one that is no longer part of the table.
    """

    record: RunRecord | None
    version: int
    is_covered: bool = False
    last_number: int = 0

    @property
    def holdings(self) -> Holdings:
        return Holdings.none() if self.record is None else self.record.holdings

    @property
    def queries(self) -> Queries:
        return {} if self.record is None else self.record.queries

    @property
    def snapshots(self) -> Mapping[str, int]:
        return {} if self.record is None else self.record.snapshots

    @property
    def next_number(self) -> int:
        return max(self.last_number, 0 if self.record is None else self.record.number) + 1


@dataclass(frozen=True, slots=True)
class Committed:
    """One run in an output. `version` is the output's own; rows and bytes are None where they are not known."""

    record: RunRecord
    version: int
    rows: int | None
    size_bytes: int | None
    files: int | None


class RunHistory(Protocol):
    """The table's own description, without its rows."""

    def read_newest(self) -> OutputState:
        """Return what the output holds, by its newest record. The cost does not grow with what was loaded.

        Raises RecordLostError when there are rows without a record."""
        ...

    def list_runs(self, count_max: int | None) -> Sequence[Committed]:
        """The newest runs, newest first, or all there are."""
        ...


class TableOutput(RunHistory, Protocol):
    """One table. A run calls `read_newest`, plans by what it says, and commits on top of it."""

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        """Add `rows` with their record; a replay's rows take the place of all rows in its ranges.

        Raises FencedError, and leaves the output as it was, when another run committed these ranges since `known`."""
        ...

    def read_rows(self) -> DataFrame | None:
        """The table as it is now; None when there is none yet."""
        ...


@runtime_checkable
class MergingOutput(TableOutput, Protocol):
    """A table that can change single rows."""

    def merge(self, known: OutputState, record: RunRecord, changes: DataFrame, steps: Steps) -> Committed:
        """Change the rows of the keys of `changes`, each there once; a key without a value is removed.

        The record is in the same commit. Raises FencedError as `commit` does."""
        ...
