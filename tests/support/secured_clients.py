"""Clients of a secured cluster: logins and certificates for our own client, users, and what /metrics counts."""

from __future__ import annotations

import urllib.request
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.client.secured import secured_network
from odradek.protocol import codec, messages
from odradek.protocol.api import ApiKey
from odradek.transport.outbound import OutboundConnection
from tests.support.certificates import Authority
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.secured_cluster import SecuredCluster, SecuredMember

SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"
# What is promised is a second; a machine that is busy with other tests gets more.


def set_password(cluster: SecuredCluster, user: str, password: str) -> None:
    """Make a user of SCRAM-SHA-512, or change its password."""
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(user, credential, password.encode())
    admin = AdminClient(cluster.root)
    admin.alter_user_scram_credentials([change])[user].result(SECONDS_MAX)


def properties(
    cluster: SecuredCluster, module: str, mechanism: str, user: str, password: str
) -> dict[str, str]:
    """A login for our own client."""
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.ca_file),
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} username="{user}" password="{password}";',
    }


def named(cluster: SecuredCluster, authority: Authority, user: str) -> dict[str, str]:
    """A certificate for our own client."""
    path = authority.leaf(user).write(cluster.folder / f"{user}.pem")
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(cluster.ca_file),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(path),
    }


async def connect(port: int, given: dict[str, str]) -> OutboundConnection:
    """A connection of our own client, logged in. Raises ConnectionError."""
    network = secured_network(given)
    assert network is not None
    return await OutboundConnection.connect(network, host="127.0.0.1", port=port, client_id="test")


async def until_lost(connections: list[OutboundConnection]) -> None:
    """Wait until the broker has closed all of them."""
    await eventually("all connections are closed", lambda: all(one.is_lost for one in connections))


def api_versions(number: int) -> bytes:
    """A request that every client may send."""
    request = messages.request(ApiKey.API_VERSIONS, 0)
    return codec.encode_request(ApiKey.API_VERSIONS, 0, number, "test", request)


def metrics(member: SecuredMember) -> dict[str, float]:
    """The samples of a member, by name and labels as they are written."""
    with urllib.request.urlopen(f"http://127.0.0.1:{member.admin_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
    }
