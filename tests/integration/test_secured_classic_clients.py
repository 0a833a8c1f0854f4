"""The documents' clients in a cluster where all is encrypted and named: brokers and ZooKeeper, by their properties."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.classic import (
    ConsumerConnector,
    FetchRequest,
    InvalidConfigException,
    KeyedMessage,
    Producer,
    SimpleConsumer,
)
from odradek.errors import ConnectionFailed
from odradek.foundation.registry_errors import StoreError
from tests.support.polling import SECONDS_MAX
from tests.support.secured_cluster import (
    KEY_SECRET,
    PLAIN,
    ROOT_SECRET,
    ZOOKEEPER_SECRET,
    SecuredCluster,
    properties,
)

pytestmark = [pytest.mark.integration, pytest.mark.thorough]


def to_brokers(cluster: SecuredCluster) -> dict[str, str]:
    return properties(cluster, PLAIN, "PLAIN", "root", ROOT_SECRET)


def to_zookeeper(cluster: SecuredCluster) -> dict[str, str]:
    certificates = cluster._zookeeper_certificates
    return {
        "zk.connect": cluster.connect,
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(certificates.authority),
        "zookeeper.ssl.keystore.location": str(certificates.folder / "member.pem"),
        "zookeeper.ssl.keystore.password": KEY_SECRET,
        "zookeeper.sasl.client": "true",
        "zookeeper.set.acl": "true",
        "zookeeper.digest.user": "odradek",
        "zookeeper.digest.password": ZOOKEEPER_SECRET,
    }


def test_clients_log_in_to_brokers_and_to_zookeeper(secured_cluster: SecuredCluster) -> None:
    secured, unique = secured_cluster, "classic-clients"
    admin = AdminClient(secured.root)
    admin.create_topics([NewTopic(unique, 1, 3)])[unique].result(SECONDS_MAX)
    brokers, zookeeper = to_brokers(secured), to_zookeeper(secured)
    with Producer({**zookeeper, **brokers}) as producer:
        producer.send(KeyedMessage(unique, b"a"))
    with Producer({"broker.list": secured.bootstrap, "producer.type": "async", **brokers}) as producer:
        producer.send(KeyedMessage(unique, b"b"))
    group = {**zookeeper, **brokers, "groupid": unique, "autooffset.reset": "smallest"}
    with ConsumerConnector({**group, "consumer.timeout.ms": 30_000}) as connector:
        (stream,) = connector.create_message_streams({unique: 1})[unique]
        assert sorted(next(stream).message for _ in range(2)) == [b"a", b"b"]
        connector.commit_offsets()
    found: list[set[bytes | None]] = []
    for member in secured.brokers.values():
        with SimpleConsumer("127.0.0.1", member.ports["CLIENTS"], properties=brokers) as consumer:  # type: ignore[attr-defined]
            (messages,) = consumer.multifetch([FetchRequest(unique, 0, 0)])
            found.append(set() if messages.error else {one.payload for one in messages})
    assert {b"a", b"b"} in found
    wrong = {**brokers, "sasl.jaas.config": f'{PLAIN} username="root" password="wrong";'}
    with (
        Producer({"broker.list": secured.bootstrap, **wrong}) as producer,
        pytest.raises(ConnectionFailed) as one,
    ):
        producer.send(KeyedMessage(unique, b"c"))
    assert "wrong" not in str(one.value)
    with pytest.raises(StoreError):
        ConsumerConnector({**group, "zookeeper.digest.password": "wrong", "zk.connectiontimeout.ms": 5_000})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of"),
        ({"sasl.mechanism": "PLAIN"}, "PLAINTEXT, which uses none of them"),
        ({"security.protocol": "SSL", "ssl.engine.factory.class": "x"}, "ssl.engine.factory.class"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config"),
        ({"zookeeper.digest.user": "u"}, "given together"),
        ({"zookeeper.ssl.nothing": "u"}, "zookeeper.ssl.nothing"),
    ],
)
def test_security_that_cannot_be_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigException, match=words):
        Producer({"broker.list": "a:1", **given})
