"""How a job finds its brokers, and the jars that a session needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek_pipeline.connection.session import (
    ConnectionMissingError,
    jars_for,
    read_connection,
    read_options,
    with_packages,
)
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
    connection = read_connection({"spark.app.name": "job"}, folder)
    assert connection.for_reading() == {
        "kafka.bootstrap.servers": "one-bootstrap:9092",
        "kafka.max.poll.records": "10000",
    }
    assert connection.for_writing() == {"kafka.bootstrap.servers": "one-bootstrap:9092"}


def test_sparks_own_configuration_wins_over_the_binding(tmp_path: Path) -> None:
    bind(tmp_path, spark_odradek_bootstrap_servers="a:1", spark_odradek_security_protocol="PLAINTEXT")
    connection = read_connection({"spark.odradek.bootstrap.servers": "b:2"}, tmp_path)
    assert connection.settings == {"bootstrap.servers": "b:2", "security.protocol": "PLAINTEXT"}


def test_without_brokers_a_job_says_where_to_name_them(tmp_path: Path) -> None:
    assert read_options(tmp_path / "absent") == {}
    with pytest.raises(ConnectionMissingError, match=r"spark\.odradek\.bootstrap\.servers.*NAME-spark"):
        read_connection({"spark.app.name": "job"}, tmp_path)


@pytest.mark.parametrize("output_format", ["parquet", "delta", "iceberg"])
def test_the_image_has_the_jars_that_a_session_fetches(output_format: str) -> None:
    listed = (CHECKOUT / "pipeline" / "connector.xml").read_text()
    for package in jars_for(output_format, "kafka", ["json", "avro"]):
        group, artifact, version = package.split(":")
        assert f'<dependency org="{group}" name="{artifact}" rev="{version}"' in listed
    assert jars_for("parquet", "odradek") == []


def test_fetched_jars_come_beside_the_packages_that_a_user_names() -> None:
    named = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.4.1", "spark.master": "local[2]"}
    assert with_packages(named, ["a:b:1", "c:d:2"]) == {
        "spark.jars.packages": "a:b:1,c:d:2,org.apache.hadoop:hadoop-aws:3.4.1",
        "spark.master": "local[2]",
    }
    assert with_packages({}, ["a:b:1"]) == {"spark.jars.packages": "a:b:1"}
