"""Iceberg tables as outputs: the record is a property of the snapshot that a run commits.

A plain append of Iceberg has neither idempotence nor a fence. So every run overwrites its own ranges, validated against
the snapshot that it was planned on. A second run with the same ranges conflicts with the files of the first.

Snapshots of others do not carry the record, so a run walks to the parents. `expire_snapshots` may remove the last one
with a record; a load that finds snapshots of others on top repeats it in an empty commit.

Tables are partitioned by topic, its id and the partition, so that compaction by others mixes no two of them. A replay
widens its ranges to whole files, because an overwrite removes whole files, and writes the rows around its ranges again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from odradek_pipeline.errors import FencedError, JobRefusedError, RecordLostError
from odradek_pipeline.outputs.columns import COLUMNS, SCHEMA, align_columns, is_in, no_rows, schema_with
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.outputs.texts import merge_into, parse_record
from odradek_pipeline.runs.columns import merge_columns
from odradek_pipeline.runs.queries import merge_queries
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey, widen_ranges
from odradek_pipeline.runs.record import REPLAY, RETRY, RunRecord, began_ms
from odradek_pipeline.runs.steps import PUBLISHED, PUBLISHING, WRITING, Steps

PROPERTY: Final = "odradek.record"
_PARTITIONED_BY: Final = ("topic", "_topic_id", "partition")
# A merge's own branch, by its run.
_BRANCH: Final = "odradek_"
_BRANCH_AGE_MS: Final = 24 * 3_600_000
_FIGURES: Final = ("added-records", "added-files-size", "added-data-files")
_CONFLICTS: Final = ("ValidationException", "CommitFailedException", "conflicting files")


class IcebergOutput:
    """One table of a catalog that Spark is configured with."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._name = name
        catalog = name.partition(".")[0]
        if name.count(".") < 2 or spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            raise JobRefusedError(
                f"{name}: name an Iceberg table as CATALOG.NAMESPACE.TABLE, and configure the catalog, as "
                f"--conf spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog with its type and warehouse"
            )

    def read_newest(self) -> OutputState:
        """By the newest snapshot with a record, and by those between it and the one that it was planned on."""
        if not self._spark.catalog.tableExists(self._name):
            return OutputState(None, 0)
        table = self._load_table()
        current = table.currentSnapshot()
        if current is None:
            return OutputState(None, 0)
        version = int(current.snapshotId())
        found: RunRecord | None = None
        is_covered = False
        for snapshot, record in self._walk_snapshots(table):
            if found is not None and snapshot == found.details.get("base"):
                break
            if record is None:
                is_covered = is_covered or found is None
            elif found is None:
                found = record
            else:
                # It was committed beside the newest one, on other ranges: both count, by their maximum.
                holdings = record.holdings.with_ranges(found.holdings.ranges(), found.cluster_id)
                queries = merge_queries(record.queries, found.queries)
                number = max(found.number, record.number)
                found = replace(
                    found,
                    holdings=holdings,
                    number=number,
                    queries=queries,
                    snapshots={**record.snapshots, **found.snapshots},
                    columns=merge_columns(record.columns, found.columns),
                )
        if found is None and int(current.summary().get("total-records") or 0) > 0:
            raise RecordLostError(
                f"record-lost: {self._name} has rows, and no snapshot that is left has a record of their ranges. "
                "Snapshots were expired, or another program wrote it. Load into another table"
            )
        return OutputState(found, version, is_covered=is_covered and found is not None)

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        """One snapshot. It replaces all rows in the record's ranges, which for a load are none."""
        base = known.version or self._create_table(record)
        self._add_columns(record)
        replaced: Sequence[OffsetRange] = record.replacing
        survivors = 0
        if record.kind in (REPLAY, RETRY):
            replaced = widen_ranges(record.ranges, self._read_file_ranges())
            around = self._spark.read.option("snapshot-id", str(base)).table(self._name)
            around = around.where(f"({is_in(replaced)}) and not ({is_in(record.ranges)})")
            survivors = around.count()
            rows = align_columns(rows, record.columns).unionByName(align_columns(around, record.columns))
        steps(WRITING)
        details = {**record.details, "base": base, "survivors": survivors}
        made = replace(record, details=details).with_commit_time(time.time_ns() // 1_000_000)
        self._write(rows, made, base, is_in(replaced))
        return self._find_commit(record, steps)

    def _find_commit(self, record: RunRecord, steps: Steps) -> Committed:
        """The snapshot of a run that has just written."""
        steps(PUBLISHED)
        for one in self._list_commits():
            if one.record.run == record.run:
                return one
        raise self._fenced_error(record)

    def merge(self, known: OutputState, record: RunRecord, changes: DataFrame, steps: Steps) -> Committed:
        """MERGE takes no property of a snapshot. So it runs on a branch, and an empty commit there adds the record.

        Then the table is moved to the branch's end: both become visible at once, or neither does.
        """
        steps(WRITING)
        branch = f"{_BRANCH}{record.run.replace('-', '_')}"
        self._remove_branches(record.started_ms)
        base = known.version
        self._spark.sql(f"ALTER TABLE {self._name} CREATE BRANCH {branch} AS OF VERSION {base}")
        try:
            self._spark.sql(merge_into(f"{self._name}.branch_{branch}"), changes=changes.select(*COLUMNS))
            table = self._load_table()
            written = table.snapshot(table.refs().get(branch).snapshotId()).summary()
            merged = {name: int(written.get(name) or 0) for name in _FIGURES}
            details = {**record.details, "base": base, "merged": merged}
            made = replace(record, details=details).with_commit_time(time.time_ns() // 1_000_000)
            self._append(f"{self._name}.branch_{branch}", made)
            steps(PUBLISHING)
            self._move_table(branch, record)
        finally:
            self._spark.sql(f"ALTER TABLE {self._name} DROP BRANCH IF EXISTS {branch}")
        return self._find_commit(record, steps)

    def _append(self, name: str, record: RunRecord) -> None:
        writer = no_rows(self._spark).writeTo(name)
        writer.option(f"snapshot-property.{PROPERTY}", record.to_text()).append()

    def _move_table(self, branch: str, record: RunRecord) -> None:
        """Raises FencedError when another commit is on the table since the branch was made."""
        catalog, _, table = self._name.partition(".")
        try:
            self._spark.sql(
                f"CALL {catalog}.system.fast_forward(table => '{table}', branch => 'main', to => '{branch}')"
            )
        except Exception as failure:  # Spark wraps what Iceberg raises in several ways
            if not any(name in str(failure) for name in (*_CONFLICTS, "not an ancestor")):
                raise
            raise self._fenced_error(record) from failure

    def _remove_branches(self, now_ms: int) -> None:
        """Those that killed merges left a day ago: a branch keeps its files from cleaning."""
        for row in self._spark.sql(f"SELECT name FROM {self._name}.refs WHERE type = 'BRANCH'").collect():
            if row.name.startswith(_BRANCH) and _began_ms(row.name) < now_ms - _BRANCH_AGE_MS:
                self._spark.sql(f"ALTER TABLE {self._name} DROP BRANCH IF EXISTS {row.name}")

    def list_runs(self, count_max: int | None) -> Sequence[Committed]:
        """By the snapshots that are left."""
        if not self._spark.catalog.tableExists(self._name):
            return []
        found: list[Committed] = []
        for one in self._list_commits():
            found.append(one)
            if len(found) == count_max:
                break
        return found

    def read_rows(self) -> DataFrame | None:
        return self._spark.table(self._name) if self._spark.catalog.tableExists(self._name) else None

    def _create_table(self, record: RunRecord) -> int:
        """Make the table and a first snapshot without a record, which the first load is validated against."""
        columns = ", ".join(_PARTITIONED_BY)
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self._name} ({SCHEMA}) USING iceberg "
            f"PARTITIONED BY ({columns}) TBLPROPERTIES ('write.distribution-mode'='none')"
        )
        if self._load_table().currentSnapshot() is None:
            no_rows(self._spark).writeTo(self._name).append()
        now = self.read_newest()
        if now.record is not None:
            raise self._fenced_error(record)
        return now.version

    def _add_columns(self, record: RunRecord) -> None:
        """Decoded columns that the table does not have yet. Old rows are null there."""
        if not record.columns:
            return
        there = {name.lower() for name in self._spark.table(self._name).columns}
        missing = [one for one in schema_with(record.columns).fields if one.name.lower() not in there]
        if missing:
            self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({StructType(missing).toDDL()})")

    def _write(self, rows: DataFrame, record: RunRecord, base: int, replaced: str) -> None:
        writer = (
            align_columns(rows, record.columns)
            .writeTo(self._name)
            .option(f"snapshot-property.{PROPERTY}", record.to_text())
        )
        # Each task has one partition: it needs neither a shuffle nor a sort.
        writer = writer.option("fanout-enabled", "true").option("distribution-mode", "none")
        writer = writer.option("validate-from-snapshot-id", str(base)).option(
            "isolation-level", "serializable"
        )
        try:
            writer.overwrite(functions.expr(replaced))
        except Exception as failure:  # Spark wraps what Iceberg raises in several ways
            if not any(name in str(failure) for name in _CONFLICTS):
                raise
            if "some, but not all" in str(failure):
                raise RecordLostError(
                    f"{self._name} has files that hold rows of these ranges and of others: another tool rewrote them. "
                    "Partition the table by topic, _topic_id and partition, or load into another table"
                ) from failure
            raise self._fenced_error(record) from failure

    def _load_table(self) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self._spark._jsparkSession, self._name
        )
        table.refresh()
        return table

    def _walk_snapshots(self, table: Any) -> Iterator[tuple[int, RunRecord | None]]:
        """The current snapshot and its parents, as far as they are left, with their records."""
        snapshot = table.currentSnapshot()
        while snapshot is not None:
            number = int(snapshot.snapshotId())
            yield number, parse_record(snapshot.summary().get(PROPERTY), f"{self._name} snapshot {number}")
            parent = snapshot.parentId()
            snapshot = None if parent is None else table.snapshot(parent)

    def _list_commits(self) -> Iterator[Committed]:
        table = self._load_table()
        for number, record in self._walk_snapshots(table):
            if record is not None:
                yield _parse_commit(table.snapshot(number).summary(), number, record)

    def _read_file_ranges(self) -> list[OffsetRange]:
        """The contents of each data file, by the bounds in the table's metadata."""
        bounds = "readable_metrics.offset.lower_bound as low, readable_metrics.offset.upper_bound as high"
        rows = self._spark.sql(
            f"SELECT partition as place, {bounds} FROM {self._name}.files WHERE content = 0"
        )
        return [
            OffsetRange(
                PartitionKey(row.place.topic, row.place["_topic_id"], row.place.partition),
                row.low,
                row.high + 1,
            )
            for row in rows.collect()
        ]

    def _fenced_error(self, record: RunRecord) -> FencedError:
        return FencedError(
            f"another run committed to {self._name} while run {record.run} was at work. "
            "This run changed nothing; run it again"
        )


def _parse_commit(summary: Any, version: int, record: RunRecord) -> Committed:
    merged = record.details.get("merged", {})

    def number(name: str) -> int:
        return int(merged.get(name) or summary.get(name) or 0)

    rows = number("added-records") - int(record.details.get("survivors", 0))
    return Committed(record, version, rows, number("added-files-size"), number("added-data-files"))


def _began_ms(branch: str) -> int:
    """Return the start of a branch's run in milliseconds, by its name. A name that is not ours counts as new."""
    began = began_ms(branch.removeprefix(_BRANCH))
    return 2**63 if began is None else began
