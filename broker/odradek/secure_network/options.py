"""How connections are secured, read from Kafka's keys: `security.protocol`, `ssl.*`, `sasl.*`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odradek.foundation.endpoints import SECURITY_PROTOCOLS
from odradek.foundation.errors import SettingError
from odradek.foundation.protection import SASL_MECHANISMS, WITH_SASL, WITH_TLS
from odradek.security.jaas import parse_jaas
from odradek.security.tls_settings import TlsOptions, tls_options


class Credentials(NamedTuple):
    """A login. The password is never shown."""

    mechanism: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.user})"


class ConnectionSecurity(NamedTuple):
    """What is done on a new connection before it is used."""

    tls: TlsOptions | None
    credentials: Credentials | None


def connection_security(
    protocol: str, value: Callable[[str], Any], *, name: str, mechanism_key: str = "sasl.mechanism"
) -> ConnectionSecurity:
    """The security of `protocol`, with the values that `value` gives by key. Raises SettingError that names `name`."""
    if protocol not in SECURITY_PROTOCOLS:
        raise SettingError(f"{name}: security.protocol must be one of {', '.join(SECURITY_PROTOCOLS)}")
    tls = tls_options(name, value) if protocol in WITH_TLS else None
    return ConnectionSecurity(
        tls, _credentials(value, name, mechanism_key) if protocol in WITH_SASL else None
    )


def _credentials(value: Callable[[str], Any], name: str, mechanism_key: str) -> Credentials:
    mechanism = value(mechanism_key)
    if mechanism not in SASL_MECHANISMS:
        raise SettingError(
            f"{name}: {mechanism_key}={mechanism or 'GSSAPI'} cannot be used; choose from {', '.join(SASL_MECHANISMS)}"
        )
    text = value("sasl.jaas.config")
    if not text:
        raise SettingError(
            f"{name}: a login with {mechanism} needs a user and a password in sasl.jaas.config, as "
            '…LoginModule required username="…" password="…";'
        )
    options = parse_jaas(text, key=f"{name}: sasl.jaas.config", mechanism=mechanism).options
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise SettingError(f"{name}: sasl.jaas.config needs username and password")
    return Credentials(mechanism, user, password)
