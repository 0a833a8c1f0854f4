"""The port of --admin with the TLS, the users and the rights of a listener (admin.listener.name)."""

from __future__ import annotations

import base64
import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from odradek.foundation.limits import HANDSHAKES_OPEN_MAX
from tests.support.broker_process import SecuredBroker, free_port
from tests.support.certificates import Authority
from tests.support.command_line import Ended, run_command
from tests.support.polling import wait_until
from tests.support.tokens import AUDIENCE, ISSUER, Provider

pytestmark = [pytest.mark.integration, pytest.mark.clients]

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_admin="admin-secret" user_alice="al:ice";'
)
ANSWER_SECONDS_MAX = 60.0


class Port:
    """Asks the port of one broker."""

    def __init__(self, broker: SecuredBroker, address: str) -> None:
        self.broker = broker
        self.address = address
        self.provider = Provider()

    def ask(
        self,
        path: str,
        *,
        basic: tuple[str, str] | None = None,
        bearer: str | None = None,
        certificate: Path | None = None,
        body: object = None,
    ) -> tuple[int, str]:
        """(status, text)."""
        context = ssl.create_default_context(cafile=str(self.broker.ca_file))
        if certificate is not None:
            context.load_cert_chain(certificate)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://{self.address}{path}", data)
        if basic is not None:
            request.add_header(
                "Authorization", "Basic " + base64.b64encode(":".join(basic).encode()).decode()
            )
        if bearer is not None:
            request.add_header("Authorization", f"Bearer {bearer}")
        try:
            with urllib.request.urlopen(request, context=context, timeout=ANSWER_SECONDS_MAX) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder = tmp_path_factory.mktemp("admin-port")
    provider = Provider()
    address = f"127.0.0.1:{free_port()}"
    broker = SecuredBroker(
        folder,
        kinds={"CLIENTS": "SASL_SSL"},
        settings={
            "admin.listener.name": "admin",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.admin.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.clients.plain.sasl.jaas.config": JAAS,
            "listener.name.admin.plain.sasl.jaas.config": JAAS,
            "listener.name.admin.ssl.client.auth": "requested",
            "sasl.oauthbearer.jwks.endpoint.url": provider.write(folder / "keys.json"),
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        },
    )
    broker.entries["listener.security.protocol.map"] += ",ADMIN:SASL_SSL"
    broker.arguments = ["--admin", address]
    broker.start()
    admin = _admin(broker)
    for topic in ("payments", "salaries"):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(ANSWER_SECONDS_MAX)
    for principal in ("User:alice", "User:CN=alice"):
        acl = AclBinding(
            ResourceType.TOPIC,
            "payments",
            ResourcePatternType.LITERAL,
            principal,
            "*",
            AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )
        admin.create_acls([acl])[acl].result(ANSWER_SECONDS_MAX)
    found = Port(broker, address)
    found.provider = provider
    yield found
    broker.close()


def _admin(broker: SecuredBroker) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": broker.bootstraps["CLIENTS"],
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(broker.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
        }
    )


def _topics(metrics: str) -> set[str]:
    """Those that are not internal."""
    found = {
        line.split('topic="')[1].split('"')[0]
        for line in metrics.splitlines()
        if line.startswith("odradek_log_end_offset{")
    }
    return {topic for topic in found if not topic.startswith("__")}


def test_probes_need_no_login(port: Port) -> None:
    assert port.ask("/healthz") == (200, "ok\n")
    assert port.ask("/readyz") == (200, "ready\n")


def test_plain_http_is_not_answered(port: Port) -> None:
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{port.address}/healthz", timeout=ANSWER_SECONDS_MAX)


def test_half_handshakes_leave_room_for_others(port: Port) -> None:
    host, _, number = port.address.partition(":")
    with ExitStack() as held:
        for _ in range(HANDSHAKES_OPEN_MAX + 20):
            held.enter_context(socket.create_connection((host, int(number)), timeout=ANSWER_SECONDS_MAX))
        assert port.ask("/healthz") == (200, "ok\n")


