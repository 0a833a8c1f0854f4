"""`dead-letters retry`: letters of a topic, decoded again, commit by commit, into their table.

A letter is decoded again as the record that it was, and its row gets the record's own offset. Rows that the table has
already are left out, so a retry that is run again after a kill adds none twice. What cannot be read again becomes a
new letter with one attempt more. The group of the topic moves behind the letters at the end of each commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Window, functions

from odradek.foundation.ids import TopicPartition
from odradek_pipeline.connection.groups import show_positions
from odradek_pipeline.dead_letters.bad_records import Decoding
from odradek_pipeline.dead_letters.commands.settings import RetrySettings
from odradek_pipeline.dead_letters.frames import count_attempts, restore_origins, without_attempt
from odradek_pipeline.dead_letters.reading import LetterLog, ask_brokers, group_of, read_letter_log
from odradek_pipeline.errors import JobRefusedError, NotFoundError, PipelineSettingError
from odradek_pipeline.outputs.columns import TOPIC_ID, is_in, with_origin
from odradek_pipeline.outputs.output import OutputState
from odradek_pipeline.runs.plans import Plan
from odradek_pipeline.runs.ranges import Holdings, OffsetRange, PartitionKey, join_ranges, span_ranges
from odradek_pipeline.runs.record import RETRY, RunRecord
from odradek_pipeline.runs.steps import FINISHED, PLANNED
from odradek_pipeline.work.command import Console, Summary
from odradek_pipeline.work.decoding.decoder import columns_of, decode_rows
from odradek_pipeline.work.reading.reader import ReadOptions
from odradek_pipeline.work.worker import RunWorker, make_reader, new_record, open_worker

_ORIGIN = ("topic", TOPIC_ID, "partition", "offset")


def run(settings: RetrySettings, console: Console) -> Summary:
    """Decode all that wait now. Raises PipelineError."""
    with open_worker(settings, console, decoded=settings.decoding.formats) as work:
        return LetterRetry(work, settings).run()


@dataclass(slots=True)
class RetryCounts:
    letters: int = 0
    rows: int = 0
    there: int = 0
    exhausted: int = 0
    dead_again: int = 0
    commits: int = 0


class LetterRetry:
    """Retries what waits in a topic at its begin. Raises PipelineError."""

    def __init__(self, work: RunWorker, settings: RetrySettings) -> None:
        self._work = work
        # A letter that is written again goes where it came from, or to the topic that is named.
        name = settings.bad_records.dead_letter_topic or settings.letters.topic
        self._settings = replace(settings, bad_records=replace(settings.bad_records, dead_letter_topic=name))
        self._counts = RetryCounts()

    def run(self) -> Summary:
        topic = self._settings.letters.topic
        log = ask_brokers(
            self._work.connection.settings, topic, lambda client: read_letter_log(client, topic)
        )
        for ranges in split_chunks(log, topic, self._settings.commit_letters):
            self._commit(ranges)
        self._work.steps(FINISHED)
        counts = self._counts
        facts = {
            "topic": topic,
            "output": self._settings.table.output,
            "letters": counts.letters,
            "rows": counts.rows,
            "already_rows": counts.there,
            "exhausted": counts.exhausted,
            "dead_letters": counts.dead_again,
            "commits": counts.commits,
        }
        return Summary(
            f"{counts.rows} dead letters of {topic} are rows of {self._settings.table.output}", facts
        )

    def _commit(self, ranges: list[OffsetRange]) -> None:
        known = self._work.output.read_newest()
        if known.record is None:
            raise NotFoundError(f"{self._settings.table.output} has no runs: nothing was loaded into it")
        plan = Plan((), known.holdings, known.record.cluster_id)
        record = new_record(RETRY, known, plan)
        decoding = Decoding.of(self._settings, self._work.connection, record.run, self._work.steps)
        if not decoding.decoders:
            raise PipelineSettingError("say how to decode: --value-format and --value-schema")
        record = replace(record, columns=columns_of(decoding.decoders, record.columns))
        letters = self._read_letters(ranges).cache()
        try:
            due = self._select_due(letters, known)
            rows = decode_rows(due, decoding.decoders)
            decoded = with_origin(rows, known.holdings.ranges(), record.run)
            with decoding.split(decoded, record) as (good, made):
                self._counts.dead_again += made.dead_count
                self._write(good, made, known)
        finally:
            letters.unpersist()
        self._counts.letters += sum(one.span for one in ranges)
        show_positions(
            self._work.connection.settings,
            group_of(self._settings.letters.topic),
            ranges,
            f"retry {record.run}",
        )

    def _read_letters(self, ranges: list[OffsetRange]) -> DataFrame:
        """The letters in `ranges` as the rows that they were: of each record the one that was tried most often."""
        options = ReadOptions(
            self._settings.reading.is_read_committed, self._settings.reading.records_per_task
        )
        reader = make_reader(self._settings.reading.reader)
        rows = restore_origins(reader.read_frame(self._work.spark, self._work.connection, ranges, options))
        newest_first = Window.partitionBy(*_ORIGIN).orderBy(functions.desc("_attempt"))
        return (
            rows.withColumn("_attempt", count_attempts())
            .withColumn("_turn", functions.row_number().over(newest_first))
            .where("_turn = 1")
            .drop("_turn")
        )

    def _select_due(self, letters: DataFrame, known: OutputState) -> DataFrame:
        """The letters that were tried less often than allowed, and are no rows of the table yet."""
        found = letters.select(*_ORIGIN, "_attempt").collect()
        tried = [row for row in found if row["_attempt"] < self._settings.letters.attempts_max]
        self._counts.exhausted += len(found) - len(tried)
        ranges = [_range(row) for row in tried]
        for one in ranges:
            require_held(one, known.holdings, self._settings.table.output)
        due = letters.where(functions.col("_attempt") < self._settings.letters.attempts_max).drop("_attempt")
        rows = self._work.output.read_rows()
        if not ranges or rows is None:
            return due
        there = rows.where(is_in(span_ranges(ranges))).select(*_ORIGIN)
        left = due.join(there, on=list(_ORIGIN), how="left_anti")
        self._counts.there += len(ranges) - left.count()
        return left

    def _write(self, good: DataFrame, record: RunRecord, known: OutputState) -> None:
        places = good.select(*_ORIGIN).collect()
        if not places:
            return
        ranges = tuple(join_ranges(_range(row) for row in places))
        # They are counted by the run that could not read them first.
        record = replace(record, ranges=ranges, dead=(), details={"letters": self._settings.letters.topic})
        self._work.steps(PLANNED, ranges=len(ranges), span=record.span)
        # A file has rows of one partition, and a task writes one file.
        parts = [without_attempt(good).where(is_in([one])).coalesce(1) for one in span_ranges(ranges)]
        self._work.output.commit(known, record, reduce(DataFrame.unionByName, parts), self._work.steps)
        self._counts.rows += len(places)
        self._counts.commits += 1


def split_chunks(log: LetterLog, topic: str, letters_max: int) -> Iterator[list[OffsetRange]]:
    """The offsets that wait, in order, with at most `letters_max` at a time."""
    chunk: list[OffsetRange] = []
    room = letters_max
    for one in waiting_ranges(log.waiting, log.ends, topic):
        while not one.is_empty:
            taken = replace(one, end=min(one.end, one.start + room))
            chunk.append(taken)
            room -= taken.span
            one = replace(one, start=taken.end)
            if room == 0:
                yield chunk
                chunk, room = [], letters_max
    if chunk:
        yield chunk


def waiting_ranges(
    waiting: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], topic: str
) -> list[OffsetRange]:
    """The letters that wait, by partition. The topic's id is of no use here."""
    found = [
        OffsetRange(PartitionKey(topic, "", key.partition), waiting[key], ends[key]) for key in sorted(ends)
    ]
    return [one for one in found if not one.is_empty]


def require_held(one: OffsetRange, held: Holdings, output: str) -> None:
    """Raises JobRefusedError for a letter of a topic or of offsets that the table does not hold."""
    if not any(range_.contains(one) for range_ in held.ranges([one.key.topic])):
        raise JobRefusedError(
            f"{output} does not hold {one}, of the topic with id {one.key.topic_id}: name the table of this topic's "
            "letters. Tables that share a topic of dead letters cannot be retried"
        )


def _range(row: Any) -> OffsetRange:
    key = PartitionKey(row.topic, row[TOPIC_ID], row.partition)
    return OffsetRange(key, row.offset, row.offset + 1)
