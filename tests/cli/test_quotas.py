"""`odradek quotas` against a running broker, and what it refuses before it asks one."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Shell


@pytest.mark.thorough
@pytest.mark.integration
def test_quotas_are_set_listed_and_removed(shell: Shell, unique: str) -> None:
    user = f"CN={unique},O=*"
    given = ("producer_byte_rate=2e6", "request_percentage=12.5")
    assert "set  user" in shell.run("quotas", "set", "--user", user, *given)
    shell.run("quotas", "set", "--user", user, "--default-client-id", "consumer_byte_rate=1000")
    document = json.loads(shell.run("quotas", "list", "--user", user, "--output", "json"))
    assert document == [
        {"user": user, "quotas": {"producer_byte_rate": 2e6, "request_percentage": 12.5}},
        {"user": user, "client_id": None, "quotas": {"consumer_byte_rate": 1000.0}},
    ]
    table = shell.run("quotas", "list", "--user", user, "--exact")
    assert "2000000" in table
    assert "<default>" not in table
    shell.run("quotas", "set", "--user", user, "producer_byte_rate=5", "--validate-only")
    shell.run("quotas", "remove", "--user", user, "request_percentage")
    (kept,) = json.loads(shell.run("quotas", "list", "--user", user, "--exact", "--output", "json"))
    assert kept["quotas"] == {"producer_byte_rate": 2e6}
    shell.run("quotas", "remove", "--user", user)
    shell.run("quotas", "remove", "--user", user, "--default-client-id")
    assert json.loads(shell.run("quotas", "list", "--user", user, "--output", "json")) == []
