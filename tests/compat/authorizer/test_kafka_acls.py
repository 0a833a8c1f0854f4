"""Kafka's own `kafka-acls` 4.1.1 and its clients' errors, against a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker_process import Broker
from tests.support.java import JavaUnavailableError, kafka_classpath
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

ACLS = "org.apache.kafka.tools.AclCommand"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """The address of a broker whose clients may change ACLs."""
    try:
        kafka_classpath()
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    broker = Broker(
        tmp_path,
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    broker.start()
    yield broker.bootstrap
    broker.stop()


def acls(bootstrap: str, *arguments: str) -> str:
    return run_kafka_tool(ACLS, "--bootstrap-server", bootstrap, *arguments).stdout


def test_acls_are_added_listed_and_removed(guarded: str) -> None:
    added = acls(
        guarded, "--add", "--allow-principal", "User:alice", "--consumer", "--topic", "orders", "--group", "g"
    )
    assert "resourceType=TOPIC, name=orders, patternType=LITERAL" in added
    acls(
        guarded,
        *("--add", "--deny-principal", "User:CN=bob,O=us", "--deny-host", "10.0.0.7", "--operation", "Write"),
        *("--topic", "eu-", "--resource-pattern-type", "prefixed"),
    )
    listed = acls(guarded, "--list")
    assert "(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)" in listed
    assert "(principal=User:CN=bob,O=us, host=10.0.0.7, operation=WRITE, permissionType=DENY)" in listed
    assert "name=eu-, patternType=PREFIXED" in listed
    matching = acls(guarded, "--list", "--topic", "eu-west", "--resource-pattern-type", "match")
    assert "User:CN=bob,O=us" in matching
    assert "User:alice" not in matching
    acls(guarded, "--remove", "--topic", "orders", "--force")
    listed = acls(guarded, "--list")
    assert "resourceType=GROUP, name=g" in listed
    assert "name=orders" not in listed
