"""Two brokers that replicate over TLS and a login, each named to the other, while clients use a third kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.certificates import Authority
from tests.support.cluster_processes import Cluster
from tests.support.local_process import running
from tests.support.polling import SECONDS_MAX
from tests.support.zookeeper import ZooKeeper

pytestmark = [pytest.mark.integration, pytest.mark.clients]

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="between-brokers" user_broker="between-brokers" user_alice="al";'
)


def test_replication_over_tls_with_a_login(tmp_path: Path, zookeeper: ZooKeeper) -> None:
    authority = Authority()
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.leaf("broker").write(tmp_path / "broker.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write(tmp_path / "ca.pem")),
    }
    cluster = Cluster(tmp_path, zookeeper.connect, brokers=2, controllers=1)
    for broker in cluster.brokers.values():
        broker.settings |= settings
    client: dict[str, str | int | float | bool] = {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "al",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }
    with running(cluster):
        admin = AdminClient(client)
        topic = NewTopic("secured", 2, 2, config={"min.insync.replicas": "2"})
        admin.create_topics([topic], request_timeout=30)["secured"].result(SECONDS_MAX)
        failures: list[object] = []
        producer = Producer(client | {"acks": "all"})
        for number in range(200):
            producer.produce("secured", str(number), on_delivery=lambda error, _: failures.append(error))
        assert producer.flush(SECONDS_MAX) == 0
        assert failures == [None] * 200
        for broker in cluster.brokers.values():
            assert "between-brokers" not in broker.log()
