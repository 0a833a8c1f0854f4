"""`snapshot`: the last value of each key of a topic up to fixed offsets, as a table with one row for each key.

A second snapshot reads only what is new, and changes the rows of its keys. Positions and rows are one commit. Delta and
Iceberg merge what is new into the table. Parquet files are replaced by partition: the rows that are there are read
again, the log is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, functions

from odradek_pipeline.connection.topics import read_cleaning
from odradek_pipeline.errors import TruncatedError
from odradek_pipeline.loading.settings import SnapshotSettings
from odradek_pipeline.outputs.columns import COLUMNS, TOPIC_ID, is_in, no_rows, with_origin
from odradek_pipeline.outputs.output import Committed, MergingOutput, OutputState
from odradek_pipeline.runs.plans import PASS_OVER, LogFacts
from odradek_pipeline.runs.positions import RunPosition, position
from odradek_pipeline.runs.ranges import OffsetRange
from odradek_pipeline.runs.record import SNAPSHOT, RunRecord
from odradek_pipeline.runs.snapshots import SnapshotPlan, find_aged, note_snapshot, plan_snapshot
from odradek_pipeline.runs.steps import FINISHED, PLANNED
from odradek_pipeline.work.command import RANGES, Console, Summary
from odradek_pipeline.work.worker import (
    RunWorker,
    new_record,
    now_ms,
    open_worker,
    summarize_nothing,
    summarize_run,
)

# Of the time that tombstones stay: after half of it all is read again, after a quarter an empty commit renews it.
_WHOLE_AFTER = 1 / 2
_RENEW_AFTER = 1 / 4
# A key is one of a partition, as for compaction: a topic that got more partitions may have a key in two of them.
KEY: Final = ("topic", TOPIC_ID, "partition", "key")


def run(settings: SnapshotSettings, console: Console) -> Summary:
    """Bring the table to the topics' last values. Raises PipelineError."""
    stop = position(settings.stop)
    with open_worker(settings, console) as work:
        return SnapshotRun(work, settings, stop, console).run()


class SnapshotRun:
    def __init__(
        self, work: RunWorker, settings: SnapshotSettings, stop: RunPosition, console: Console
    ) -> None:
        self._work, self._settings, self._stop, self._console = work, settings, stop, console
        self._topics = list(dict.fromkeys(settings.topic))

    def run(self) -> Summary:
        """Raises PipelineError."""
        known = self._work.output.read_newest()
        looked_ms = now_ms()
        cleaning = read_cleaning(self._work.connection.settings, self._topics)
        facts = self._work.read_facts(self._topics, position("earliest"), self._stop, self._settings.reading)
        whole = set(self._topics) if self._settings.whole else set()
        for topic in sorted(find_aged(known.snapshots, cleaning, looked_ms, _WHOLE_AFTER) - whole):
            self._console.notice(
                f"{topic} is read whole: tombstones stay for {cleaning[topic].delete_retention_ms} ms, and the last "
                "snapshot up to its end is older than half of that"
            )
            whole.add(topic)
        made = self._plan(known, facts, whole)
        is_new = bool(made.plan.ranges or made.whole) or made.plan.holdings != known.holdings
        if (
            not is_new
            and not known.is_covered
            and not find_aged(known.snapshots, cleaning, looked_ms, _RENEW_AFTER)
        ):
            return summarize_nothing(SNAPSHOT, self._settings.table.output, known)
        record = replace(
            new_record(SNAPSHOT, known, made.plan),
            scope=made.scope,
            snapshots=note_snapshot(known.snapshots, facts, made.plan.holdings, looked_ms),
        )
        self._work.steps(PLANNED, ranges=len(record.ranges), span=record.span)
        committed = self._commit(known, record, made)
        answer = self._summarize(committed, made)
        self._work.steps(FINISHED)
        return answer

    def _plan(self, known: OutputState, facts: Sequence[LogFacts], whole: set[str]) -> SnapshotPlan:
        """Plan the run. If the log start passed the table, all can be read again: a snapshot has no history to lose."""
        on_recreated = self._settings.on_recreated
        try:
            return plan_snapshot(known.holdings, facts, whole, stop=self._stop, on_recreated=on_recreated)
        except TruncatedError as failure:
            if self._settings.reading.on_truncated != PASS_OVER:
                raise
            self._console.notice(f"all topics are read whole: {failure}")
            return plan_snapshot(
                known.holdings, facts, self._topics, stop=self._stop, on_recreated=on_recreated
            )

    def _commit(self, known: OutputState, record: RunRecord, made: SnapshotPlan) -> Committed:
        output = self._work.output
        if isinstance(output, MergingOutput) and record.ranges and not made.whole:
            changes = last_of_each_key(self._read(record.ranges, record))
            return output.merge(known, record, changes, self._work.steps)
        there = None if made.whole.issuperset(self._topics) else output.read_rows()
        frames = [self._merge_partition(one, record, made, there) for one in record.ranges]
        rows = reduce(DataFrame.unionByName, frames) if frames else no_rows(self._work.spark)
        return output.commit(known, record, rows, self._work.steps)

    def _merge_partition(
        self, one: OffsetRange, record: RunRecord, made: SnapshotPlan, there: DataFrame | None
    ) -> DataFrame:
        """All rows that a partition has after this run. A frame for each keeps partitions apart in files."""
        rows = self._read([one], record)
        if there is not None and one.key.topic not in made.whole:
            rows = there.where(is_in([replace(one, start=0)])).unionByName(rows)
        return without_tombstones(last_of_each_key(rows))

    def _read(self, ranges: Sequence[OffsetRange], record: RunRecord) -> DataFrame:
        return with_origin(self._work.read_frame(ranges, self._settings.reading), ranges, record.run)

    def _summarize(self, committed: Committed, made: SnapshotPlan) -> Summary:
        answer = summarize_run(committed, self._settings.table.output)
        rows = self._work.output.read_rows()
        keys = 0 if rows is None else rows.count()
        # Offsets without a row are most of them here: a key has one row.
        facts = {name: value for name, value in answer.facts.items() if name != "offsets_without_row"}
        facts["keys"] = keys
        facts["read_whole"] = sorted(made.whole)
        title = f"snapshot {committed.record.run}: {keys} keys in {self._settings.table.output}"
        return Summary(title, facts, answer.rows, rows_name=RANGES)


def last_of_each_key(rows: DataFrame) -> DataFrame:
    """The row with the highest offset of each key, tombstones among them. Rows without a key are left out."""
    rest = [name for name in COLUMNS if name not in KEY]
    newest = functions.max_by(functions.struct(*rest), functions.col("offset")).alias("newest")
    last = rows.where("key is not null").groupBy(*KEY).agg(newest)
    return last.select(*(name if name in KEY else f"newest.{name}" for name in COLUMNS))


def without_tombstones(rows: DataFrame) -> DataFrame:
    """Rows with a value: a tombstone says that its key is gone."""
    return rows.where("value is not null")
