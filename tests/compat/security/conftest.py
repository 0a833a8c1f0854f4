"""One broker with a listener of every secured kind, for the clients' tests."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.polling import SECONDS_MAX

with warnings.catch_warnings():
    # kafka-python calls what newer Pythons deprecate.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.client.addresses import Address
from odradek.client.connection import BrokerConnection
from odradek.client.secured import secured_network
from tests.support.broker_process import SecuredBroker
from tests.support.peers import forgive_unclosed

__all__ = ["forgive_unclosed", "secured"]

PASSWORD = "alice's secret=,"
PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="{PASSWORD}";'
)


def make_scram_user(broker: SecuredBroker) -> None:
    """The first user of SCRAM is made by a user of PLAIN."""
    admin = AdminClient(
        {
            "bootstrap.servers": broker.bootstraps["LOGIN"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(broker.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
        }
    )
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        credential = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion("alice", credential, PASSWORD.encode(), b"some salt")
        admin.alter_user_scram_credentials([change])["alice"].result(SECONDS_MAX)
    asked: Any = admin.describe_user_scram_credentials(["alice"])
    described = asked["alice"].result(SECONDS_MAX)
    assert {one.iterations for one in described.scram_credential_infos} == {4096}


async def opened(address: str, properties: dict[str, str]) -> BrokerConnection:
    """A connection of our client, logged in with these properties."""
    network = secured_network(properties)
    assert network is not None
    host, _, port = address.rpartition(":")
    return await BrokerConnection.open(
        Address(host, int(port)),
        network=network,
        client_id="test",
        connect_timeout_ms=10_000,
        request_timeout_ms=10_000,
    )


@pytest.fixture(scope="package")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    broker = SecuredBroker(
        tmp_path_factory.mktemp("secured"),
        kinds={"CLIENTS": "SSL", "NAMED": "SSL", "LOGIN": "SASL_SSL", "CLEAR": "SASL_PLAINTEXT"},
        settings={
            "listener.name.named.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": PLAIN_USERS,
            "listener.name.clear.plain.sasl.jaas.config": PLAIN_USERS,
            "listener.name.clear.connections.max.reauth.ms": "3000",
        },
    )
    broker.start()
    make_scram_user(broker)
    yield broker
    assert broker.stop() == 0
    log = broker.log()
    for secret in (PASSWORD, "admin-secret", "BEGIN PRIVATE", "stored_key"):
        assert secret not in log
