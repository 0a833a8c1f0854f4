"""A cluster in which every connection is encrypted and named: ZooKeeper's, controllers', brokers' and clients'.

    CONTROLLER  SASL_SSL, PLAIN       brokers and controllers, as the user `broker`
    BROKERS     SASL_SSL, PLAIN       brokers, as the same user, a super user
    CLIENTS     SASL_SSL, SCRAM       users of the registry; `root` of PLAIN makes them, and is a super user
    NAMED       SSL                   clients with certificates of `clients_authority`
    ZooKeeper   TLS and SASL digest   nodes belong to the user `odradek`

`secrets` are all passwords and keys that are used: none may be seen anywhere.
"""

from __future__ import annotations

import socket
import ssl
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from odradek.client.secured import secured_network
from odradek.network.outbound import OutboundConnection
from odradek.wire.protocol import codec, messages
from odradek.wire.protocol.api import ApiKey
from tests.support.broker_process import free_port
from tests.support.certificates import Authority
from tests.support.cluster_processes import Cluster, Member
from tests.support.polling import SECONDS_MAX, eventually
from tests.support.zookeeper import Certificates, ZooKeeper

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKER_SECRET = "secret-between-brokers"
ROOT_SECRET = "secret-of-root"
STRANGER_SECRET = "secret-of-a-stranger"
ZOOKEEPER_SECRET = "secret-for-zookeeper"
KEY_SECRET = "secret-of-the-key"
TOKENS_SECRET = "secret-of-tokens"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


# librdkafka's settings.
Properties = dict[str, str | int | float | bool]


class SecuredMember(Member):
    """A process that is started with a file of settings, since arguments can be seen by all users of a machine."""

    ports: Mapping[str, int]
    admin_port: int

    def command(self) -> list[str]:
        config = self.write_properties(self.settings)
        command = [sys.executable, "-X", "faulthandler", "-m", "odradek", self.verb, "--id", str(self.number)]
        command += ["--zookeeper", self.connect, "--config", str(config), "--log-level", "debug"]
        command += ["--admin", f"127.0.0.1:{self.admin_port}"]
        return command + (["--data", str(self.data)] if self.verb == "broker" else [])


class SecuredCluster(Cluster):
    """`start` first, `close` at the end, which ends its ZooKeeper too. All members read the same files of trust."""

    def __init__(self, folder: Path, *, brokers: int = 3, controllers: int = 2) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        certificates = self._zookeeper_certificates = Certificates(folder / "zookeeper-certificates")
        self.zookeeper = ZooKeeper(
            folder / "zookeeper", certificates=certificates, users={"odradek": ZOOKEEPER_SECRET}
        )
        super().__init__(
            folder, f"127.0.0.1:{self.zookeeper.tls_port}", brokers=brokers, controllers=controllers
        )
        self.authority = Authority("Servers")
        self.clients_authority = Authority("Clients")
        self.ca_file = self.authority.write(folder / "ca.pem")
        self.clients_ca_file = self.clients_authority.write(folder / "clients-ca.pem")
        to_zookeeper = {
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "60000",
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(certificates.authority),
            "zookeeper.ssl.keystore.location": str(certificates.signed("member", password=KEY_SECRET)),
            "zookeeper.ssl.keystore.password": KEY_SECRET,
            "zookeeper.set.acl": "true",
            "zookeeper.sasl.client": "true",
            "zookeeper.digest.user": "odradek",
            "zookeeper.digest.password": ZOOKEEPER_SECRET,
        }
        self.controllers = {
            number: self._member("controller", number, to_zookeeper, ("CONTROLLER",))
            for number in self.controllers
        }
        self.brokers = {
            number: self._member("broker", number, to_zookeeper, ("BROKERS", "CLIENTS", "NAMED"))
            for number in self.brokers
        }

    def _member(
        self, verb: str, number: int, to_zookeeper: Mapping[str, str], listeners: tuple[str, ...]
    ) -> SecuredMember:
        member = SecuredMember(self.folder, verb, number, connect=self.connect, settings=to_zookeeper)
        member.folder.mkdir(parents=True, exist_ok=True)
        member.ports = {name: free_port() for name in listeners}
        member.admin_port = free_port()
        self.issue(member)
        users = f'username="broker" password="{BROKER_SECRET}" user_broker="{BROKER_SECRET}"'
        member.settings |= {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in member.ports.items()),
            "listener.security.protocol.map": (
                "CONTROLLER:SASL_SSL,BROKERS:SASL_SSL,CLIENTS:SASL_SSL,NAMED:SSL"
            ),
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:broker;User:root",
            "delegation.token.secret.key": TOKENS_SECRET,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(member.folder / "member.pem"),
            "ssl.key.password": KEY_SECRET,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} {users};",
        }
        if verb == "controller":
            # This user may log in there, and is no broker.
            key = "listener.name.controller.plain.sasl.jaas.config"
            member.settings[key] = f'{PLAIN} {users} user_stranger="{STRANGER_SECRET}";'
        else:
            member.settings |= {
                "controller.listener.names": "CONTROLLER",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "inter.broker.listener.name": "BROKERS",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.brokers.plain.sasl.jaas.config": f"{PLAIN} {users};",
                "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_root="{ROOT_SECRET}";',
                "listener.name.named.ssl.client.auth": "required",
                "listener.name.named.ssl.truststore.location": str(self.clients_ca_file),
                "group.initial.rebalance.delay.ms": "0",
                "default.replication.factor": "3",
                "min.insync.replicas": "2",
                "offsets.topic.num.partitions": "3",
            }
        return member

    def issue(self, member: Member) -> None:
        """Give a member a new key and certificate of the present authority, as programs do that renew them."""
        fresh = member.folder / "member.pem.new"
        self.authority.leaf(f"{member.verb}-{member.number}").write(fresh, password=KEY_SECRET)
        fresh.replace(member.folder / "member.pem")

    @property
    def members(self) -> list[SecuredMember]:
        """Controllers and brokers."""
        found = [*self.controllers.values(), *self.brokers.values()]
        assert all(isinstance(member, SecuredMember) for member in found)
        return found  # type: ignore[return-value]

    def addresses(self, listener: str) -> str:
        """The brokers' addresses at a listener, as bootstrap servers."""
        return ",".join(
            f"127.0.0.1:{member.ports[listener]}" for member in self.members if listener in member.ports
        )

    @property
    def bootstrap(self) -> str:
        return self.addresses("CLIENTS")

    def client(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> Properties:
        """librdkafka's settings of a client at CLIENTS."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    @property
    def root(self) -> Properties:
        """librdkafka's settings of the super user."""
        return self.client("root", ROOT_SECRET, "PLAIN")

    def start(self) -> None:
        self.zookeeper.start()
        self._warm_zookeeper()
        super().start()

    def _warm_zookeeper(self) -> None:
        """Shake hands once: the first time takes a cold virtual machine on a busy host longer than members wait."""
        context = ssl.create_default_context(cafile=self._zookeeper_certificates.authority)
        context.load_cert_chain(self._zookeeper_certificates.folder / "member.pem", password=KEY_SECRET)
        with (
            socket.create_connection(("127.0.0.1", self.zookeeper.tls_port or 0), 60) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1"),
        ):
            pass

    def close(self) -> None:
        super().close()
        self.zookeeper.close()


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
