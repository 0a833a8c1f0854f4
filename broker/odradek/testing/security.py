"""TLS and logins of a test's broker: the settings of its listener, and what clients need to connect.

The certificate and its authority are made at the start and live as long as the folder. They need `cryptography`, which
`pip install 'odradek[security]'` brings; logins without TLS need nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

PLAINTEXT = "PLAINTEXT"
PROTOCOLS = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM = "PLAIN"
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_USER = re.compile(r"[A-Za-z0-9._-]+\Z")


class ListenerSecurity:
    """One listener's protection. `users` are names with their passwords, for a protocol with SASL.

    Raises ValueError for an unknown protocol, and for users that do not fit it.
    """

    def __init__(self, protocol: str, users: Mapping[str, str] | None, folder: Path) -> None:
        self.protocol = protocol
        self.users = dict(users or {})
        self.ca_file = folder / "ca.pem"
        self._broker_file = folder / "broker.pem"
        if protocol not in PROTOCOLS:
            raise ValueError(f"security_protocol={protocol!r}: use one of {', '.join(PROTOCOLS)}")
        if self.has_logins and not self.users:
            raise ValueError(f"{protocol} needs users: users={{'alice': 'secret'}}")
        if self.users and not self.has_logins:
            raise ValueError(
                f"users log in by SASL: security_protocol='SASL_PLAINTEXT' or 'SASL_SSL', not {protocol!r}"
            )
        for user in self.users:
            if not _USER.match(user):
                raise ValueError(f"users: {user!r} is no name of letters, digits, '.', '_' and '-'")

    @property
    def has_logins(self) -> bool:
        """Whether clients log in."""
        return self.protocol.startswith("SASL_")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    def settings(self) -> dict[str, str]:
        """The broker's settings, as texts."""
        settings: dict[str, str] = {}
        if self.has_tls:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self._broker_file)}
        if self.has_logins:
            users = " ".join(f"user_{name}={_quote(password)}" for name, password in self.users.items())
            prefix = f"listener.name.{self.protocol.lower()}.{_MECHANISM.lower()}"
            settings["sasl.enabled.mechanisms"] = _MECHANISM
            settings[f"{prefix}.sasl.jaas.config"] = f"{_LOGIN_MODULE} {users};"
        return settings

    def write_files(self) -> None:
        """Make the certificate, unless it is there. Raises ModuleNotFoundError where cryptography is missing."""
        if not self.has_tls or self._broker_file.exists():
            return
        try:
            from odradek.testing.certificates import make_certificates
        except ModuleNotFoundError as failure:
            raise ModuleNotFoundError(
                "a broker with TLS needs cryptography to make its certificate: pip install 'odradek[security]'",
                name=failure.name,
            ) from failure
        authority, broker = make_certificates()
        self.ca_file.write_bytes(authority)
        self._broker_file.touch(mode=0o600)
        self._broker_file.write_bytes(broker)

    def client_properties(self, user: str | None) -> dict[str, str]:
        """What a client needs besides the address, with the keys of Kafka's clients."""
        name, password = self._login(user)
        properties = {"security.protocol": self.protocol}
        if self.has_tls:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_file)}
        if self.has_logins:
            login = f"{_LOGIN_MODULE} username={_quote(name)} password={_quote(password)};"
            properties |= {"sasl.mechanism": _MECHANISM, "sasl.jaas.config": login}
        return properties

    def librdkafka_properties(self, user: str | None) -> dict[str, str]:
        """The same with the keys of librdkafka, as confluent-kafka and kcat have them."""
        name, password = self._login(user)
        properties = {"security.protocol": self.protocol}
        if self.has_tls:
            properties["ssl.ca.location"] = str(self.ca_file)
        if self.has_logins:
            properties |= {"sasl.mechanism": _MECHANISM, "sasl.username": name, "sasl.password": password}
        return properties

    def _login(self, user: str | None) -> tuple[str, str]:
        """A user with its password; the first one for None. Raises KeyError for an unknown one."""
        if not self.has_logins:
            return "", ""
        name = next(iter(self.users)) if user is None else user
        if name not in self.users:
            raise KeyError(f"the broker has no user {name!r}; it has {', '.join(self.users)}")
        return name, self.users[name]


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
