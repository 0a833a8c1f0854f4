"""Users of a real broker that has rights, logins and TLS, with the operator's reconcilers beside it."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from odradek.client.client import Client
from odradek.client.secured import secured_network
from odradek.foundation.settings.file import parse_properties
from odradek_operator.desired.user_secret import ROTATION_ANNOTATION
from odradek_operator.foundation.authority_keys import AuthorityKeys
from odradek_operator.foundation.certificates import KeyPair
from odradek_operator.gateways.kubernetes import CLUSTERS, SECRETS, USERS
from tests.operator.support.broker_world import BrokerWorld
from tests.support.broker_process import SecuredBroker
from tests.support.certificates import Authority

AUTHORITIES = ("main-cluster-ca", "main-clients-ca")


class SigningAuthority(Authority):
    """An authority whose key is known to the operator too."""

    @property
    def pair(self) -> KeyPair:
        from cryptography.hazmat.primitives import serialization

        key = self.private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return KeyPair(self.pem, key.decode())


class SecuredClusterBroker(SecuredBroker):
    """A broker with an authorizer, a listener of the operator, and listeners for both kinds of users."""

    admin_port = 0

    def __init__(self, folder: Path) -> None:
        self.signing = SigningAuthority()
        super().__init__(
            folder,
            kinds={"OWN": "PLAINTEXT", "INTERNAL": "SASL_SSL", "MUTUAL": "SSL"},
            settings={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "listener.name.internal.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
                "listener.name.mutual.ssl.client.auth": "required",
                "connection.failed.authentication.delay.ms": "0",
            },
            authority=self.signing,
        )

    @property
    def bootstrap(self) -> str:
        return self.bootstraps["OWN"]


class UserWorld(BrokerWorld):
    """A Cluster with both listeners, whose authorities are the broker's."""

    broker: Any

    async def prepare(self) -> None:
        bootstraps = self.broker.bootstraps
        mutual = {"name": "mutual", "type": "Internal"}
        spec = {
            "zookeeper": {"connect": "elsewhere:2181"},
            "internalListener": {"authentication": {"type": "scram-sha-512"}},
            "authorization": {},
            "listeners": [{**mutual, "port": 9094, "tls": True, "authentication": {"type": "tls"}}],
        }
        listeners = [{**mutual, "bootstrap": bootstraps["MUTUAL"]}]
        status = {"bootstrap": bootstraps["INTERNAL"], "listeners": listeners}
        owner = self.create(CLUSTERS, "main", spec, status=status)["metadata"]["uid"]
        for name in AUTHORITIES:
            self.create(SECRETS, name, ownerReferences=[{"uid": owner}])
        self.give_keys(AuthorityKeys(self.broker.signing.pair))
        await self.clients.secure(self.bootstrap, {"security.protocol": "PLAINTEXT"})

    def make_cluster_again(self) -> None:
        super().make_cluster_again()
        owner = self.body(CLUSTERS, "main")["metadata"]["uid"]
        for name in AUTHORITIES:
            self.create(SECRETS, name, ownerReferences=[{"uid": owner}])
        self.give_keys(AuthorityKeys(self.broker.signing.pair))

    def give_keys(self, keys: AuthorityKeys) -> None:
        """Have the operator find these keys of both authorities."""
        data = {key: base64.b64encode(text.encode()).decode() for key, text in keys.files().items()}
        for name in AUTHORITIES:
            gone = {key: None for key in self.body(SECRETS, name).get("data", {}) if key not in data}
            self.merge(SECRETS, name, {"data": {**gone, **data}})
        # The resync, minutes later, finds it.
        self.restart_operator()

    def secret(self, name: str) -> dict[str, str]:
        found = self.body(SECRETS, name)["data"]
        return {key: base64.b64decode(text).decode("utf-8", "replace") for key, text in found.items()}

    def rotate(self, name: str, value: str) -> None:
        self.merge(USERS, name, {"metadata": {"annotations": {ROTATION_ANNOTATION: value}}})


async def connect_as(properties: dict[str, str], topic: str | None = None) -> None:
    """Connect as a client does that has read the Secret; with a topic, ask to write to it."""
    async with Client(
        properties["bootstrap.servers"], network=secured_network(properties), request_timeout_ms=10_000
    ) as client:
        if topic is not None:
            cluster = await client.refresh([topic])
            failure = cluster.topics[topic].error()
            if failure is not None:
                raise failure


def read_properties(files: dict[str, str]) -> dict[str, str]:
    return dict(parse_properties(files["client.properties"]))
