"""`Client(security=…)` refuses what cannot serve when it is made: the error names the property and what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import odradek
from odradek import sync
from odradek.errors import InvalidRequest, SettingError
from odradek.network.network import SystemNetwork

SECRET = "not-to-be-shown"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{MODULE} username="anna" password="{SECRET}";',
}


@pytest.mark.parametrize("kind", [odradek.Client, sync.Client])
def test_properties_of_kafka_make_a_secured_network(kind: Any) -> None:
    assert type(_inner(kind("127.0.0.1:1", security=LOGIN))._network).__name__ == "SecureNetwork"
    for plain in ({}, {"security.protocol": "PLAINTEXT"}):
        assert type(_inner(kind("127.0.0.1:1", security=plain))._network).__name__ == "SystemNetwork"


def _inner(client: Any) -> odradek.Client:
    if isinstance(client, sync.Client):
        client.close()
        return client._inner
    assert isinstance(client, odradek.Client)
    return client


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "TLS"}, r"security: security\.protocol must be one of .*SASL_SSL, not TLS"),
        (
            LOGIN | {"security.protocol": "PLAINTEXT"},
            "is PLAINTEXT, which uses none of them.*or remove the keys",
        ),
        (
            {key: LOGIN[key] for key in ("sasl.mechanism", "sasl.jaas.config")},
            "Set security.protocol to SSL, SASL",
        ),
        (
            LOGIN | {"bootstrap.servers": "a:1"},
            r"bootstrap\.servers is no property of security; write Client\(…, boot",
        ),
        (LOGIN | {"client.id": "a"}, r"write Client\(…, client_id=…\)"),
        (LOGIN | {"group.id": "a"}, r"security: group\.id is no property of security"),
        (
            LOGIN | {"sasl.username": SECRET},
            r"Instead of sasl\.username write the user and the password in sasl\.jaas",
        ),
        (LOGIN | {"sasl.mechanisms": "PLAIN"}, r"Instead of sasl\.mechanisms write sasl\.mechanism"),
        (
            LOGIN | {"ssl.ca.location": "ca.pem"},
            r"write ssl\.truststore\.location, with ssl\.truststore\.type=PEM",
        ),
        (
            LOGIN | {"ssl.trustore.location": "a"},
            r"Instead of ssl\.trustore\.location write ssl\.truststore\.location",
        ),
        ({"security.protocol": "SASL_SSL"}, r"sasl\.mechanism"),
        (LOGIN | {"sasl.mechanism": "SCRAM"}, r"sasl\.mechanism.*SCRAM-SHA-512"),
        (LOGIN | {"sasl.jaas.config": SECRET}, r"sasl\.jaas\.config"),
        (LOGIN | {"sasl.jaas.config": f'{MODULE} password="{SECRET}";'}, r"needs username and password"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/gone.pem"}, r"gone\.pem"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "DER"}, r"ssl\.truststore\.type"),
    ],
)
def test_an_error_names_the_property_and_shows_no_secret(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        odradek.Client("127.0.0.1:1", security=given)
    assert SECRET not in str(caught.value)


def test_values_are_texts_and_properties_a_mapping() -> None:
    with pytest.raises(
        TypeError, match=r"the value of 'ssl\.truststore\.location' has to be a str, not a PosixPath"
    ):
        odradek.Client("127.0.0.1:1", security={"ssl.truststore.location": Path("ca.pem")})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"security has to be a mapping of Kafka's properties, .* not a str"):
        odradek.Client("127.0.0.1:1", security="SSL")  # type: ignore[arg-type]


def test_a_network_of_its_own_takes_no_security() -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        odradek.Client("127.0.0.1:1", security=LOGIN, network=SystemNetwork())
