"""A Cluster whose settings promise protection that brokers do not have is refused, by its definition too."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.foundation.settings.areas.protection import protection_setting_of
from odradek_operator.resources.brokers import CONFIGURATION

PROPERTIES: Any = CONFIGURATION.openapi()["properties"]
PROMISING = {
    key: schema
    for key, schema in PROPERTIES.items()
    if protection_setting_of(key) is not None
    and "cannot be set here" not in schema["x-kubernetes-validations"][0]["message"]
}


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("ssl.keystore.password", "hunter2", "ssl.keystore.password=[hidden]"),
        ("quota.producer.default", 20, "clients have a quota, which"),
        ("listener.name.x.ssl.client.auth", "required", "listener.name.x.ssl.client.auth=required"),
    ],
)
def test_missing_protection_is_a_problem_of_the_resource(key: str, value: Any, shown: str) -> None:
    problems: list[str] = []
    assert CONFIGURATION.parse({key: value}, "spec.brokers.config", problems) == {}
    (problem,) = problems
    assert problem.startswith("spec.brokers.config: ")
    assert shown in problem
    assert problem.endswith(
        "promises protection that this broker does not have, so every client that reaches it may do everything"
    )


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("authorizer.class.name", "a.B", "set spec.authorization"),
        ("allow.everyone.if.no.acl.found", True, "set spec.authorization"),
        ("super.users", "User:a", "set spec.authorization"),
        ("ssl.client.auth", "required", "set tls and authentication of"),
        ("sasl.enabled.mechanisms", "PLAIN", "set tls and authentication of"),
    ],
)
def test_what_follows_from_the_resource_is_not_set_among_the_settings(
    key: str, value: Any, instead: str
) -> None:
    problems: list[str] = []
    assert CONFIGURATION.parse({key: value}, "spec.brokers.config", problems) == {}
    (problem,) = problems
    assert problem.startswith(f"spec.brokers.config: {key} cannot be set here; {instead}")
    (rule,) = PROPERTIES[key]["x-kubernetes-validations"]
    assert rule["rule"].startswith("self ")
    assert problem.endswith(rule["message"])


def test_a_value_that_promises_nothing_is_left_out_of_the_brokers_file() -> None:
    problems: list[str] = []
    harmless = {
        "ssl.client.auth": "none",
        "authorizer.class.name": "",
        "allow.everyone.if.no.acl.found": False,
    }
    assert CONFIGURATION.parse(harmless | {"num.partitions": 3}, "config", problems) == {
        "num.partitions": "3"
    }
    assert problems == []


@pytest.mark.parametrize("key", sorted(PROMISING))
def test_the_definition_declares_it_with_a_rule_that_says_why(key: str) -> None:
    """An undeclared key would be dropped by the API server, and the brokers would be open without a word."""
    (rule,) = PROMISING[key]["x-kubernetes-validations"]
    assert rule["rule"].startswith("self ")
    assert rule["message"].startswith(f"{key} (")
    assert "promises protection" in rule["message"]


def test_the_definition_knows_the_keys_of_kafka() -> None:
    assert {"quota.producer.default", "sasl.jaas.config", "ssl.cipher.suites"} <= PROMISING.keys()
    declared = PROPERTIES["ssl.client.auth"]
    assert declared["x-kubernetes-validations"][0]["rule"] == "self in ['', 'none']"
