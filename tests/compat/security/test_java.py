"""Kafka's own tools, in Java, on each kind of listener: with passwords and with certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.security.conftest import PASSWORD
from tests.support.broker_process import SecuredBroker
from tests.support.java import KAFKA_OLD_VERSION, KAFKA_VERSION, JavaUnavailableError, run_kafka_tool
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

MODULE = "org.apache.kafka.common.security"


@pytest.mark.parametrize(
    ("listener", "mechanism", "version"),
    [
        ("NAMED", "", KAFKA_VERSION),
        ("LOGIN", "PLAIN", KAFKA_VERSION),
        ("LOGIN", "SCRAM-SHA-512", KAFKA_VERSION),
        ("CLEAR", "SCRAM-SHA-256", KAFKA_VERSION),
        ("LOGIN", "SCRAM-SHA-256", KAFKA_OLD_VERSION),
    ],
)
def test_a_topic_is_made_by_kafkas_tool(
    secured: SecuredBroker, tmp_path: Path, listener: str, mechanism: str, version: str
) -> None:
    kind = {"NAMED": "SSL", "LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"}[listener]
    lines = [
        f"security.protocol={kind}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={secured.ca_file}",
    ]
    if listener == "NAMED":
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={secured.alice_file}"]
    else:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines += [
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={MODULE}.{module} required username="alice" password="{PASSWORD}";',
        ]
    config = tmp_path / "client.properties"
    config.write_text("\n".join(lines))
    topic = f"java-{version}-{listener}-{mechanism}".lower()
    common = ["--bootstrap-server", secured.bootstraps[listener], "--command-config", str(config)]
    try:
        run_kafka_tool(
            "org.apache.kafka.tools.TopicCommand", *common, "--create", "--topic", topic, version=version
        )
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    listed = run_kafka_tool("org.apache.kafka.tools.TopicCommand", *common, "--list", version=version)
    assert topic in listed.stdout.split()