def test_a_stranger_is_refused_on_this_machine_too(port: Port) -> None:
    for path in ("/metrics", "/testing/faults", "/nothing"):
        assert port.ask(path)[0] == 401
    assert port.ask("/record-times", body={})[0] == 401


@pytest.mark.parametrize(
    "basic",
    [("alice", "wrong"), ("nobody", "al:ice"), ("alice", ""), ("", "al:ice"), ("alice\0admin", "al:ice")],
)
def test_wrong_passwords_are_refused_late_and_alike(port: Port, basic: tuple[str, str]) -> None:
    began = time.monotonic()
    status, text = port.ask("/metrics", basic=basic)
    assert time.monotonic() - began >= 0.1
    assert (status, text) == (401, "a login is needed: the user is unknown, or its secret is wrong\n")
    assert "al:ice" not in port.broker.log()


def test_a_user_of_plain_sees_what_it_may_describe(port: Port) -> None:
    status, text = port.ask("/metrics", basic=("alice", "al:ice"))
    assert (status, _topics(text)) == (200, {"payments"})
    assert 'odradek_logins_total{listener="admin",mechanism="PLAIN"}' in text
    assert 'odradek_certificate_not_after_seconds{listener="admin"}' in text
    assert _topics(port.ask("/metrics", basic=("admin", "admin-secret"))[1]) == {"payments", "salaries"}


def test_a_client_certificate_names_its_subject(port: Port) -> None:
    status, text = port.ask("/metrics", certificate=port.broker.alice_file)
    assert (status, _topics(text)) == (200, {"payments"})


def test_a_login_counts_before_a_certificate(port: Port) -> None:
    certificate = port.broker.alice_file
    assert port.ask("/metrics", certificate=certificate, basic=("admin", "wrong"))[0] == 401
    text = port.ask("/metrics", certificate=certificate, basic=("admin", "admin-secret"))[1]
    assert _topics(text) == {"payments", "salaries"}


def test_tokens_are_checked(port: Port) -> None:
    status, text = port.ask("/metrics", bearer=port.provider.token("alice"))
    assert (status, _topics(text)) == (200, {"payments"})
    assert port.ask("/metrics", bearer=Provider().token("admin"))[0] == 401
    assert port.ask("/metrics", bearer=port.provider.token("alice", life_seconds=-60))[0] == 401
    assert port.ask("/metrics", bearer="x")[0] == 401


@pytest.mark.parametrize("mechanism", [ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512])
def test_a_user_of_scram_logs_in_until_it_is_deleted(port: Port, mechanism: ScramMechanism) -> None:
    admin = _admin(port.broker)
    change = UserScramCredentialUpsertion("carol", ScramCredentialInfo(mechanism, 4096), b"ca,r=ol")
    admin.alter_user_scram_credentials([change])["carol"].result(ANSWER_SECONDS_MAX)
    status, text = port.ask("/metrics", basic=("carol", "ca,r=ol"))
    assert (status, _topics(text)) == (200, set())
    assert port.ask("/metrics", basic=("carol", "carol"))[0] == 401
    deletion = UserScramCredentialDeletion("carol", mechanism)
    admin.alter_user_scram_credentials([deletion])["carol"].result(ANSWER_SECONDS_MAX)
    assert port.ask("/metrics", basic=("carol", "ca,r=ol"))[0] == 401


