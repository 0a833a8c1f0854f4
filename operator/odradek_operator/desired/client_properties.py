"""A client's connection in the forms that clients read: Kafka's properties, a file of them, and options of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from odradek_operator.foundation.certificates import KeyPair

SPARK_PREFIX: Final = "spark.odradek."
_LOGIN_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Password:
    """A login with SCRAM."""

    user: str
    mechanism: str
    password: str

    def __repr__(self) -> str:
        return f"Password({self.user}, {self.mechanism})"

    @property
    def jaas(self) -> str:
        """The value of sasl.jaas.config. A password that its owner brings may have quotes in it."""
        password = self.password.replace("\\", "\\\\").replace('"', '\\"')
        return f'{_LOGIN_MODULE} required username="{self.user}" password="{password}";'


Credential = Password | KeyPair


def client_properties(
    bootstrap: str, protocol: str, *, authority: str | None = None, credential: Credential | None = None
) -> dict[str, str]:
    """Kafka's properties. `authority` is what the client trusts, in PEM; None for its system's authorities."""
    properties = {"bootstrap.servers": bootstrap, "security.protocol": protocol}
    if protocol.endswith("SSL") and authority is not None:
        properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    match credential:
        case Password():
            properties |= {"sasl.mechanism": credential.mechanism, "sasl.jaas.config": credential.jaas}
        case KeyPair(certificate, key):
            properties |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": certificate,
                "ssl.keystore.key": key,
            }
    return properties


def properties_file(properties: Mapping[str, str]) -> str:
    """A properties file: one line for each, as Java reads it."""
    return "".join(f"{key}={_escape_value(value)}\n" for key, value in properties.items())


def spark_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The same as options of a Spark session, by which our jobs connect."""
    return {f"{SPARK_PREFIX}{key}": value for key, value in properties.items()}


def spark_file(options: Mapping[str, str]) -> str:
    """Options as a properties file of Spark."""
    return "".join(f"{key} {_escape_value(value)}\n" for key, value in options.items())


def _escape_value(value: str) -> str:
    return value.strip().replace("\\", "\\\\").replace("\n", "\\n")
