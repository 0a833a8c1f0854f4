"""A directory and a configuration file of a Kafka that was secured: this broker says what it would not keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.broker_process import Broker
from tests.support.java import JavaUnavailableError, run_kafka_tool
from tests.support.kafka_peer import KafkaPeer
from tests.support.peers import QUICK, skip_or_fail, topic_creator

pytestmark = [pytest.mark.clients, pytest.mark.java]

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def _secure(bootstrap: str) -> None:
    """One access control entry, one user, one quota."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    acl = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:a",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([acl])[acl].result(30)
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("a", credential, b"secret", b"salt")
    admin.alter_user_scram_credentials([upsertion])["a"].result(30)
    run_kafka_tool(
        "kafka.admin.ConfigCommand",
        "--bootstrap-server", bootstrap, "--alter", "--entity-type", "users", "--entity-name", "a",
        "--add-config", "producer_byte_rate=1000",
    )  # fmt: skip


def test_what_protected_kafka_is_named_when_its_directory_is_taken_over(tmp_path: Path) -> None:
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
    broker = Broker(tmp_path, settings=QUICK)
    broker.start()
    try:
        (line,) = [line for line in broker.log().splitlines() if "was protected by" in line]
        assert " WARNING " in line
        assert (
            "1 access control entry, 1 SCRAM user, 1 quota of a client, which this broker does not have"
            in line
        )
        assert "every client that reaches it may do everything" in line
    finally:
        broker.close()


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
