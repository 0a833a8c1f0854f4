"""A job's Spark session, from its start to its exit code, and the options by which it reaches a cluster.

A `Cluster` called NAME has a ConfigMap `NAME-spark` whose keys are options of Spark, `spark.odradek.bootstrap.servers`
and others. A job takes them from Spark's configuration (`--conf`, a properties file) or from the ConfigMap mounted as a
folder, in that order. `spark.odradek.X` is the connector's `kafka.X`: every setting of Kafka's clients can be given.

Left out: reading the Kubernetes API. A job needs no rights for its connection.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from odradek_pipeline.errors import JobRefusedError as JobRefusedError

CONNECTOR_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
AVRO_PACKAGE = f"org.apache.spark:spark-avro_2.13:{pyspark.__version__}"
# Delta 4.0 and this Iceberg are the ones that are tried with Spark 4.0.
_FORMAT_PACKAGES = {
    "delta": ("io.delta:delta-spark_2.13:4.0.0",),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",),
}
_FORMAT_OPTIONS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}
PREFIX = "spark.odradek."
BINDING_FOLDER = "/etc/odradek"
BINDING_VARIABLE = "ODRADEK_BINDING"  # names another folder

# A job of a few megabytes gains nothing from Spark's 200, and each is a task, or a store of state, of its own.
SHUFFLE_PARTITIONS_DEFAULT = 4
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_PACKAGES = "spark.jars.packages"

# Producers warn of settings that only consumers know.
_READING_ONLY = frozenset(
    {"max.poll.records", "fetch.min.bytes", "fetch.max.bytes", "max.partition.fetch.bytes"}
)


class ConnectionMissingError(JobRefusedError):
    """Nothing says where the brokers are; the text names the two places to say it."""


@dataclass(frozen=True, slots=True)
class SparkConnection:
    """Settings of Kafka's clients, by their own names; `bootstrap.servers` is always among them."""

    settings: Mapping[str, str] = field(default_factory=dict)

    def for_reading(self) -> dict[str, str]:
        """Options of the connector's sources."""
        return {f"kafka.{name}": value for name, value in self.settings.items()}

    def for_writing(self) -> dict[str, str]:
        """Options of the connector's sinks."""
        return {f"kafka.{name}": value for name, value in self.settings.items() if name not in _READING_ONLY}


def read_options(folder: Path) -> dict[str, str]:
    """Return the options of a mounted ConfigMap or Secret: a file per option, with its name. Empty without a folder."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_text().strip() for path in folder.iterdir() if path.name.startswith(PREFIX)}


def read_connection(options: Mapping[str, str], folder: Path) -> SparkConnection:
    """The connection that `options` and, below them, `folder` describe; ConnectionMissingError without brokers."""
    wanted = {**read_options(folder), **options}
    settings = {name.removeprefix(PREFIX): value for name, value in wanted.items() if name.startswith(PREFIX)}
    if not settings.get("bootstrap.servers"):
        raise ConnectionMissingError(
            f"no brokers are named: add --bootstrap, set {PREFIX}bootstrap.servers in Spark's configuration, or mount "
            f"the ConfigMap NAME-spark of your Cluster at {folder}"
        )
    return SparkConnection(settings)


def options_for(output_format: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """`given` with what a format asks of a session; what is given wins."""
    return {**_FORMAT_OPTIONS.get(output_format or "", {}), **given}


def jars_for(output_format: str | None, reader: str | None, decoded: Collection[str] = ()) -> list[str]:
    """The packages that a session needs, as Maven names them. `decoded` are the formats of keys and values."""
    found = [CONNECTOR_PACKAGE] if reader == "kafka" else []
    avro = [AVRO_PACKAGE] if "avro" in decoded else []
    return [*found, *avro, *_FORMAT_PACKAGES.get(output_format or "", ())]


def with_packages(options: Mapping[str, str], packages: Sequence[str]) -> dict[str, str]:
    """`options` with packages for Spark's Ivy, before those that they name."""
    named = [*packages, *filter(None, [options.get(_PACKAGES)])]
    return {**options, _PACKAGES: ",".join(named)}


def open_session(application: str, options: Mapping[str, str] | None = None) -> SparkSession:
    """The session that spark-submit configured, or a local one; `options` are Spark's own."""
    builder = SparkSession.builder.appName(application)
    for name, value in (options or {}).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not spark.sparkContext.getConf().contains(_SHUFFLE_PARTITIONS):
        spark.conf.set(_SHUFFLE_PARTITIONS, str(SHUFFLE_PARTITIONS_DEFAULT))
    return spark


def connection_of(spark: SparkSession | None, given: Mapping[str, str] | None = None) -> SparkConnection:
    """The connection of a session's configuration and of the folder that is mounted, below what is `given`.

    The names of `given` are those of Kafka's clients. A command that needs no session has the folder alone.
    """
    folder = Path(os.environ.get(BINDING_VARIABLE, BINDING_FOLDER))
    options = {} if spark is None else dict(spark.sparkContext.getConf().getAll())
    options |= {f"{PREFIX}{name}": value for name, value in (given or {}).items()}
    return read_connection(options, folder)


def run_job(name: str, work: Callable[[SparkSession, SparkConnection], Mapping[str, object]]) -> int:
    """A job as spark-submit runs it: prints what `work` returns as one line of JSON. 0 done, 2 refused.

    Spark's own errors leave it as they are.
    """
    spark = open_session(name.replace("_", "-"))
    try:
        answer = work(spark, connection_of(spark))
    except JobRefusedError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    finally:
        spark.stop()
    print(json.dumps(answer), flush=True)
    return 0
