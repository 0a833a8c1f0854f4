"""Kafka's own `kafka-configs` for users, client ids and addresses: their quotas, and credentials of SCRAM."""

from __future__ import annotations

import pytest

from tests.support.java import JavaUnavailableError
from tests.support.kafka_tools import run_kafka_tool
from tests.support.peers import skip_or_fail

pytestmark = [pytest.mark.clients, pytest.mark.java, pytest.mark.slow, pytest.mark.thorough]

CREDENTIAL = "SCRAM-SHA-512=[iterations=4096,password=secret-of-carol]"


def configs(bootstrap: str, *arguments: str, check: bool = True) -> str:
    tool = "kafka.admin.ConfigCommand"
    try:
        done = run_kafka_tool(tool, "--bootstrap-server", bootstrap, *arguments, check=check)
    except JavaUnavailableError as error:
        skip_or_fail(str(error))
    assert (done.returncode == 0) == check, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_user_has_quotas_and_a_credential_side_by_side(bootstrap: str) -> None:
    carol = ("--entity-type", "users", "--entity-name", "carol")
    configs(bootstrap, "--alter", *carol, "--add-config", "producer_byte_rate=1024")
    configs(bootstrap, "--alter", *carol, "--add-config", CREDENTIAL)
    described = configs(bootstrap, "--describe", *carol)
    assert "Quota configs for user-principal 'carol' are producer_byte_rate=1024.0" in described
    assert (
        "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=4096" in described
    )
    assert "secret-of-carol" not in described
    configs(bootstrap, "--alter", *carol, "--delete-config", "SCRAM-SHA-512")
    described = configs(bootstrap, "--describe", *carol)
    assert "producer_byte_rate=1024.0" in described
    assert "SCRAM" not in described
    configs(bootstrap, "--alter", *carol, "--delete-config", "producer_byte_rate")
    assert "producer_byte_rate" not in configs(bootstrap, "--describe", *carol)


def test_client_ids_of_users_defaults_and_addresses_have_quotas(bootstrap: str) -> None:
    both = ("--entity-type", "users", "--entity-name", "dave", "--entity-type", "clients")
    of_client = (*both, "--entity-name", "loader")
    configs(
        bootstrap, "--alter", *of_client, "--add-config", "consumer_byte_rate=2048,request_percentage=150"
    )
    configs(bootstrap, "--alter", *both, "--entity-default", "--add-config", "controller_mutation_rate=5.5")
    described = configs(bootstrap, "--describe", *of_client)
    assert "Quota configs for user-principal 'dave', client-id 'loader' are" in described
    assert {"consumer_byte_rate=2048.0", "request_percentage=150.0"} <= set(
        described.split(" are ")[1].strip().split(", ")
    )
    listed = configs(bootstrap, "--describe", "--entity-type", "users", "--entity-type", "clients")
    assert "user-principal 'dave', the default client-id are controller_mutation_rate=5.5" in listed
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    configs(bootstrap, "--alter", *address, "--add-config", "connection_creation_rate=100")
    assert "connection_creation_rate=100.0" in configs(bootstrap, "--describe", *address)
    refused = configs(bootstrap, "--alter", *address, "--add-config", "producer_byte_rate=1", check=False)
    assert "producer_byte_rate" in refused