def test_logins_of_one_connection_are_each_their_own(port: Port) -> None:
    context = ssl.create_default_context(cafile=str(port.broker.ca_file))
    host, _, number = port.address.partition(":")
    kept = http.client.HTTPSConnection(host, int(number), context=context, timeout=ANSWER_SECONDS_MAX)

    def asked(path: str, login: str | None) -> tuple[int, set[str]]:
        headers = (
            {} if login is None else {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
        )
        kept.request("GET", path, headers=headers)
        with kept.getresponse() as answer:
            return answer.status, _topics(answer.read().decode())

    assert asked("/metrics", "admin:admin-secret") == (200, {"payments", "salaries"})
    assert asked("/metrics", "alice:al:ice") == (200, {"payments"})
    assert asked("/healthz", None) == (200, set())
    assert asked("/metrics", None) == (401, set())
    kept.close()


def test_record_times_are_of_topics_that_the_caller_may_describe(port: Port) -> None:
    body = {"payments": {"0": 0}, "salaries": {"0": 0}}
    assert port.ask("/record-times", basic=("alice", "al:ice"), body=body) == (200, "{}")


def test_locks_are_of_groups_that_the_caller_may_describe(port: Port) -> None:
    path, admin = "/queue-locks?group=work", ("admin", "admin-secret")
    assert port.ask(path)[0] == 401
    status, text = port.ask(path, basic=("alice", "al:ice"))
    assert (status, text.startswith("the caller may not describe this group")) == (403, True)
    status, text = port.ask(path, basic=admin)
    assert (status, json.loads(text)["locks"]) == (200, [])
    for wrong in ("", "?group=", "?group=a&group=b", "?group=a&member=b", "?%ff=%00"):
        status, text = port.ask(f"/queue-locks{wrong}", basic=admin)
        assert (status, "/queue-locks?group=NAME" in text) == (400, True), wrong
    # A name may be anything.
    assert port.ask("/queue-locks?group=%ff%00%0a", basic=admin)[0] == 200


def test_the_command_line_asks_for_locks_with_the_login_of_its_connection(port: Port, tmp_path: Path) -> None:
    broker = port.broker
    entries = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(broker.ca_file),
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="admin-secret";',
    }
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={text}\n" for key, text in entries.items()))

    def run(*arguments: str) -> Ended:
        environment = {**os.environ, "ODRADEK_BOOTSTRAP": broker.bootstraps["CLIENTS"]}
        return run_command([*arguments, "--command-config", str(config)], environment=environment)

    assert run("configs", "set", "group", "work", "share.auto.offset.reset=earliest").code == 0
    # The other tests find their topics as they are: without records.
    assert run("topics", "create", "work").code == 0
    assert run("produce", "work", "--file", str(config)).code == 0
    assert run("consume", "work", "--share-group", "work", "-n", "1").code == 0
    assert run("topics", "delete", "work", "--execute").code == 0
    shown = run("queues", "locks", "work", "--admin", port.address, "--output", "json")
    assert (shown.code, json.loads(shown.out)["missing"]) == (0, []), shown.error
    plain = run("queues", "locks", "work", "--admin", f"http://{port.address}")
    assert plain.code == 4
    assert b"where the port has TLS, name it as --admin https://" in plain.error


def test_an_authority_that_is_taken_out_ends_open_connections_too(port: Port) -> None:
    broker = port.broker
    other = Authority("Other CA")
    bob = other.leaf("bob").write(broker.folder / "bob.pem")
    with pytest.raises(OSError):
        port.ask("/metrics", certificate=bob)
    trusted = broker.authority.pem
    broker.ca_file.write_text(trusted + other.pem)
    until(lambda: port.ask("/metrics", certificate=bob)[0] == 200)
    context = ssl.create_default_context(cafile=str(broker.ca_file))
    context.load_cert_chain(bob)
    host, _, number = port.address.partition(":")
    kept = http.client.HTTPSConnection(host, int(number), context=context, timeout=ANSWER_SECONDS_MAX)

    def status() -> int:
        kept.request("GET", "/metrics")
        with kept.getresponse() as answer:
            answer.read()
            return answer.status

    assert status() == 200
    kept.auto_open = 0
    broker.ca_file.write_text(trusted)
    until(lambda: status() == 401)
    kept.close()


def until(holds: Callable[[], bool]) -> None:
    """Ask until it holds; a connection that is refused does not hold."""
    wait_until("it holds", holds, not_yet=OSError)
