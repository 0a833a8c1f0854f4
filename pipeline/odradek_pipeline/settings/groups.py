"""Groups of settings that several commands share, and parts of a command's settings by the groups that they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from odradek.foundation.settings.declaration import OneOf, boolean, double, integer, long, text, words
from odradek_pipeline.errors import PipelineSettingError
from odradek_pipeline.settings.declared import setting

PARQUET: Final = "parquet"
DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
FORMATS: Final = OneOf(PARQUET, DELTA, ICEBERG)
KAFKA: Final = "kafka"
ODRADEK: Final = "odradek"
READERS: Final = OneOf(KAFKA, ODRADEK)
JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
PART_FORMATS: Final = OneOf(JSON, AVRO, PROTOBUF)
PART_HEADERS: Final = OneOf("none", "confluent")


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    report: str = setting(
        text(
            "auto",
            "Progress and a table, or lines of JSON; auto goes by whether there is a terminal.",
            OneOf("auto", "table", "json"),
        )
    )


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """The session, where spark-submit does not make it."""

    master: str | None = setting(text(None, "Spark's master, as `local[4]`."), metavar="URL")
    conf: tuple[str, ...] = setting(words((), "A setting of Spark. May be repeated."), metavar="NAME=VALUE")
    fetch_jars: bool = setting(
        boolean(
            False, "Fetch the connector's and the format's jars with Spark's own Ivy; the image has them."
        )
    )

    def spark_options(self) -> dict[str, str]:
        """Spark's options. Raises PipelineSettingError."""
        options = parse_pairs(self.conf, "--conf")
        return {**options, "spark.master": self.master} if self.master else options


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    value_format: str | None = setting(text(None, "Decode values into columns of the table.", PART_FORMATS))
    value_schema: str | None = setting(
        text(
            None,
            "The schema of values: DDL for JSON, a schema of Avro, or a descriptor set that protoc writes.",
        ),
        metavar="FILE",
    )
    value_message: str | None = setting(
        text(None, "The Protobuf message of values, with its package."), metavar="NAME"
    )
    value_header: str = setting(
        text("none", "Whether a schema registry's header of five bytes is before each value.", PART_HEADERS)
    )
    value_prefix: str = setting(text("", "What names of columns of the value begin with."), metavar="TEXT")
    key_format: str | None = setting(text(None, "Decode keys into columns of the table.", PART_FORMATS))
    key_schema: str | None = setting(text(None, "The schema of keys."), metavar="FILE")
    key_message: str | None = setting(
        text(None, "The Protobuf message of keys, with its package."), metavar="NAME"
    )
    key_header: str = setting(
        text("none", "Whether a schema registry's header of five bytes is before each key.", PART_HEADERS)
    )
    key_prefix: str = setting(text("key_", "What names of columns of the key begin with."), metavar="TEXT")
    unknown_fields: str = setting(
        text(
            "refuse",
            "Protobuf: fields that the schema does not have. Bytes behind a record look like them.",
            OneOf("refuse", "pass"),
        )
    )

    @property
    def formats(self) -> list[str]:
        return [one for one in (self.value_format, self.key_format) if one is not None]


@dataclass(frozen=True, kw_only=True)
class BadRecordSettings:
    on_bad_record: str = setting(
        text(
            "fail",
            "What to do with a record that cannot be read: fail, or send it to the dead letters.",
            OneOf("fail", "dead-letter"),
        )
    )
    dead_letter_topic: str | None = setting(
        text(
            None,
            "The topic of dead letters; made when it is missing. Without it: the record's topic with `.dlq` behind it.",
        ),
        metavar="NAME",
    )
    bad_share_max: float = setting(
        double(
            0.01,
            "A run with a larger share of bad records fails, and writes neither rows nor dead letters.",
            0,
            1,
        ),
        metavar="SHARE",
    )


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    metrics_port: int | None = setting(
        integer(None, "Serve metrics for Prometheus at this port while the driver runs.", 0), metavar="PORT"
    )
    metrics_address: str = setting(
        text("0.0.0.0", "The address that --metrics-port is served at."), metavar="HOST"
    )
    metrics_file: str | None = setting(
        text(None, "Write the metrics to this file at the end, for a textfile collector."), metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class ReaderSettings:
    reader: str = setting(text(KAFKA, "Spark's Kafka connector, or Odradek's own data source.", READERS))
    isolation: str = setting(
        text(
            "read_committed",
            "Whether records of open and aborted transactions are left out.",
            OneOf("read_committed", "read_uncommitted"),
        )
    )
    records_per_task: int = setting(
        long(2_000_000, "A partition with more offsets than this is read by several tasks.", 1)
    )
    on_truncated: str = setting(
        text(
            "fail",
            "What to do when the log no longer has what is next: fail, or pass over it and record the gap.",
            OneOf("fail", "pass-over"),
        )
    )

    @property
    def is_read_committed(self) -> bool:
        return self.isolation == "read_committed"


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    output: str = setting(
        text(None, "The table: a folder or URL, or a table's name for Iceberg."),
        metavar="PATH",
        is_required=True,
    )
    format: str = setting(text(PARQUET, "The format of the table.", FORMATS))


@dataclass(frozen=True, kw_only=True)
class BrokerConnectionSettings:
    bootstrap: str | None = setting(
        text(
            None,
            "The brokers to ask first. Without it: `spark.odradek.bootstrap.servers`, or the mounted binding.",
        ),
        metavar="HOST:PORT,…",
    )
    kafka: tuple[str, ...] = setting(
        words((), "A setting of Kafka's clients, by its own name. May be repeated."), metavar="NAME=VALUE"
    )

    def client_settings(self) -> dict[str, str]:
        """By the names of Kafka's clients. Raises PipelineSettingError."""
        given = parse_pairs(self.kafka, "--kafka")
        return {**given, "bootstrap.servers": self.bootstrap} if self.bootstrap else given


@dataclass(frozen=True, kw_only=True)
class TopicsSettings:
    """The settings of a load into a table that continues where it ends."""

    topic: tuple[str, ...] = setting(
        words((), "A topic to load. May be repeated; all are one commit."), metavar="NAME", is_required=True
    )
    start: str = setting(
        text(
            "earliest",
            "Where a topic begins that the table does not hold yet; later runs continue where the table ends.",
        ),
        metavar="POSITION",
    )
    on_recreated: str = setting(
        text(
            "fail",
            "What to do when a topic was deleted and made again: fail, or start again and keep the rows of both.",
            OneOf("fail", "start-again"),
        )
    )

    @property
    def names(self) -> list[str]:
        """Each topic once."""
        return list(dict.fromkeys(self.topic))


class TableUse(Protocol):
    """A command that opens a table in a session."""

    @property
    def spark(self) -> SparkSettings: ...
    @property
    def table(self) -> OutputSettings: ...


class RunUse(TableUse, Protocol):
    """A command that reads topics into a table."""

    @property
    def brokers(self) -> BrokerConnectionSettings: ...
    @property
    def metrics(self) -> MetricsSettings: ...
    @property
    def reading(self) -> ReaderSettings: ...


class DecodingUse(Protocol):
    """A command that decodes what it reads."""

    @property
    def decoding(self) -> DecodingSettings: ...
    @property
    def bad_records(self) -> BadRecordSettings: ...
    @property
    def reading(self) -> ReaderSettings: ...


def parse_pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE texts by name. Raises PipelineSettingError."""
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise PipelineSettingError(f"{flag} {one}: write it as NAME=VALUE")
        found[name] = value
    return found
