"""Brokers that ask for TLS and a login: loads by both readers, and the sink, with the settings of Kafka's clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek_pipeline.errors import PipelineExitCode
from tests.spark.tables import pipeline, table
from tests.support.broker_process import SecuredBroker
from tests.support.peers import forgive_unclosed
from tests.support.polling import SECONDS_MAX
from tests.support.samples import numbered

__all__ = ["forgive_unclosed"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300), pytest.mark.thorough]

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(
        tmp_path / "secured",
        kinds={"LOGIN": "SASL_SSL"},
        settings={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{LOGIN} user_alice="a secret";',
        },
    )
    broker.start()
    yield broker
    broker.close()


def values_of(rows: Any) -> list[bytes]:
    return sorted(bytes(row.value) for row in rows.select("value").collect())


def test_topics_behind_a_login_are_loaded_and_written(
    spark: Any, secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": secured.bootstraps["LOGIN"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.ca_file),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "a secret",
    }
    admin = AdminClient(client)
    for made in admin.create_topics([NewTopic("orders", 2), NewTopic("copies", 1)]).values():
        made.result(SECONDS_MAX)
    values, producer = numbered(20), Producer(client)
    for number, value in enumerate(values):
        producer.produce("orders", value, partition=number % 2)
    assert producer.flush(30) == 0
    settings = {
        "bootstrap.servers": secured.bootstraps["LOGIN"],
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca_file),
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN} username="alice" password="a secret";',
    }
    given = [word for name, text in settings.items() for word in ("--kafka", f"{name}={text}")]
    for reader in ("kafka", "odradek"):
        output = str(tmp_path / reader)
        ran = pipeline("load", "--topic", "orders", "--output", output, "--reader", reader, *given)
        assert (ran.code, ran.summary.get("rows")) == (PipelineExitCode.OK, 20), capsys.readouterr().err
        assert values_of(table(spark, "parquet", output)) == values
    rows = table(spark, "parquet", output).select("value")
    rows.write.format("odradek").options(**settings, topic="copies").mode("append").save()
    copies = spark.read.format("odradek").options(**settings, subscribe="copies").load()
    assert values_of(copies) == values
    clear = ("--bootstrap", secured.bootstraps["LOGIN"], "--kafka", "request.timeout.ms=2000")
    assert (
        pipeline("load", "--topic", "orders", "--output", f"{output}-2", *clear).code != PipelineExitCode.OK
    )
