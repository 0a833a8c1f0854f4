"""`odradek acls` against a broker with an authorizer, and one without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.cli.exit_codes import ExitCode
from tests.cli.conftest import Shell
from tests.support.broker_process import Broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell at a broker whose clients are super users."""
    broker = Broker(
        tmp_path_factory.mktemp("guarded"),
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        },
    )
    broker.start()
    yield Shell(broker.bootstrap)
    broker.stop()


def rows(document: Any) -> set[tuple[str, ...]]:
    return {tuple(one.values()) for one in document}


@pytest.mark.thorough
@pytest.mark.integration
def test_acls_are_added_listed_and_removed(guarded: Shell) -> None:
    added = guarded.json("acls", "add", "--allow-principal", "User:alice", "--producer", "--topic", "orders")
    orders = ("topic", "orders", "literal", "User:alice", "*")
    assert rows(added) == {
        (*orders, "write", "allow"),
        (*orders, "describe", "allow"),
        (*orders, "create", "allow"),
    }
    denial = ["--deny-principal", "User:*", "--deny-host", "10.0.0.7", "--operation", "read", "--topic", "o"]
    guarded.run("acls", "add", *denial, "--resource-pattern-type", "prefixed")
    assert len(guarded.json("acls", "list")) == 4
    matching = guarded.json("acls", "list", "--topic", "orders", "--resource-pattern-type", "match")
    assert len(matching) == 4
    assert len(guarded.json("acls", "list", "--topic", "orders")) == 3
    assert len(guarded.json("acls", "list", "--principal", "User:*")) == 1
    table = guarded.run("acls", "list")
    assert "PRINCIPAL" in table
    assert "prefixed" in table
    assert len(guarded.json("acls", "remove", "--topic", "orders", "--dry-run")) == 3
    one = ["acls", "remove", "--allow-principal", "User:alice", "--operation", "create", "--topic", "orders"]
    assert rows(guarded.json(*one)) == {(*orders, "create", "allow")}
    assert len(guarded.json("acls", "remove", "--topic", "orders")) == 2
    assert guarded.json("acls", "list", "--topic", "orders") == []
    guarded.run("acls", "remove", "--topic", "o", "--resource-pattern-type", "prefixed")
    assert guarded.json("acls", "list") == []


@pytest.mark.integration
def test_one_wrong_acl_does_not_stop_the_others(guarded: Shell) -> None:
    principals = ["--allow-principal", "alice", "--allow-principal", "User:bob"]
    guarded.run("acls", "add", *principals, "--operation", "read", "--topic", "t", code=ExitCode.REFUSED)
    assert "alice" in guarded.error
    assert [one["principal"] for one in guarded.json("acls", "remove", "--topic", "t")] == ["User:bob"]


@pytest.mark.integration
def test_a_broker_without_an_authorizer_says_so(shell: Shell) -> None:
    shell.run("acls", "list", code=ExitCode.REFUSED)
    assert "authorizer.class.name" in shell.error
