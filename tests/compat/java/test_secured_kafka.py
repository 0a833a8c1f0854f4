"""A directory of a Kafka that was secured: its users, quotas and access control lists are in force here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.support.broker_process import Broker
from tests.support.java import JavaUnavailableError
from tests.support.kafka_peer import KafkaPeer
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import QUICK, skip_or_fail, topic_creator
from tests.support.polling import SECONDS_MAX

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.thorough]

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


# This broker lets only users with a login in.
LOGINS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:a",
}
LOGIN_OF_A = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "a",
    "sasl.password": "secret",
}
ACLS = [
    AclBinding(
        kind, name, pattern, principal, host, operation, permission
    )
    for kind, name, pattern, principal, host, operation, permission in (
        (
            ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:b", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        ),
        (
            ResourceType.GROUP, "audit-", ResourcePatternType.PREFIXED, "User:c", "10.0.0.1", AclOperation.DELETE,
            AclPermissionType.DENY,
        ),
    )
]  # fmt: skip
# The client takes None, and its types say otherwise.
ANY: Any = None
EVERY_ACL = AclBindingFilter(
    ResourceType.ANY, ANY, ResourcePatternType.ANY, ANY, ANY, AclOperation.ANY, AclPermissionType.ANY
)


def _secure(bootstrap: str) -> None:
    """Two access control entries, one user, one quota; and one of each that is taken away again."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for acl in ACLS:
        admin.create_acls([acl])[acl].result(SECONDS_MAX)
    gone = AclBinding(
        ResourceType.TOPIC, "gone", ResourcePatternType.LITERAL, "User:b", "*", AclOperation.READ,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    admin.create_acls([gone])[gone].result(SECONDS_MAX)
    only_gone = AclBindingFilter(
        ResourceType.TOPIC, "gone", ResourcePatternType.LITERAL, ANY, ANY, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    admin.delete_acls([only_gone])[only_gone].result(SECONDS_MAX)
    former = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("a", former, b"x", b"salt")])[
        "a"
    ].result(SECONDS_MAX)
    deletion = UserScramCredentialDeletion("a", ScramMechanism.SCRAM_SHA_512)
    admin.alter_user_scram_credentials([deletion])["a"].result(SECONDS_MAX)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("a", credential, b"secret", b"salt")
    admin.alter_user_scram_credentials([upsertion])["a"].result(SECONDS_MAX)
    run_kafka_tool(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server", bootstrap, "--alter", "--entity-type", "users", "--entity-name", "a",
        "--add-config", "producer_byte_rate=1000",
    )  # fmt: skip


def test_users_quotas_and_acls_of_kafka_are_taken_over_with_its_directory(tmp_path: Path) -> None:
    try:
        kafka = KafkaPeer(tmp_path, settings=QUICK | SECURED, heap="512m")
        kafka.start()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    try:
        topic_creator(kafka.bootstrap)(1, name="orders")
        _secure(kafka.bootstrap)
        kafka.stop()
    finally:
        kafka.close()
    broker = Broker(tmp_path, settings=QUICK | LOGINS)
    broker.start()
    try:
        (line,) = [line for line in broker.log().splitlines() if "taken over from Kafka's metadata" in line]
        assert line.endswith("2 access control entries, 1 SCRAM user, 1 quota of a client")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **LOGIN_OF_A})
        assert set(admin.describe_acls(EVERY_ACL).result(SECONDS_MAX)) == set(ACLS)
        asked: Any = admin.describe_user_scram_credentials(["a"])
        described = asked["a"].result(SECONDS_MAX)
        assert [one.iterations for one in described.scram_credential_infos] == [4096]
        assert "producer_byte_rate=1000.0" in _quotas(broker, tmp_path)
        # What is deleted here does not come back from Kafka's old log.
        admin.delete_acls([EVERY_ACL])[EVERY_ACL].result(SECONDS_MAX)
        broker.restart()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, **LOGIN_OF_A})
        assert admin.describe_acls(EVERY_ACL).result(SECONDS_MAX) == []
        assert "decide nothing here" not in broker.log()
    finally:
        broker.close()


def _quotas(broker: Broker, folder: Path) -> str:
    config = folder / "a.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="secret";\n'
    )
    done = run_kafka_tool(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server", broker.bootstrap, "--command-config", str(config),
        "--describe", "--entity-type", "users", "--entity-name", "a",
    )  # fmt: skip
    return done.stdout


def test_kafkas_tools_are_told_what_is_not_there(bootstrap: str) -> None:
    ask: list[tuple[str, str, list[str]]] = [
        (
            "kafka.admin.ConfigCommand",
            "InvalidRequestException: listener.name.plaintext.max.connections=10 (this listener accepts no more",
            [
                "--alter",
                "--entity-type",
                "brokers",
                "--entity-default",
                "--add-config",
                "listener.name.plaintext.max.connections=10",
            ],
        ),
        (
            "org.apache.kafka.tools.AclCommand",
            "SecurityDisabledException",
            ["--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t"],
        ),
    ]
    for tool, words, arguments in ask:
        done = run_kafka_tool(tool, "--bootstrap-server", bootstrap, *arguments, check=False)
        assert done.returncode == 1
        assert words in done.stdout + done.stderr
