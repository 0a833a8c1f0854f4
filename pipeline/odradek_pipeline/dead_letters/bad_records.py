"""From rows as they are read to rows of the table: decoded, with bad records refused or sent to the dead letters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, functions

from odradek_pipeline.connection.session import SparkConnection
from odradek_pipeline.dead_letters.frames import make_letters
from odradek_pipeline.dead_letters.headers import DEAD_LETTER_SUFFIX
from odradek_pipeline.dead_letters.writing import ensure_letter_topic, write_letters
from odradek_pipeline.errors import BadRecordsError, PipelineSettingError
from odradek_pipeline.outputs.columns import with_origin
from odradek_pipeline.runs.ranges import OffsetRange, PartitionKey
from odradek_pipeline.runs.record import DeadCount, RunRecord
from odradek_pipeline.runs.steps import DEAD_LETTERS, DECODED, Steps
from odradek_pipeline.settings.groups import PROTOBUF, BadRecordSettings, DecodingSettings, DecodingUse
from odradek_pipeline.work.decoding.decoder import ERROR, RecordDecoder, columns_of, decode_rows
from odradek_pipeline.work.decoding.named import decoder_for
from odradek_pipeline.work.decoding.schema import PartSchema, read_schema

DEAD_LETTER: Final = "dead-letter"
_MARKER: Final = "odradek-bad-record: "
_SHOWN_MAX: Final = 3


def part_schemas(settings: DecodingSettings) -> list[PartSchema]:
    """The decoding that is asked for.

    Raises PipelineSettingError, and JobRefusedError for a file that cannot be read.
    """
    found = []
    for part in ("value", "key"):
        kind, path = getattr(settings, f"{part}_format"), getattr(settings, f"{part}_schema")
        message = getattr(settings, f"{part}_message")
        if kind is None and path is None and message is None:
            continue
        if kind is None or path is None:
            raise PipelineSettingError(
                f"--{part}-format and --{part}-schema go together: one says how, the other what"
            )
        if (kind == PROTOBUF) != (message is not None):
            raise PipelineSettingError(f"--{part}-message names a message of Protobuf, and Protobuf needs it")
        found.append(
            PartSchema(
                part=part,
                kind=kind,
                name=path,
                content=read_schema(path),
                has_header=getattr(settings, f"{part}_header") == "confluent",
                prefix=getattr(settings, f"{part}_prefix"),
                message=message,
                is_passing_unknown=settings.unknown_fields == "pass",
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Decoding:
    """The decoding of one run, and where bad records go."""

    decoders: Sequence[RecordDecoder]
    settings: BadRecordSettings
    connection: SparkConnection
    steps: Steps

    @staticmethod
    def of(settings: DecodingUse, connection: SparkConnection, run: str, steps: Steps) -> Decoding:
        """Raises PipelineSettingError and JobRefusedError."""
        mark = hashlib.md5(run.encode(), usedforsecurity=False).digest()
        decoders = [decoder_for(one, mark) for one in part_schemas(settings.decoding)]
        return Decoding(decoders, settings.bad_records, connection, steps)

    @contextmanager
    def split_rows(self, rows: DataFrame, record: RunRecord) -> Iterator[tuple[DataFrame, RunRecord]]:
        """The rows to commit, and the record with its columns and its dead letters, which are written then.

        `rows` have the columns of a read. Raises BadRecordsError. Where bad records fail the run, they are found while
        the rows are written. Otherwise rows are decoded once into files on the executors' disks. They are counted,
        and their dead letters are acknowledged, before the good ones are written.
        """
        if not self.decoders:
            yield with_origin(rows, record.ranges, record.run), record
            return
        record = replace(record, columns=columns_of(self.decoders, record.columns))
        decoded = with_origin(decode_rows(rows, self.decoders), record.ranges, record.run)
        with self.split(decoded, record) as found:
            yield found

    @contextmanager
    def split(self, decoded: DataFrame, record: RunRecord) -> Iterator[tuple[DataFrame, RunRecord]]:
        """As `split_rows`, of rows that are decoded already."""
        if self.settings.on_bad_record != DEAD_LETTER:
            with _name_failure(record.run):
                yield decoded.where(_raise_at_bad()), record
            return
        decoded = decoded.persist(StorageLevel.DISK_ONLY)
        try:
            counts = _count_records(decoded)
            self.steps(
                DECODED, records=sum(one.records for one in counts), bad=sum(one.bad for one in counts)
            )
            _require_share(counts, self.settings.bad_share_max, record.run)
            dead = tuple(DeadCount(one.within, one.bad) for one in counts if one.bad)
            if dead:
                self._send(decoded.where(f"{ERROR} is not null"), dead)
            yield decoded.where(f"{ERROR} is null"), replace(record, dead=dead)
        finally:
            decoded.unpersist()

    def _send(self, bad: DataFrame, dead: Sequence[DeadCount]) -> None:
        for topic in sorted({one.within.key.topic for one in dead}):
            name = self.settings.dead_letter_topic or topic + DEAD_LETTER_SUFFIX
            target = ensure_letter_topic(self.connection.settings, name, topic)
            of_topic = make_letters(
                bad.where(functions.col("topic") == topic), functions.lit(name), target.partitions
            )
            count = write_letters(of_topic, self.connection.settings)
            self.steps(DEAD_LETTERS, topic=name, letters=count)


@dataclass(frozen=True, slots=True)
class Counted:
    """One partition of a run: its records, and the bad ones, all of which lie `within`."""

    within: OffsetRange
    records: int
    bad: int
    error: str | None


def _count_records(decoded: DataFrame) -> list[Counted]:
    is_bad = functions.col(ERROR).isNotNull()
    bad_offset = functions.when(is_bad, functions.col("offset"))
    found = decoded.groupBy("topic", "_topic_id", "partition").agg(
        functions.count("*").alias("records"),
        functions.count(bad_offset).alias("bad"),
        functions.min(bad_offset).alias("first"),
        functions.max(bad_offset).alias("last"),
        functions.min_by(ERROR, bad_offset).alias("error"),
    )
    counts = [
        Counted(
            OffsetRange(
                PartitionKey(row.topic, row["_topic_id"], row.partition), row.first or 0, (row.last or 0) + 1
            ),
            row.records,
            row.bad,
            row.error,
        )
        for row in found.collect()
    ]
    return sorted(counts, key=lambda one: one.within)


def _require_share(counts: Sequence[Counted], share_max: float, run: str) -> None:
    bad, records = sum(one.bad for one in counts), sum(one.records for one in counts)
    if bad and bad > share_max * records:
        first = [f"{one.within.key} offset {one.within.start}: {one.error}" for one in counts if one.bad]
        raise BadRecordsError(
            f"bad-records: {bad} of {records} records of run {run} cannot be read, and --bad-share-max allows a share "
            f"of {share_max}. Nothing was written. The first are {'; '.join(first[:_SHOWN_MAX])}"
        )


def _raise_at_bad() -> Column:
    """True for a good row; the query fails at a bad one."""
    said = functions.concat(
        functions.lit(_MARKER), "topic", functions.lit("-"), "partition", functions.lit(" offset "), "offset",
        functions.lit(": "), ERROR,
    )  # fmt: skip
    return functions.when(functions.col(ERROR).isNull(), True).otherwise(
        functions.raise_error(said).cast("boolean")
    )


@contextmanager
def _name_failure(run: str) -> Iterator[None]:
    try:
        yield
    except Exception as failure:  # Spark wraps what a row raises in several ways
        _, marker, rest = str(failure).partition(_MARKER)
        if not marker:
            raise
        said = rest.splitlines()[0].partition(" SQLSTATE")[0].strip()
        raise BadRecordsError(
            f"bad-records: {said}. Run {run} changed nothing. Correct the schema, or add --on-bad-record dead-letter"
        ) from failure
