"""The protocol of a subcommand, and the settings that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from odradek_pipeline.errors import PipelineExitCode, PipelineSettingError
from odradek_pipeline.runs.steps import Steps
from odradek_pipeline.settings.declared import setting

# As the modules of outputs and readers name them. Those import PySpark, which `--help` has no need of.
FORMATS: Final = ("parquet", "delta", "iceberg")
READERS: Final = ("kafka", "odradek")
PART_FORMATS: Final = ("json", "avro", "protobuf")

RANGES: Final = "ranges"


@dataclass(frozen=True, slots=True)
class Summary:
    """The answer of a command: `facts` by name, and rows of a table. Both are plain values.

    `title` is one line for people. `rows_name` says what the rows are: in JSON they are a list of that name, which is
    there without rows, too. A command that has no table names none.
    """

    title: str
    facts: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]] = ()
    exit_code: PipelineExitCode = PipelineExitCode.OK
    rows_name: str = ""

    def __post_init__(self) -> None:
        assert self.rows_name or not self.rows, "rows need a name"
        assert self.rows_name not in self.facts, f"{self.rows_name} would hide a fact"


class Console(Protocol):
    """The console that a command reports to."""

    @property
    def steps(self) -> Steps: ...

    def watch(self, spark: Any) -> None:
        """Show the tasks of this session, where there is a terminal."""
        ...

    def notice(self, text: str) -> None:
        """A sentence for people; on standard error."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand. `run` is given its settings as an object of `settings`. Raises PipelineError."""

    name: str
    help: str
    settings: type[Any]
    run: Callable[[Any, Console], Summary]


@dataclass(frozen=True, kw_only=True)
class BrokerConnectionSettings:
    """The settings for the connection to the brokers."""

    bootstrap: str | None = setting(
        "The brokers to ask first. Without it: `spark.odradek.bootstrap.servers`, or the mounted binding.",
        default=None,
        metavar="HOST:PORT,…",
    )
    kafka: tuple[str, ...] = setting(
        "A setting of Kafka's clients, by its own name. May be repeated.", default=(), metavar="NAME=VALUE"
    )

    def client_settings(self) -> dict[str, str]:
        """By the names of Kafka's clients. Raises PipelineSettingError."""
        given = parse_pairs(self.kafka, "--kafka")
        return {**given, "bootstrap.servers": self.bootstrap} if self.bootstrap else given


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """The session, where spark-submit does not make it."""

    master: str | None = setting("Spark's master, as `local[4]`.", default=None, metavar="URL")
    conf: tuple[str, ...] = setting("A setting of Spark. May be repeated.", default=(), metavar="NAME=VALUE")
    fetch_jars: bool = setting(
        "Fetch the connector's and the format's jars with Spark's own Ivy; the image has them.", default=False
    )

    def spark_options(self) -> dict[str, str]:
        """Spark's options. Raises PipelineSettingError."""
        options = parse_pairs(self.conf, "--conf")
        return {**options, "spark.master": self.master} if self.master else options


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """The table."""

    output: str = setting("The table: a folder or URL, or a table's name for Iceberg.", metavar="PATH")
    format: str = setting("The format of the table.", default="parquet", choices=FORMATS)


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """The settings for decoding records into columns, and for records that cannot be read."""

    value_format: str | None = setting(
        "Decode values into columns of the table.", default=None, choices=PART_FORMATS
    )
    value_schema: str | None = setting(
        "The schema of values: DDL for JSON, a schema of Avro, or a descriptor set that protoc writes.",
        default=None,
        metavar="FILE",
    )
    value_message: str | None = setting(
        "The Protobuf message of values, with its package.", default=None, metavar="NAME"
    )
    value_header: str = setting(
        "Whether a schema registry's header of five bytes is before each value.",
        default="none",
        choices=("none", "confluent"),
    )
    value_prefix: str = setting("What names of columns of the value begin with.", default="", metavar="TEXT")
    key_format: str | None = setting(
        "Decode keys into columns of the table.", default=None, choices=PART_FORMATS
    )
    key_schema: str | None = setting("The schema of keys.", default=None, metavar="FILE")
    key_message: str | None = setting(
        "The Protobuf message of keys, with its package.", default=None, metavar="NAME"
    )
    key_header: str = setting(
        "Whether a schema registry's header of five bytes is before each key.",
        default="none",
        choices=("none", "confluent"),
    )
    key_prefix: str = setting("What names of columns of the key begin with.", default="key_", metavar="TEXT")
    unknown_fields: str = setting(
        "Protobuf: fields that the schema does not have. Bytes behind a record look like them.",
        default="refuse",
        choices=("refuse", "pass"),
    )
    on_bad_record: str = setting(
        "What to do with a record that cannot be read: fail, or send it to the dead letters.",
        default="fail",
        choices=("fail", "dead-letter"),
    )
    dead_letter_topic: str | None = setting(
        "The topic of dead letters; made when it is missing. Without it: the record's topic with `.dlq` behind it.",
        default=None,
        metavar="NAME",
    )
    bad_share_max: float = setting(
        "A run with a larger share of bad records fails, and writes neither rows nor dead letters.",
        default=0.01,
        metavar="SHARE",
        at_least=0,
    )


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """The settings for the driver's metrics."""

    metrics_port: int | None = setting(
        "Serve metrics for Prometheus at this port while the driver runs.",
        default=None,
        metavar="PORT",
        at_least=0,
    )
    metrics_address: str = setting(
        "The address that --metrics-port is served at.", default="0.0.0.0", metavar="HOST"
    )
    metrics_file: str | None = setting(
        "Write the metrics to this file at the end, for a textfile collector.", default=None, metavar="FILE"
    )


@dataclass(frozen=True, kw_only=True)
class ReaderSettings(MetricsSettings):
    """The settings for reading records."""

    reader: str = setting(
        "Spark's Kafka connector, or Odradek's own data source.", default="kafka", choices=READERS
    )
    isolation: str = setting(
        "Whether records of open and aborted transactions are left out.",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
    )
    records_per_task: int = setting(
        "A partition with more offsets than this is read by several tasks.", default=2_000_000, at_least=1
    )
    on_truncated: str = setting(
        "What to do when the log no longer has what is next: fail, or pass over it and record the gap.",
        default="fail",
        choices=("fail", "pass-over"),
    )


@dataclass(frozen=True, kw_only=True)
class ReadingSettings(ReaderSettings, DecodingSettings):
    """The settings for reading and decoding records."""


@dataclass(frozen=True, kw_only=True)
class TopicsSettings:
    """The settings of a load into a table that continues where it ends."""

    topic: tuple[str, ...] = setting("A topic to load. May be repeated; all are one commit.", metavar="NAME")
    start: str = setting(
        "Where a topic begins that the table does not hold yet; later runs continue where the table ends.",
        default="earliest",
        metavar="POSITION",
    )
    on_recreated: str = setting(
        "What to do when a topic was deleted and made again: fail, or start again and keep the rows of both.",
        default="fail",
        choices=("fail", "start-again"),
    )


@dataclass(frozen=True, kw_only=True)
class ReportSettings:
    """The form of a command's output."""

    report: str = setting(
        "Progress and a table, or lines of JSON; auto goes by whether there is a terminal.",
        default="auto",
        choices=("auto", "table", "json"),
    )


def parse_pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE texts by name. Raises PipelineSettingError."""
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise PipelineSettingError(f"{flag} {one}: write it as NAME=VALUE")
        found[name] = value
    return found
