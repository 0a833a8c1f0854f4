"""Delta tables as outputs: the record is the commit's user metadata, and its number is the transaction's version.

Delta ignores a write whose transaction version is not above the last one, without an error. So a run reads back whether
its own commit is in the history. One application id and one counter serve all runs of a table. Of two runs
that were planned on the same record, the later is always refused.

The user metadata lives as long as the log keeps commit files (30 days unless set otherwise). Commits of others do not
repeat it. A load that finds them on top repeats the record in an empty commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from odradek_pipeline.errors import FencedError, RecordLostError
from odradek_pipeline.outputs.columns import COLUMNS, align_columns, is_in
from odradek_pipeline.outputs.output import Committed, OutputState
from odradek_pipeline.outputs.texts import merge_into, parse_record
from odradek_pipeline.runs.record import REPLACING, RunRecord
from odradek_pipeline.runs.steps import PUBLISHED, WRITING, Steps

APPLICATION: Final = "odradek-pipeline"
# Commits to read at a time, from the newest back: mostly the first is ours.
_HISTORY_PAGES: Final = (1, 20, 400, None)
# Whole names: a trace of Java has words like ConcurrentHashMap in it.
_CONFLICTS: Final = (
    "ConcurrentTransactionException",
    "ConcurrentAppendException",
    "ConcurrentWriteException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentModificationException",
    "ProtocolChangedException",
    "MetadataChangedException",
    "DELTA_CONCURRENT",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_METADATA_CHANGED",
)


class DeltaOutput:
    """One table in a folder or at a URL."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        # SQL takes absolute paths alone.
        self._location = location if urlsplit(location).scheme else str(Path(location).absolute())
        self._name = f"delta.`{self._location}`"

    def read_newest(self) -> OutputState:
        """By the newest commit of ours. A table that was restored holds what it held at that version."""
        if not self._exists():
            return OutputState(None, 0)
        version, number = -1, 0
        limit: int | None = None
        for row in self._read_history():
            version = max(version, row.version)
            found = parse_record(row.userMetadata, f"{self._location} version {row.version}")
            number = max(number, 0 if found is None else found.number)
            if limit is not None and row.version > limit:
                continue
            if row.operation == "RESTORE":
                limit = _restored_version(row, self._location)
            elif found is not None:
                return OutputState(found, version, is_covered=row.version != version, last_number=number)
        if self._spark.read.format("delta").load(self._location).limit(1).count():
            raise RecordLostError(
                f"record-lost: {self._location} has rows, and no commit in its history has a record of their ranges. "
                "Its log may have been cleaned, or another program wrote it. Load into another output"
            )
        return OutputState(None, version, last_number=number)

    def commit(self, known: OutputState, record: RunRecord, rows: DataFrame, steps: Steps) -> Committed:
        """One commit of Delta. A replay overwrites where its ranges are, and a snapshot its whole partitions."""
        steps(WRITING)
        made = record.with_commit_time(time.time_ns() // 1_000_000)
        writer = (
            align_columns(rows, made.columns).write.format("delta").option("userMetadata", made.to_text())
        )
        writer = writer.option("txnAppId", APPLICATION).option("txnVersion", str(made.number))
        if made.columns:
            writer = writer.option("mergeSchema", "true")  # a decoded column may be new
        if made.kind in REPLACING and made.replacing and self._exists():
            writer = writer.mode("overwrite").option("replaceWhere", is_in(made.replacing))
        else:
            writer = writer.mode("append")
        try:
            writer.save(self._location)
        except Exception as failure:  # Spark leaves Delta's own exceptions as Py4J's
            if not is_conflict(str(failure)):
                raise
            raise self._fenced_error(record) from failure
        return self._find_commit(known, record, steps)

    def merge(self, known: OutputState, record: RunRecord, changes: DataFrame, steps: Steps) -> Committed:
        """One commit by MERGE, which takes the record and the transaction from settings of the session."""
        steps(WRITING)
        made = record.with_commit_time(time.time_ns() // 1_000_000)
        settings = {
            "spark.databricks.delta.commitInfo.userMetadata": made.to_text(),
            "spark.databricks.delta.write.txnAppId": APPLICATION,
            "spark.databricks.delta.write.txnVersion": str(made.number),
        }
        try:
            with _session_settings(self._spark, settings):
                self._spark.sql(merge_into(self._name), changes=changes.select(*COLUMNS))
        except Exception as failure:  # Spark leaves Delta's own exceptions as Py4J's
            if not is_conflict(str(failure)):
                raise
            raise self._fenced_error(record) from failure
        return self._find_commit(known, record, steps)

    def _find_commit(self, known: OutputState, record: RunRecord, steps: Steps) -> Committed:
        """The commit of a run that has just written. Raises FencedError when Delta skipped it."""
        steps(PUBLISHED)
        for row in self._read_history():
            if row.version <= known.version and known.record is not None:
                break
            found = parse_record(row.userMetadata, self._location)
            if found is not None and found.run == record.run:
                return _parse_commit(row, found)
        raise self._fenced_error(record)

    def list_runs(self, count_max: int | None) -> Sequence[Committed]:
        """By the commits that the log still has."""
        found: list[Committed] = []
        if not self._exists():
            return found
        for row in self._read_history():
            record = parse_record(row.userMetadata, self._location)
            if record is not None:
                found.append(_parse_commit(row, record))
            if count_max is not None and len(found) == count_max:
                break
        return found

    def read_rows(self) -> DataFrame | None:
        return self._spark.read.format("delta").load(self._location) if self._exists() else None

    def _exists(self) -> bool:
        jvm: Any = self._spark.sparkContext._jvm
        session = self._spark._jsparkSession
        return bool(jvm.io.delta.tables.DeltaTable.isDeltaTable(session, self._location))

    def _read_history(self) -> Iterator[Any]:
        """The commits, newest first, in pages that grow."""
        seen: int | None = None
        for count in _HISTORY_PAGES:
            limit = "" if count is None else f" LIMIT {count}"
            rows = self._spark.sql(f"DESCRIBE HISTORY {self._name}{limit}").collect()
            for row in sorted(rows, key=lambda one: -int(one.version)):
                if seen is None or row.version < seen:
                    seen = row.version
                    yield row
            if count is not None and len(rows) < count:
                return

    def _fenced_error(self, record: RunRecord) -> FencedError:
        return FencedError(
            f"another run committed to {self._location} while run {record.run} was at work. "
            "This run changed nothing; run it again"
        )


def is_conflict(text: str) -> bool:
    """Whether an exception with this text says that another commit was faster."""
    return any(name in text for name in _CONFLICTS)


@contextmanager
def _session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for one command; no later one may see them."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _restored_version(row: Any, location: str) -> int:
    """The version that a RESTORE went back to."""
    text = (row.operationParameters or {}).get("version")
    if text is None or not str(text).isdecimal():
        raise RecordLostError(
            f"record-lost: {location} was restored to a time at version {row.version}, and the version of that time is "
            "not in its history. Restore it again by version, as RESTORE TABLE … TO VERSION AS OF"
        )
    return int(text)


def _parse_commit(row: Any, record: RunRecord) -> Committed:
    metrics = row.operationMetrics or {}

    def number(*names: str) -> int:
        return int(next((metrics[name] for name in names if name in metrics), 0))

    rows = number("numOutputRows") - number("numCopiedRows", "numTargetRowsCopied")
    size_bytes = number("numOutputBytes", "numAddedBytes", "numTargetBytesAdded")
    files = number("numFiles", "numAddedFiles", "numTargetFilesAdded")
    return Committed(record, int(row.version), rows, size_bytes, files)
