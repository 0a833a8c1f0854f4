"""How a job finds its brokers, and positions as people write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odradek_pipeline.offsets import PositionError, position_options
from odradek_pipeline.session import ConnectionMissingError, bound_options, connection_from, jars_for
from tests.support.broker_process import CHECKOUT


def bind(folder: Path, **options: str) -> Path:
    """A folder as Kubernetes mounts a ConfigMap; underscores in a name stand for dots."""
    for name, value in options.items():
        (folder / name.replace("_", ".")).write_text(value)
    return folder


def test_a_mounted_binding_names_the_brokers(tmp_path: Path) -> None:
    folder = bind(
        tmp_path,
        spark_odradek_bootstrap_servers="one-bootstrap:9092\n",
        spark_odradek_max_poll_records="10000",
        other="x",
    )
    (folder / "spark-defaults.conf").write_text("spark.odradek.bootstrap.servers elsewhere:1\n")
    connection = connection_from({"spark.app.name": "job"}, folder)
    assert connection.for_reading() == {
        "kafka.bootstrap.servers": "one-bootstrap:9092",
        "kafka.max.poll.records": "10000",
    }
    assert connection.for_writing() == {"kafka.bootstrap.servers": "one-bootstrap:9092"}


def test_sparks_own_configuration_wins_over_the_binding(tmp_path: Path) -> None:
    bind(tmp_path, spark_odradek_bootstrap_servers="a:1", spark_odradek_security_protocol="PLAINTEXT")
    connection = connection_from({"spark.odradek.bootstrap.servers": "b:2"}, tmp_path)
    assert connection.settings == {"bootstrap.servers": "b:2", "security.protocol": "PLAINTEXT"}


def test_without_brokers_a_job_says_where_to_name_them(tmp_path: Path) -> None:
    assert bound_options(tmp_path / "absent") == {}
    with pytest.raises(ConnectionMissingError, match=r"spark\.odradek\.bootstrap\.servers.*NAME-spark"):
        connection_from({"spark.app.name": "job"}, tmp_path)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("2026-03-01T12:00:00Z", 1772366400000),
        ("2026-03-01T13:00:00+01:00", 1772366400000),
        ("2026-03-01T12:00:00", 1772366400000),
        ("1772366400000", 1772366400000),
    ],
)
def test_a_time_is_a_position(text: str, milliseconds: int) -> None:
    assert position_options("ending", "t", text) == {"endingTimestamp": str(milliseconds)}
    assert position_options("starting", "t", text) == {
        "startingTimestamp": str(milliseconds),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def test_words_and_offsets_are_positions() -> None:
    assert position_options("starting", "t", "earliest") == {"startingOffsets": "earliest"}
    options = position_options("ending", "t", "1:20,0:7")
    assert json.loads(options["endingOffsets"]) == {"t": {"0": 7, "1": 20}}


@pytest.mark.parametrize("text", ["yesterday", "", "0:1,", "0=1", "-5"])
def test_other_texts_are_refused_with_the_forms_that_there_are(text: str) -> None:
    with pytest.raises(PositionError, match="earliest, latest, a time"):
        position_options("starting", "t", text)


@pytest.mark.parametrize("output_format", ["parquet", "delta", "iceberg"])
def test_the_image_has_the_jars_that_a_session_fetches(output_format: str) -> None:
    listed = (CHECKOUT / "pipeline" / "connector.xml").read_text()
    for package in jars_for(output_format, "kafka"):
        group, artifact, version = package.split(":")
        assert f'<dependency org="{group}" name="{artifact}" rev="{version}"' in listed
    assert jars_for("parquet", "odradek") == []
